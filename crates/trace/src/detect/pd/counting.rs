//! What a run counts.

use crate::annotate::Sent;

/// Which packets count as lost, and which of them are followed.
#[derive(Debug)]
pub(super) struct Counting {
    /// Whether a packet counts as lost.
    pub lost: fn(&Sent) -> bool,
    /// A packet's round-trip time in ms, where it has one.
    pub rtt_ms: fn(&Sent) -> Option<f64>,
    /// Whether the bucket is followed to the transfer's end, or to the last loss only.
    pub to_the_end: bool,
}
