//! Whether losses follow a bucket that others use too whose packets the capture does not hold.
//!
//! What others use is unknown, so the level is known only from above: since the last loss the bucket
//! cannot have gained more than its rate. The test asks whether losses are predicted better by that upper
//! bound than by all that a channel with memory knows. Both sides are scored by the evidence of
//! tables of counts, which punishes tables with more cells.

use super::arrival::Arrival;
use super::chance::{Count, contexts};

/// Classes of the upper bound of the level.
const LEVELS: usize = 6;
/// The packet that levels are counted in, in bytes.
const PACKET: f64 = 1518.0;
const RATES: usize = 44;
const DEPTHS: usize = 12;
/// Rates from a quarter of what passed to sixteen times as much.
const LEAST_RATE: f64 = 0.25;
const MOST_RATE: f64 = 16.0;
const LEAST_DEPTH: f64 = 4e3;
const MOST_DEPTH: f64 = 3e6;
/// Packets within this time of the one before belong to one burst, in seconds.
const BURST: f64 = 0.001;

/// A bucket that the capture sees only some users of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unseen {
    /// By how much the bucket's evidence exceeds that of the best channel with memory, in nats.
    pub gain: f64,
    /// The bucket's rate in bytes a second. It may be off by a factor of four.
    pub rate: f64,
    /// The bucket's depth in bytes.
    pub depth: f64,
    /// Whether the channel's memory is distinguished within the level's classes.
    in_context: bool,
}

/// What the replay needs of a packet.
#[derive(Debug, Clone, Copy)]
struct Step {
    gap: f32,
    weight: f32,
    context: u8,
    lost: bool,
}

impl Unseen {
    /// The bucket under which the upper bound tells most.
    pub fn find(arrivals: &[Arrival]) -> Option<Self> {
        let channel = channel(arrivals);
        let steps = steps(arrivals);
        let passed: f64 = arrivals
            .iter()
            .filter(|arrival| !arrival.lost)
            .map(|arrival| f64::from(arrival.weight))
            .sum();
        let first = arrivals.first()?.at;
        let seconds = (arrivals.last()?.at.saturating_sub(first) as f64 / 1e9).max(1e-3);
        let geometric = |i: usize, n: usize, low: f64, high: f64| {
            low * (high / low).powf(i as f64 / (n - 1) as f64)
        };
        let mut best: Option<Self> = None;
        for i in 0..RATES {
            let rate = passed / seconds * geometric(i, RATES, LEAST_RATE, MOST_RATE);
            for j in 0..DEPTHS {
                let depth = geometric(j, DEPTHS, LEAST_DEPTH, MOST_DEPTH);
                for in_context in [true, false] {
                    let gain = evidence(&steps, rate, depth, in_context) - channel;
                    if best.is_none_or(|best| gain > best.gain) {
                        best = Some(Self {
                            gain,
                            rate,
                            depth,
                            in_context,
                        });
                    }
                }
            }
        }
        best
    }

    /// The gain of the same bucket for these packets alone.
    pub fn gain_for(&self, arrivals: &[Arrival]) -> f64 {
        evidence(&steps(arrivals), self.rate, self.depth, self.in_context) - channel(arrivals)
    }
}

fn steps(arrivals: &[Arrival]) -> Vec<Step> {
    contexts(arrivals.iter())
        .map(|(context, arrival)| Step {
            gap: if context.gap.is_finite() {
                context.gap as f32
            } else {
                0.0
            },
            weight: arrival.weight,
            context: u8::from(context.gap < BURST) * 2 + u8::from(context.one_lost),
            lost: arrival.lost,
        })
        .collect()
}

/// The evidence of counts by the class of the level's upper bound.
fn evidence(steps: &[Step], rate: f64, depth: f64, in_context: bool) -> f64 {
    let (rate, depth) = (rate as f32, depth as f32);
    let mut counts = [[Count::default(); LEVELS]; 4];
    let mut level = depth;
    for step in steps {
        level += rate * step.gap;
        let full = level >= depth;
        level = level.min(depth);
        let class = class(level - step.weight, full);
        counts[if in_context { step.context as usize } else { 0 }][class].add(step.lost);
        level = if step.lost {
            level.min(step.weight)
        } else {
            (level - step.weight).max(0.0)
        };
    }
    counts.iter().flatten().map(Count::evidence).sum()
}

/// The class of a surplus in bytes.
fn class(surplus: f32, full: bool) -> usize {
    let packets = surplus / PACKET as f32;
    match packets {
        ..-0.25 => 0,
        ..0.35 => 1,
        ..3.0 => 2,
        _ if full => 5,
        ..12.0 => 3,
        _ => 4,
    }
}

/// The evidence of the best of four channels with memory.
fn channel(arrivals: &[Arrival]) -> f64 {
    let mut by_gap_and_one = [Count::default(); 10];
    let mut by_gap_and_two = [Count::default(); 20];
    let mut by_two = [Count::default(); 4];
    let mut by_short_gap_and_one = [Count::default(); 6];
    for (context, arrival) in contexts(arrivals.iter()) {
        let one = usize::from(context.one_lost);
        let two = one * 2 + usize::from(context.two_lost);
        by_gap_and_one[context.gap_class * 2 + one].add(arrival.lost);
        by_gap_and_two[context.gap_class * 4 + two].add(arrival.lost);
        by_two[two].add(arrival.lost);
        by_short_gap_and_one[context.gap_class.min(2) * 2 + one].add(arrival.lost);
    }
    let sum = |counts: &[Count]| counts.iter().map(Count::evidence).sum::<f64>();
    sum(&by_gap_and_one)
        .max(sum(&by_gap_and_two))
        .max(sum(&by_two))
        .max(sum(&by_short_gap_and_one))
}
