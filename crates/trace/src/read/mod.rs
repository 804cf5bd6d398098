//! Captures: pcap and pcapng, plain or compressed, to frames.
//!
//! One pass over any [`Read`], with one buffer that never holds more than the largest record a
//! sane capture can have. What a file says of its own lengths is never believed before it is
//! checked: input is hostile.

mod error;
mod link;
mod pcap;
mod pcapng;
mod source;

pub use error::{ReadError, Reason};
pub use link::LinkType;

use std::io::Read;

use source::Window;

#[cfg(test)]
mod tests;

/// Nanoseconds since the Unix epoch.
pub type Nanos = u64;

/// One captured frame, borrowed from the reader's buffer until the next is read.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// When it was captured.
    pub at: Nanos,
    /// What its first header is.
    pub link: LinkType,
    /// The bytes that the capture kept.
    pub data: &'a [u8],
    /// Its length on the wire, in bytes, as the capture states it; at least `data.len()`.
    pub wire_len: u32,
}

/// No record of a sane capture is longer: IPv6 BIG TCP super-packets reach 512 KiB.
const MAX_RECORD: usize = 16 << 20;

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
    /// can be read after an error; what was read before stays valid.
    pub fn frame(&mut self) -> Result<Option<Frame<'_>>, ReadError> {
        match &mut self.format {
            Format::Pcap(header) => header.frame(&mut self.window),
            Format::Pcapng(sections) => sections.frame(&mut self.window),
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

/// What a reader left out of a capture that it could otherwise read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// Packets on interfaces with an unsupported link layer, or that are not described.
    pub unsupported: u64,
    /// The first such packet as an error with its place.
    pub first: Option<ReadError>,
    /// Packet blocks that contradict themselves.
    pub malformed: u64,
    /// Packets whose blocks carry no timestamp.
    pub untimed: u64,
    /// Packets dropped while capturing, as pcapng's interface statistics count them.
    pub dropped_by_capture: u64,
}
