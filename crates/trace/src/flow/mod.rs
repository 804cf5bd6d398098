//! Packets to flows, and flows to segments.

mod duplicate;
mod segment;
mod segmentation;
mod table;
mod tracker;

pub use table::{Counters, FlowTable, Settings, Sink};

use crate::annotate::Totals;
use crate::read::Nanos;
use crate::wire::Endpoint;

#[cfg(test)]
mod tests;

/// What is known of a TCP connection as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowInfo {
    /// Its number in the capture, from 0, by its first packet.
    pub number: u64,
    /// Who opened it: the sender of the SYN, or who most likely did where none was seen.
    pub client: Endpoint,
    /// The other end.
    pub server: Endpoint,
    /// When its first packet was captured.
    pub started_at: Nanos,
    /// Whether the capture holds the client's SYN.
    pub syn_seen: bool,
}

/// Why a flow was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Both sides finished, or one reset it.
    Closed,
    /// Nothing came for the idle time-out.
    Idle,
    /// Its ports were taken for a new connection.
    Reused,
    /// The capture ended.
    CaptureEnd,
    /// The flow table was full, and this flow had been quiet the longest.
    Evicted,
}

/// A flow that is done.
#[derive(Debug, Clone)]
pub struct FlowSummary<'a> {
    /// Who and when.
    pub info: &'a FlowInfo,
    /// Why it ended.
    pub ended: Ended,
    /// What the client sent, and what the server did; `None` where that is no data.
    pub sent: [Option<&'a Totals>; 2],
}
