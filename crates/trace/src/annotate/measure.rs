//! Measures a transfer, once it is done.

use std::collections::HashMap;
use std::net::IpAddr;

use super::capacity::Trains;
use super::interplay;
use super::metrics::Metrics;
use super::path::Vantage;
use super::rtt::{Growth, Rtt};
use super::sent::Marks;
use super::transfer::Transfer;
use crate::read::Nanos;
use crate::wire::Endpoint;

/// Pairs of hosts whose least round-trip time is remembered. With more, all are forgotten.
const MAX_PAIRS: usize = 1 << 16;

/// Measures transfers; keeps its memory between them.
#[derive(Debug, Default)]
pub struct Measurer {
    rtts: Vec<Nanos>,
    values: Vec<f64>,
    trains: Trains,
    /// The least round-trip times between two hosts.
    bases: HashMap<[IpAddr; 2], Nanos>,
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
            metrics.congestion_echoes += u64::from(sent.marks.has(Marks::CONGESTION));
            before_loss += u64::from(sent.len);
            metrics.max_in_flight = metrics.max_in_flight.max(sent.in_flight);
            self.rtts.extend(sent.rtt());
        }
        // An acknowledgement at time 0 is kept as one at 1.
        metrics.duration = match last - metrics.first_sent {
            1 if metrics.first_sent == 0 => 0,
            duration => duration,
        };
        metrics.acknowledged = acked_bytes > 0;
        metrics.delivered_bytes = if metrics.acknowledged {
            acked_bytes
        } else {
            metrics.unique_bytes
        };
        metrics.missed_bytes = transfer.tally.missed();
        metrics.rtt = Rtt::of(&mut self.rtts);
        metrics.growth = Growth::of(transfer.sent);
        metrics.base_rtt = self.base(transfer, metrics.rtt.map(|rtt| rtt.min));
        metrics.bufferbloat = metrics
            .rtt
            .zip(metrics.base_rtt)
            .is_some_and(|(rtt, base)| rtt.is_bloat(base, metrics.growth));
        if transfer.path.vantage() == Vantage::Between {
            let first = transfer
                .sent
                .iter()
                .filter(|sent| !sent.is_retransmission());
            self.rtts.clear();
            self.rtts.extend(first.filter_map(|sent| sent.echo.get()));
            metrics.rtt_to_sender = Rtt::of(&mut self.rtts).map(|rtt| rtt.median);
        }
        // At the receiver the acknowledgements' spacing is what the receiver made of the data's.
        if transfer.path.vantage() != Vantage::Receiver {
            let base = metrics.base_rtt.unwrap_or(0);
            self.trains.find(transfer.sent, transfer.mss, base);
            metrics.train_rate = self.trains.throughput();
            metrics.capacity = self.trains.capacity();
        }
        (metrics.pattern, metrics.evidence) = interplay::find(transfer, &metrics, &mut self.values);
        metrics
    }
    /// The least round-trip time between the two hosts so far, with the transfer's and the one that
    /// the rest of its flow shows.
    fn base(&mut self, transfer: &Transfer<'_>, least: Option<Nanos>) -> Option<Nanos> {
        let path = transfer.path;
        let of_flow = match path.vantage() {
            Vantage::Receiver => path.to_sender,
            _ => path.to_receiver,
        };
        let least = least?.min(of_flow.unwrap_or(Nanos::MAX));
        if self.bases.len() >= MAX_PAIRS {
            self.bases.clear();
        }
        let pair = [transfer.sender, transfer.receiver].map(Endpoint::ip);
        let base = self.bases.entry(pair).or_insert(least);
        *base = least.min(*base);
        Some(*base)
    }
}
