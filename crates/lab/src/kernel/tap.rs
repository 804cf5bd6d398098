//! Captures of what the kernel's TCP sends.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::mpsc::Receiver;

use tidegate_limiter::Nanos;
use tidegate_trace::read::LinkType;
use tidegate_trace::write::{PcapWriter, Resolution};

use super::KernelError;

/// What passes a tap: when, and its bytes.
pub(super) type Passing = (Nanos, Vec<u8>);

/// A capture to be written.
pub(super) struct Tap {
    out: PcapWriter<BufWriter<File>>,
    snaplen: usize,
}

impl Tap {
    /// Begins a capture.
    pub(super) fn create(file: &Path, snaplen: u32, link: LinkType) -> Result<Self, KernelError> {
        let out = File::create(file).map(BufWriter::new);
        let out = out.and_then(|out| PcapWriter::new(out, link, Resolution::Nanos));
        let failed = |error| KernelError::Capture(file.to_owned(), error);
        Ok(Self {
            out: out.map_err(failed)?,
            snaplen: snaplen as usize,
        })
    }

    /// Writes what comes until the sender is gone; its times count from `start`.
    pub(super) fn write(mut self, start: Nanos, from: &Receiver<Passing>) -> io::Result<()> {
        for (at, bytes) in from {
            let kept = &bytes[..bytes.len().min(self.snaplen)];
            self.out.frame(start + at, kept, bytes.len() as u32)?;
        }
        self.out.finish().map(drop)
    }
}
