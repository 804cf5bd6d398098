//! What captures hold: frames.

use super::error::ReadError;
use super::link::LinkType;

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
    /// Whether the capturing host sent it (`true`), or it arrived there, where the capture says so.
    pub outbound: Option<bool>,
}

/// No record of a sane capture is longer: IPv6 BIG TCP super-packets reach 512 KiB.
pub(super) const MAX_RECORD: usize = 16 << 20;

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

impl PassedOver {
    /// Adds what was left out of another piece of the capture.
    pub fn add(&mut self, other: Self) {
        self.unsupported += other.unsupported;
        self.first = self.first.take().or(other.first);
        self.malformed += other.malformed;
        self.untimed += other.untimed;
        self.dropped_by_capture = self
            .dropped_by_capture
            .saturating_add(other.dropped_by_capture);
    }
}
