//! Time in which the application had written nothing more, though data may still be in flight.
//!
//! TCP sends a packet that is not full only where its buffer is empty [RFC 9293 §3.7.4]. A sender that its window, its
//! pacing or a network holds back sends full packets.

use crate::annotate::{Sent, TransferSummary};
use crate::read::Nanos;

/// Options take up to this many bytes of a full packet [RFC 9293 §3.1].
const OPTIONS: u32 = 40;
/// In fewer packets there is no habit.
const FEW_PACKETS: u64 = 11;

/// Whether it might tell more than the time in which nothing was in flight, or the window left no room.
pub fn might_be_starved(summary: &TransferSummary) -> bool {
    let (metrics, tally) = (&summary.metrics, &summary.tally);
    metrics.data_packets >= FEW_PACKETS
        && tally.idle.max(tally.window_limited) < metrics.duration / 2
}

/// The time from each packet that was not full to the next new one.
pub fn starved(sent: &[Sent]) -> Nanos {
    let full = sent.iter().map(|packet| packet.len).max().unwrap_or(0);
    let mut short_at = None;
    let mut sum: Nanos = 0;
    for packet in sent.iter().filter(|packet| !packet.is_retransmission()) {
        let since = |at| packet.at.saturating_sub(at);
        sum = sum.saturating_add(short_at.map_or(0, since));
        short_at = (packet.len + OPTIONS < full).then_some(packet.at);
    }
    sum
}
