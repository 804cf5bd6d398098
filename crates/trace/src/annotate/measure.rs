//! What a segment's packets come to, once it is done.

use super::rtt::{Growth, Rtt};
use super::{Capacity, Evidence, Marks, Pattern, Transfer, pattern};
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
    /// Those that were retransmitted in vain.
    pub spurious_packets: u64,
    /// Bytes sent for the first time.
    pub unique_bytes: u64,
    /// Of these, the bytes that were acknowledged; all of them where the capture shows no
    /// acknowledgements at all.
    pub delivered_bytes: u64,
    /// When the first data packet was sent.
    pub first_sent: Nanos,
    /// From the first data packet to the last acknowledgement of one (or the last data packet).
    pub duration: Nanos,
    /// Round-trip times.
    pub rtt: Option<Rtt>,
    /// How they go with the bytes in flight.
    pub growth: Option<Growth>,
    /// Whether they grow as in a bloated buffer.
    pub bufferbloat: bool,
    /// Payload bytes sent before the first lost packet.
    pub bytes_before_loss: Option<u64>,
    /// The bottleneck's capacity.
    pub capacity: Option<Capacity>,
    /// Most bytes in flight.
    pub max_in_flight: u32,
    /// How TCP and the loss play together.
    pub pattern: Pattern,
    /// What tells so.
    pub evidence: Evidence,
}

impl Metrics {
    /// Lost packets over data packets, 0 to 1.
    pub fn loss_rate(&self) -> f64 {
        self.lost_packets as f64 / self.data_packets.max(1) as f64
    }

    /// Payload bits per second delivered, over [`duration`](Self::duration).
    pub fn goodput_bps(&self) -> Option<f64> {
        (self.duration > 0).then(|| self.delivered_bytes as f64 * 8e9 / self.duration as f64)
    }
}

/// Measures transfers; keeps its memory between them.
#[derive(Debug, Default)]
pub struct Measurer {
    rtts: Vec<Nanos>,
    values: Vec<f64>,
}

impl Measurer {
    /// The measures of a transfer. Linear in its packets.
    pub fn measure(&mut self, transfer: &Transfer<'_>) -> Metrics {
        let mut metrics = Metrics {
            data_packets: transfer.sent.len() as u64,
            first_sent: transfer
                .sent
                .first()
                .map_or(transfer.started_at, |sent| sent.at),
            ..Metrics::default()
        };
        let mut last = metrics.first_sent;
        let mut acked_bytes = 0;
        let mut before_loss = 0;
        self.rtts.clear();
        for sent in transfer.sent {
            last = last.max(sent.at).max(sent.acked_at);
            if sent.is_retransmission() {
                metrics.retransmitted_packets += 1;
            } else {
                metrics.unique_bytes += u64::from(sent.len);
                if sent.acked_at != 0 {
                    acked_bytes += u64::from(sent.len);
                }
            }
            if sent.lost() {
                metrics.lost_packets += 1;
                metrics.bytes_before_loss.get_or_insert(before_loss);
            } else if sent.marks.has(Marks::DELIVERED) {
                metrics.spurious_packets += 1;
            }
            before_loss += u64::from(sent.len);
            metrics.max_in_flight = metrics.max_in_flight.max(sent.in_flight);
            self.rtts.extend(sent.rtt());
        }
        metrics.duration = last - metrics.first_sent;
        metrics.delivered_bytes = if acked_bytes > 0 {
            acked_bytes
        } else {
            metrics.unique_bytes
        };
        metrics.rtt = Rtt::of(&mut self.rtts);
        metrics.growth = Growth::of(transfer.sent);
        metrics.bufferbloat = metrics
            .rtt
            .zip(metrics.growth)
            .is_some_and(|(rtt, growth)| growth.is_bloat(&rtt));
        metrics.capacity = Capacity::of(transfer.sent, transfer.mss, &mut self.values);
        (metrics.pattern, metrics.evidence) = pattern::find(transfer, &metrics, &mut self.values);
        metrics
    }
}
