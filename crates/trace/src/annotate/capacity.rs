//! The bottleneck's capacity, from the spacing of acknowledgements.
//!
//! A burst leaves the bottleneck spread out to its rate, and the acknowledgements carry that
//! spacing back [Flach16 §4.2, citing packet-pair methods]. Single pairs are noise; trains of
//! packets are not.

use super::sent::Sent;
use crate::read::Nanos;

/// Full packets in a train.
const TRAIN: u64 = 8;
const PERCENTILE: usize = 75;

/// A train proves a bottleneck if it was spread out to this many quarters of the time …
const SPREAD_QUARTERS: u64 = 5;
/// … or if its packets waited by this, and by this part of the least round-trip time.
const WAITED: Nanos = 1_000_000;
const WAITED_PART: u64 = 10;
/// Fewer trains prove nothing, nor do trains of which a quarter is this many times slower than another
/// quarter is fast.
const LEAST_TRAINS: usize = 3;
const AGREEMENT: f64 = 2.0;

/// The rate at which trains of packets were acknowledged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// Payload bits per second: the 75th percentile of the trains' rates. Cross traffic only ever
    /// spreads a train further, and acknowledgements that were held up and came together only ever
    /// make it look denser; of the percentiles, this one was within 5 % on every shaper
    /// that TCP kept busy (studies/annotator-accuracy).
    pub bps: f64,
    /// The 25th percentile: far below the other where others' packets are among the train's.
    pub lower_bps: f64,
    /// How many trains there were.
    pub trains: usize,
}

/// An acknowledgement, and the last packet that it acknowledged.
#[derive(Clone, Copy)]
struct Point {
    acked_at: Nanos,
    sent_at: Nanos,
    bytes: u64,
}

/// The rates of a transfer's trains. Keeps its memory between transfers.
#[derive(Debug, Default)]
pub(super) struct Trains {
    all: Vec<f64>,
    /// Of those that a bottleneck must have spread out or held up.
    proven: Vec<f64>,
}

impl Trains {
    /// Finds the trains of a transfer, given the least round-trip time.
    pub fn find(&mut self, sent: &[Sent], mss: u32, base: Nanos) {
        self.all.clear();
        self.proven.clear();
        let train = TRAIN * u64::from(mss);
        let held_up = base.saturating_add(WAITED.max(base / WAITED_PART));
        let mut start: Option<Point> = None;
        let mut last: Option<Point> = None;
        let mut bytes = 0;
        let mut waited = true;
        for packet in sent {
            // A loss, a retransmission or a hole ends the train: its spacing is not the network's.
            let rtt = packet.rtt();
            let clean = rtt.is_some() && !packet.lost() && !packet.is_retransmission();
            let Some(before) = last.filter(|last| clean && packet.acked_at >= last.acked_at) else {
                bytes = u64::from(packet.len);
                last = clean.then_some(Point {
                    acked_at: packet.acked_at,
                    sent_at: packet.at,
                    bytes,
                });
                start = None;
                continue;
            };
            if packet.acked_at > before.acked_at {
                // `before` was the last packet of its acknowledgement.
                match start {
                    None => (start, waited) = (Some(before), true),
                    Some(first) if before.bytes - first.bytes >= train => {
                        let acked = before.acked_at - first.acked_at;
                        let spread = before.sent_at.saturating_sub(first.sent_at);
                        // Spread out further than it was sent, or sent as it was acknowledged.
                        if acked > 0 && acked >= spread / 10 * 9 {
                            let rate = (before.bytes - first.bytes) as f64 * 8e9 / acked as f64;
                            self.all.push(rate);
                            if waited || acked >= spread / 4 * SPREAD_QUARTERS {
                                self.proven.push(rate);
                            }
                        }
                        (start, waited) = (Some(before), true);
                    }
                    Some(_) => {}
                }
            }
            waited &= rtt.is_some_and(|rtt| rtt >= held_up);
            bytes += u64::from(packet.len);
            last = Some(Point {
                acked_at: packet.acked_at,
                sent_at: packet.at,
                bytes,
            });
        }
    }

    /// The rate of all trains: the bottleneck's capacity, or the throughput where nothing but the
    /// ends limited it.
    pub fn throughput(&mut self) -> Option<Capacity> {
        Some(Capacity {
            bps: percentile(&mut self.all, PERCENTILE)?,
            lower_bps: percentile(&mut self.all, 100 - PERCENTILE)?,
            trains: self.all.len(),
        })
    }

    /// The bottleneck's capacity, where enough trains prove that there is one, and agree.
    pub fn capacity(&mut self) -> Option<Capacity> {
        let bps = percentile(&mut self.proven, PERCENTILE)?;
        let lower_bps = percentile(&mut self.proven, 100 - PERCENTILE)?;
        let trains = self.proven.len();
        (trains >= LEAST_TRAINS && bps <= AGREEMENT * lower_bps).then_some(Capacity {
            bps,
            lower_bps,
            trains,
        })
    }
}

/// By nearest rank.
fn percentile(values: &mut [f64], percent: usize) -> Option<f64> {
    let rank = (values.len() * percent).div_ceil(100).checked_sub(1)?;
    Some(*values.select_nth_unstable_by(rank, f64::total_cmp).1)
}
