//! What one endpoint sent in a whole flow.

use super::histogram::Histogram;
use super::metrics::Metrics;
use super::path::Path;
use super::sent::Sent;
use super::transfer::{Tally, Transfer};
use crate::read::Nanos;

/// The memory of a sum, in packets of about 100 bytes.
const WEIGHT: usize = 8;
/// Steps of round-trip times, of 4 bytes each, that take as much as a packet.
const STEPS_OF_A_PACKET: usize = 25;

/// The sum of an endpoint's finished transfers in a flow.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Segments in which it sent data.
    pub segments: u64,
    /// Sums over the segments; the capacity is that of the segment with the most trains, pattern and
    /// evidence are those of the segment with the most losses.
    pub metrics: Metrics,
    /// Sums over the segments; the wait time is the longest.
    pub tally: Tally,
    /// The largest payload of a wire packet.
    pub mss: u32,
    /// How far the capture is from both ends.
    pub path: Path,
    /// Segments with bufferbloat.
    pub bloated_segments: u64,
    /// Losses in the segment that had the most.
    most_lost: u64,
    rtts: Histogram,
}

const _: () = assert!(size_of::<Totals>() <= WEIGHT * 100);

impl Totals {
    pub(crate) fn add(&mut self, transfer: &Transfer<'_>, metrics: &Metrics) {
        let (sum, tally) = (&mut self.metrics, &mut self.tally);
        if self.segments == 0 {
            sum.first_sent = metrics.first_sent;
        }
        if sum.bytes_before_loss.is_none() {
            sum.bytes_before_loss = metrics
                .bytes_before_loss
                .map(|here| here + tally.payload_bytes);
        }
        self.segments += 1;
        let end = (metrics.first_sent + metrics.duration).max(sum.first_sent + sum.duration);
        sum.first_sent = sum.first_sent.min(metrics.first_sent);
        sum.duration = end - sum.first_sent;
        sum.data_packets += metrics.data_packets;
        sum.lost_packets += metrics.lost_packets;
        sum.retransmitted_packets += metrics.retransmitted_packets;
        sum.spurious_packets += metrics.spurious_packets;
        sum.congestion_echoes += metrics.congestion_echoes;
        sum.acknowledged |= metrics.acknowledged;
        sum.unique_bytes += metrics.unique_bytes;
        sum.delivered_bytes += metrics.delivered_bytes;
        sum.missed_bytes += metrics.missed_bytes;
        sum.max_in_flight = sum.max_in_flight.max(metrics.max_in_flight);
        if metrics.lost_packets > self.most_lost {
            self.most_lost = metrics.lost_packets;
            sum.pattern = metrics.pattern;
            sum.evidence = metrics.evidence;
        }
        let trains = |metrics: &Metrics| metrics.capacity.map_or(0, |capacity| capacity.trains);
        if trains(metrics) > trains(sum) {
            sum.capacity = metrics.capacity;
        }
        sum.base_rtt = metrics.base_rtt.or(sum.base_rtt);
        self.bloated_segments += u64::from(metrics.bufferbloat);
        self.mss = self.mss.max(transfer.mss);
        self.path = transfer.path;
        let more = transfer.tally;
        tally.wait = tally.wait.max(more.wait);
        tally.packets += more.packets;
        tally.payload_bytes += more.payload_bytes;
        tally.ip_bytes += more.ip_bytes;
        tally.link_bytes += more.link_bytes;
        tally.duplicates += more.duplicates;
        tally.strays += more.strays;
        tally.probes += more.probes;
        tally.unseen_bytes += more.unseen_bytes;
        tally.idle = tally.idle.saturating_add(more.idle);
        tally.window_limited = tally.window_limited.saturating_add(more.window_limited);
        tally.lost_before += more.lost_before;
        tally.window_known |= more.window_known;
        for rtt in transfer.sent.iter().filter_map(Sent::rtt) {
            self.rtts.add(rtt);
        }
    }

    /// The memory that it takes, in packets.
    pub(crate) fn kept(&self) -> usize {
        WEIGHT + self.rtts.steps() / STEPS_OF_A_PACKET
    }

    /// The least round-trip time.
    pub fn rtt_min(&self) -> Option<Nanos> {
        self.rtts.least()
    }

    /// The greatest round-trip time.
    pub fn rtt_max(&self) -> Option<Nanos> {
        self.rtts.greatest()
    }

    /// A percentile of the flow's round-trip times, within 3.2 %.
    pub fn rtt_percentile(&self, percent: u64) -> Option<Nanos> {
        self.rtts.percentile(percent)
    }
}
