//! Measures a transfer, once it is done.

use super::capacity::Capacity;
use super::interplay;
use super::metrics::Metrics;
use super::rtt::{Growth, Rtt};
use super::sent::Marks;
use super::transfer::Transfer;
use crate::read::Nanos;

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
        (metrics.pattern, metrics.evidence) = interplay::find(transfer, &metrics, &mut self.values);
        metrics
    }
}
