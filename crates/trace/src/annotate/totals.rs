//! What one endpoint sent in a whole flow.

use super::metrics::Metrics;
use super::sent::Sent;
use super::transfer::{Tally, Transfer};
use crate::read::Nanos;

/// Two to this power steps to a factor of two: a bucket's middle is within 3.2 % of what falls in.
const STEPS: u32 = 4;
const BUCKETS: usize = 64 << STEPS;

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
    /// The least round-trip time.
    pub rtt_min: Option<Nanos>,
    /// The greatest round-trip time.
    pub rtt_max: Option<Nanos>,
    /// Segments with bufferbloat.
    pub bloated_segments: u64,
    /// Losses in the segment that had the most.
    most_lost: u64,
    /// Counts of round-trip times by size, from the shortest seen.
    rtts: Vec<u32>,
}

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
        sum.unique_bytes += metrics.unique_bytes;
        sum.delivered_bytes += metrics.delivered_bytes;
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
        if let Some(rtt) = metrics.rtt {
            self.rtt_min = Some(self.rtt_min.map_or(rtt.min, |least| least.min(rtt.min)));
            self.rtt_max = Some(self.rtt_max.map_or(rtt.max, |most| most.max(rtt.max)));
        }
        self.bloated_segments += u64::from(metrics.bufferbloat);
        self.mss = self.mss.max(transfer.mss);
        let more = transfer.tally;
        tally.wait = tally.wait.max(more.wait);
        tally.packets += more.packets;
        tally.payload_bytes += more.payload_bytes;
        tally.ip_bytes += more.ip_bytes;
        tally.link_bytes += more.link_bytes;
        tally.duplicates += more.duplicates;
        tally.probes += more.probes;
        tally.unseen_bytes += more.unseen_bytes;
        tally.idle = tally.idle.saturating_add(more.idle);
        tally.window_limited = tally.window_limited.saturating_add(more.window_limited);
        tally.window_known |= more.window_known;
        for rtt in transfer.sent.iter().filter_map(Sent::rtt) {
            if self.rtts.is_empty() {
                self.rtts = vec![0; BUCKETS];
            }
            let count = &mut self.rtts[bucket(rtt)];
            *count = count.saturating_add(1);
        }
    }

    /// A percentile of the flow's round-trip times, within 3.2 %.
    pub fn rtt_percentile(&self, percent: u64) -> Option<Nanos> {
        let all: u64 = self.rtts.iter().copied().map(u64::from).sum();
        let mut rank = (all * percent).div_ceil(100).max(1);
        for (i, &count) in self.rtts.iter().enumerate() {
            if rank <= u64::from(count) {
                return Some(middle(i));
            }
            rank -= u64::from(count);
        }
        None
    }
}

fn bucket(value: Nanos) -> usize {
    let value = value.max(1 << STEPS);
    let power = value.ilog2();
    let step = (value >> (power - STEPS)) & ((1 << STEPS) - 1);
    (((power - STEPS) as usize) << STEPS) + step as usize
}

fn middle(bucket: usize) -> Nanos {
    let power = (bucket >> STEPS) as u32;
    let low = ((1 << STEPS) + (bucket as u64 & ((1 << STEPS) - 1))) << power;
    low + (1u64 << power) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_they_say() {
        for value in (1..2000).chain([1_000_000, 123_456_789, u64::MAX / 3, u64::MAX]) {
            let found = middle(bucket(value)) as f64;
            let wanted = value.max(16) as f64;
            assert!((found / wanted - 1.0).abs() < 0.035, "{value}: {found}");
            assert!(bucket(value) < BUCKETS);
        }
    }
}
