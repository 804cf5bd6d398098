//! The reader of captures of every format.

use std::io::Read;

use super::error::{ReadError, Reason};
use super::frame::{Frame, PassedOver};
use super::sampled::Sampled;
use super::source::Window;
use super::{pcap, pcapng};

enum Format {
    Pcap(pcap::Header),
    Pcapng(pcapng::Sections),
}

/// Reads the frames of one capture, whatever its format and compression.
///
/// ```no_run
/// let file = std::fs::File::open("transfer.pcap.xz")?;
/// let mut capture = tidegate_trace::read::Capture::new(file)?;
/// while let Some(frame) = capture.frame()? {
///     println!("{} {} bytes", frame.at, frame.wire_len);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Capture {
    window: Window,
    format: Format,
}

impl Capture {
    /// Starts to read a capture: finds its compression and its format in its first bytes.
    ///
    /// # Errors
    /// Input that is empty, cannot be read, is no capture, or has a link layer for which there is
    /// no decoder.
    pub fn new(input: impl Read + Send + 'static) -> Result<Self, ReadError> {
        let mut window = Window::new(Box::new(input))?;
        let pcapng = window.peek(4)?.map(pcapng::is_start);
        let format = match pcapng {
            None if window.is_empty() => return Err(window.error(Reason::Empty)),
            None => return Err(window.error(Reason::NotACapture)),
            Some(true) => Format::Pcapng(pcapng::Sections::default()),
            Some(false) => Format::Pcap(pcap::Header::read(&mut window)?),
        };
        Ok(Self { window, format })
    }

    /// The next frame; `None` at the proper end of the capture.
    ///
    /// # Errors
    /// A record that is cut off or lies about its length, or input that cannot be read. Nothing
    /// can be read after an error; the frames before it stay valid.
    pub fn frame(&mut self) -> Result<Option<Frame<'_>>, ReadError> {
        match &mut self.format {
            Format::Pcap(header) => header.frame(&mut self.window),
            Format::Pcapng(sections) => sections.frame(&mut self.window),
        }
    }

    /// What the section of the last frame says, if `tidegate sample` wrote it.
    #[inline]
    pub fn sampled(&self) -> Option<&Sampled> {
        match &self.format {
            Format::Pcap(_) => None,
            Format::Pcapng(sections) => sections.sampled.as_ref(),
        }
    }

    /// The capture goes on with one whose last frames a sampler wrote: another sampler's are an error.
    pub(crate) fn goes_on(&mut self, before: Option<Sampled>) {
        if let Format::Pcapng(sections) = &mut self.format {
            sections.sampled = before;
        }
    }

    /// What was passed over so far without ending the read: packets of pcapng interfaces with an
    /// unsupported link layer, malformed packet blocks, and packets that the capturing system
    /// says it dropped.
    pub fn passed_over(&self) -> PassedOver {
        match &self.format {
            Format::Pcap(_) => PassedOver::default(),
            Format::Pcapng(sections) => sections.passed_over.clone(),
        }
    }
}
