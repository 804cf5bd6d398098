//! A segment of a flow while it lasts: a request and its response [Flach16 §4].

use crate::annotate::Tally;
use crate::read::Nanos;

/// What one endpoint sends in a segment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Side {
    /// The number of its first data packet in the flow.
    pub first: u64,
    /// The stream position of relative sequence number 0.
    pub origin: Option<u64>,
    /// The stream position of the first data.
    pub data: Option<u64>,
    pub started_at: Option<Nanos>,
    /// The stream position behind the last data, once the segment is over.
    pub end: u64,
    pub tally: Tally,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub number: u32,
    pub continues: bool,
    /// Whether data was sent yet, and when it first was.
    pub begun: bool,
    pub begun_at: Nanos,
    pub sides: [Side; 2],
}
