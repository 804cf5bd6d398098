//! Many buckets replayed side by side, in arrays of single precision that the compiler turns into
//! vector instructions.

use super::arrival::Arrival;
use super::bucket::{Bucket, Noise};

/// Buckets that are replayed side by side.
pub(super) const LANES: usize = 16;
/// A value for each of them.
pub(super) type Lanes = [f32; LANES];

/// One contradiction costs at most this many widths: a loss with another cause must not decide.
pub(super) const CAP: f32 = 6.0;

/// Packets that a replay takes as one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// Seconds since the step before.
    pub gap: f32,
    /// Bytes that passed together, or the weight of a packet that was lost.
    pub weight: f32,
    /// Whether the network lost it.
    pub lost: bool,
}

/// The arrivals as steps, with packets merged that have the same fate within `merge` seconds.
pub(super) fn merged(arrivals: &[Arrival], merge: f64, steps: &mut Vec<Step>) {
    steps.clear();
    let merge = (merge * 1e9) as u64;
    let mut began = None;
    for arrival in arrivals {
        let at = arrival.at.max(began.unwrap_or(arrival.at));
        let gap = at - began.unwrap_or(at);
        match steps.last_mut() {
            Some(step) if gap <= merge && step.lost == arrival.lost => {
                // A second loss at the same level proves nothing more.
                if !arrival.lost {
                    step.weight += arrival.weight;
                }
            }
            _ => {
                steps.push(Step {
                    gap: gap as f32 / 1e9,
                    weight: arrival.weight,
                    lost: arrival.lost,
                });
                began = Some(at);
            }
        }
    }
}

/// The arrivals as steps, one each.
pub(super) fn singly(arrivals: &[Arrival], steps: &mut Vec<Step>) {
    steps.clear();
    let mut last = arrivals.first().map_or(0, |arrival| arrival.at);
    steps.extend(arrivals.iter().map(|arrival| {
        let gap = arrival.at.saturating_sub(last);
        last = last.max(arrival.at);
        Step {
            gap: gap as f32 / 1e9,
            weight: arrival.weight,
            lost: arrival.lost,
        }
    }));
}

/// Buckets that are replayed side by side.
struct Bank {
    rates: Lanes,
    depths: Lanes,
    levels: Lanes,
}

impl Bank {
    fn new(buckets: &[Bucket; LANES]) -> Self {
        Self {
            rates: buckets.map(|bucket| bucket.rate as f32),
            depths: buckets.map(|bucket| bucket.depth as f32),
            levels: buckets.map(|bucket| (bucket.depth * bucket.start) as f32),
        }
    }

    /// By how many bytes each level agrees with the step's fate: what it holds beyond a packet
    /// that passed, what it lacks for one that was lost. Moves each level to what the fate proves.
    #[inline]
    fn agreement(&mut self, step: Step) -> Lanes {
        let met: Lanes = std::array::from_fn(|i| {
            least(self.levels[i] + self.rates[i] * step.gap, self.depths[i])
        });
        let surplus = met.map(|met| met - step.weight);
        if step.lost {
            self.levels = met.map(|met| least(met, step.weight));
            surplus.map(|surplus| -surplus)
        } else {
            self.levels = surplus.map(|surplus| most(surplus, 0.0));
            surplus
        }
    }
}

/// By how many bytes levels contradict fates, over a noise width.
pub(super) fn costs(steps: &[Step], buckets: &[Bucket; LANES], width: f32) -> Lanes {
    let mut bank = Bank::new(buckets);
    let mut costs = [0f32; LANES];
    // A packet that passes lacks at most its weight, which the cap would hardly cut.
    let cap = |step: &Step| if step.lost { CAP * width } else { f32::MAX };
    for step in steps {
        let agrees = bank.agreement(*step);
        let cap = cap(step);
        for i in 0..LANES {
            costs[i] += least(most(-agrees[i], 0.0), cap);
        }
    }
    costs.map(|cost| cost / width)
}

/// The logarithm of the likelihood of all fates, under a noise.
pub(super) fn log_likelihoods(
    steps: &[Step],
    buckets: &[Bucket; LANES],
    noise: Noise,
) -> [f64; LANES] {
    let mut bank = Bank::new(buckets);
    let curve = noise.curve();
    let certain = curve.certain();
    let mut sums = [0f64; LANES];
    let mut sure = 0u32;
    for step in steps {
        let agrees = bank.agreement(*step);
        if least_of(&agrees) >= certain {
            sure += 1;
            continue;
        }
        for i in 0..LANES {
            sums[i] += f64::from(curve.at(agrees[i]));
        }
    }
    let sure = f64::from(sure) * f64::from(curve.at(certain));
    sums.map(|sum| sum + sure)
}

/// Agreements up to 2^20 bytes are told apart, in four classes each time they double.
const LEAST_CLASS: u32 = class_bits(8.0);
const CLASSES: usize = (class_bits(1_048_576.0) - LEAST_CLASS) as usize;

/// Sign, exponent and two bits of the mantissa make a class.
const fn class_bits(agreement: f32) -> u32 {
    agreement.to_bits() >> 21
}

/// For each bucket the noise among these under which the fates are likeliest, and the logarithm of
/// the likelihood, from a histogram of agreements.
pub(super) fn likeliest_noises(
    steps: &[Step],
    buckets: &[Bucket; LANES],
    noises: &[Noise],
) -> [(Noise, f64); LANES] {
    const LARGE: f32 = 1_048_576.0;
    let mut bank = Bank::new(buckets);
    let mut agreed = [[0u32; CLASSES + 1]; LANES];
    let mut contradicted = [[0u32; CLASSES + 1]; LANES];
    let mut large = 0;
    for step in steps {
        let agrees = bank.agreement(*step);
        if least_of(&agrees) >= LARGE {
            large += 1;
            continue;
        }
        for i in 0..LANES {
            let class = class_bits(agrees[i].abs()).saturating_sub(LEAST_CLASS) as usize;
            let class = class.min(CLASSES);
            if agrees[i] < 0.0 {
                contradicted[i][class] += 1;
            } else {
                agreed[i][class] += 1;
            }
        }
    }
    let middles: [f32; CLASSES + 1] = std::array::from_fn(|class| {
        f32::from_bits(((LEAST_CLASS + class as u32) << 21) | (1 << 20))
    });
    let mut best = [(noises[0], f64::NEG_INFINITY); LANES];
    for &noise in noises {
        let curve = noise.curve();
        let at = middles.map(|middle| [curve.at(middle), curve.at(-middle)].map(f64::from));
        for i in 0..LANES {
            let sum: f64 = (0..=CLASSES)
                .map(|class| {
                    f64::from(agreed[i][class]) * at[class][0]
                        + f64::from(contradicted[i][class]) * at[class][1]
                })
                .sum();
            let sum = sum + f64::from(large) * at[CLASSES][0];
            if sum > best[i].1 {
                best[i] = (noise, sum);
            }
        }
    }
    best
}

fn least_of(lanes: &Lanes) -> f32 {
    let mut quarters = [f32::MAX; 4];
    for quarter in lanes.chunks_exact(4) {
        for i in 0..4 {
            quarters[i] = least(quarters[i], quarter[i]);
        }
    }
    quarters.into_iter().fold(f32::MAX, least)
}

/// One vector instruction, which `f32::min` is not: that treats values that are not numbers.
#[inline]
pub(super) fn least(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

#[inline]
pub(super) fn most(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}
