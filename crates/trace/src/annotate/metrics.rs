//! Measures of a transfer.

use super::capacity::Capacity;
use super::pattern::{Evidence, Pattern};
use super::rtt::{Growth, Rtt};
use crate::read::Nanos;

/// The measures of one transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Metrics {
    /// Wire packets with data, retransmissions among them.
    pub data_packets: u64,
    /// Those that the network lost.
    pub lost_packets: u64,
    /// Those that repeat bytes sent before.
    pub retransmitted_packets: u64,
    /// Those whose retransmission was spurious: they had arrived.
    pub spurious_packets: u64,
    /// Bytes sent for the first time.
    pub unique_bytes: u64,
    /// Of these, the bytes that were acknowledged; all of them where the capture shows no
    /// acknowledgements at all.
    pub delivered_bytes: u64,
    /// Bytes that the capture missed and that were delivered; see [`Tally::missed`](super::Tally::missed).
    pub missed_bytes: u64,
    /// Times at which the receiver echoed congestion marks (ECN) anew: at least as many packets were marked.
    pub congestion_echoes: u64,
    /// Whether the capture shows an acknowledgement of any of it.
    pub acknowledged: bool,
    /// When the first data packet was sent.
    pub first_sent: Nanos,
    /// From the first data packet to the last acknowledgement of one (or the last data packet).
    pub duration: Nanos,
    /// Round-trip times.
    pub rtt: Option<Rtt>,
    /// The least round-trip time between the same two hosts so far, this transfer's included.
    pub base_rtt: Option<Nanos>,
    /// Where the capture was taken between the ends: the median round trip from there to the sender and back, of packets
    /// that echo a timestamp first. What they waited before they came to the capture is in it.
    pub rtt_to_sender: Option<Nanos>,
    /// How they relate to the bytes in flight.
    pub growth: Option<Growth>,
    /// Whether they are as in a bloated buffer.
    pub bufferbloat: bool,
    /// Payload bytes sent before the first lost packet.
    pub bytes_before_loss: Option<u64>,
    /// The rate at which trains of packets were acknowledged, whatever limited it.
    pub train_rate: Option<Capacity>,
    /// The bottleneck's capacity, where trains of packets prove one.
    pub capacity: Option<Capacity>,
    /// Most bytes in flight.
    pub max_in_flight: u32,
    /// How TCP and the loss play together.
    pub pattern: Pattern,
    /// What the pattern was recognised by.
    pub evidence: Evidence,
}

/// Fewer marks may have any cause, such as a queue that was long for a moment.
const MARKED: u64 = 3;

impl Metrics {
    /// Whether congestion marks (ECN) slowed the sender down.
    pub fn is_marked(&self) -> bool {
        self.congestion_echoes >= MARKED
    }

    /// Lost packets over data packets, 0 to 1.
    pub fn loss_rate(&self) -> f64 {
        self.lost_packets as f64 / self.data_packets.max(1) as f64
    }

    /// Payload bits per second delivered, with what the capture missed, over [`duration`](Self::duration).
    pub fn goodput_bps(&self) -> Option<f64> {
        (self.duration > 0)
            .then(|| (self.delivered_bytes + self.missed_bytes) as f64 * 8e9 / self.duration as f64)
    }
}
