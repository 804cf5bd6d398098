//! A file that is being written: a compressed capture, with counts at its end.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_trace::read::{LinkType, Nanos};
use tidegate_trace::write::pcapng::{Interface, Marks, PcapngWriter, Section, Statistics};
use zstd::stream::write::Encoder;

use crate::error::SampleError;
use crate::folder::{Folder, Part};

/// Times of packets go back by less than this, since several processors take them, unless the clock was set back.
const DISORDER: Nanos = 10_000_000_000;

/// The level at which files are compressed: the fastest that finds most of what headers repeat.
pub(crate) const LEVEL: i32 = 3;

/// When a file ends and the next one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes of a file. It may be larger by what the compression holds back, at most about 128 kB.
    pub size: u64,
    /// Files begin at multiples of this time since 1970, if there are packets.
    pub every: Duration,
}

/// What every file says of its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    pub host: String,
    pub interface: String,
    pub link: LinkType,
}

/// A capture that is being written.
pub(crate) struct Open {
    capture: PcapngWriter<Encoder<'static, Part>>,
    /// When the next file must begin.
    until: Nanos,
    start: Nanos,
    end: Nanos,
    packets: u64,
}

/// A file that is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Packets in it.
    pub packets: u64,
    /// Packets that are missing in it because the ring was full.
    pub dropped: u64,
}

impl Open {
    /// Begins a file for a packet that was captured at this time.
    pub fn begin(
        folder: &Folder,
        origin: &Origin,
        rotation: Rotation,
        comment: &str,
        at: Nanos,
    ) -> Result<Self, SampleError> {
        let part = folder.begin(at)?;
        let path = part.path().to_owned();
        let section = Section {
            system: "Linux",
            program: concat!("tidegate ", env!("CARGO_PKG_VERSION")),
            comment,
        };
        let interface = Interface {
            name: &origin.interface,
            link: origin.link,
            filter: "headers of TCP packets of the flows that are sampled",
        };
        let begin = || {
            let encoder = Encoder::new(part, LEVEL)?;
            PcapngWriter::new(encoder, &section, &interface)
        };
        let every = u64::try_from(rotation.every.as_nanos())
            .unwrap_or(u64::MAX)
            .max(1);
        Ok(Self {
            capture: begin().map_err(SampleError::write(path))?,
            until: (at / every).saturating_add(1).saturating_mul(every),
            start: at,
            end: at,
            packets: 0,
        })
    }

    /// Whether a packet of this time, or nothing until this time, belongs to the next file.
    pub fn is_over(&self, at: Nanos, rotation: Rotation) -> bool {
        // If the clock was set back, the end may not come for long.
        let is_early = was_set_back(self.start, at);
        at >= self.until || is_early || self.capture.get_ref().get_ref().bytes() >= rotation.size
    }

    /// Ends the file before packets of this time, at the latest.
    pub fn end_at(&mut self, at: Nanos) {
        self.until = self.until.min(at);
    }

    /// Packets in it.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    pub fn write(
        &mut self,
        at: Nanos,
        frame: &[u8],
        wire_len: u32,
        marks: Marks,
    ) -> io::Result<()> {
        self.packets += 1;
        self.end = self.end.max(at);
        self.capture.frame(at, frame, wire_len, marks)
    }

    /// Completes the file, with what the kernel counted meanwhile: packets that passed the filter, and lost ones.
    pub fn close(mut self, accepted: u64, dropped: u64) -> Result<Closed, SampleError> {
        let path = self.capture.get_ref().get_ref().path().to_owned();
        let counts = Statistics {
            start: self.start,
            end: self.end,
            accepted,
            dropped,
            written: self.packets,
        };
        let packets = self.packets;
        let close = move || {
            self.capture.statistics(&counts)?;
            self.capture.into_inner().finish()?.complete()
        };
        let (path, bytes) = close().map_err(SampleError::write(path))?;
        Ok(Closed {
            path,
            bytes,
            packets,
            dropped,
        })
    }
}

/// Whether the clock was set back between these times, of which the first came first. Times of packets that are a little out of order do not
/// count.
pub fn was_set_back(before: Nanos, now: Nanos) -> bool {
    now.saturating_add(DISORDER) < before
}

/// The present time.
pub(crate) fn now() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}
