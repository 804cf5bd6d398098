//! Many buckets replayed side by side, in arrays of single precision that the compiler turns into
//! vector instructions.

use super::bucket::{Bucket, Noise};
use super::step::Step;

/// Buckets that are replayed side by side.
pub(super) const LANES: usize = 16;
/// A value for each of them.
pub(super) type Lanes = [f32; LANES];

/// One contradiction costs at most this many widths: a loss with another cause must not decide.
pub(super) const CAP: f32 = 6.0;

/// Buckets that are replayed side by side.
struct Bank {
    rates: Lanes,
    depths: Lanes,
    levels: Lanes,
}

impl Bank {
    #[inline(always)]
    fn new(buckets: &[Bucket; LANES]) -> Self {
        Self {
            rates: buckets.map(|bucket| bucket.rate as f32),
            depths: buckets.map(|bucket| bucket.depth as f32),
            levels: buckets.map(|bucket| (bucket.depth * bucket.start) as f32),
        }
    }

    /// By how many bytes each level agrees with the step's fate: what it holds beyond packets that
    /// passed, what it lacks for one that was lost. Moves each level to what the fate proves.
    #[inline(always)]
    fn agreement(&mut self, step: Step) -> Lanes {
        let mut agrees = [0f32; LANES];
        if step.lost {
            for (i, agrees) in agrees.iter_mut().enumerate() {
                let met = least(self.levels[i] + self.rates[i] * step.gap, self.depths[i]);
                *agrees = step.weight - met;
                self.levels[i] = least(met, step.weight);
            }
        } else {
            for (i, agrees) in agrees.iter_mut().enumerate() {
                let met = least(self.levels[i] + self.rates[i] * step.gap, self.depths[i]);
                *agrees = met - step.weight;
                self.levels[i] = most(*agrees, 0.0);
            }
        }
        agrees
    }

    /// Tells by how many bytes the levels agree with the fates of how many packets. Returns how many
    /// others agree with all levels by at least `certain`.
    #[inline(always)]
    fn agreements(&mut self, step: Step, certain: f32, mut tell: impl FnMut(&Lanes, u32)) -> u32 {
        let before = self.levels;
        let mut agrees = self.agreement(step);
        let least = least_of(&agrees);
        if least >= certain {
            return step.packets;
        }
        if step.packets == 1 {
            tell(&agrees, 1);
        } else if step.lost || least >= 0.0 {
            tell(&agrees, 1);
            for agrees in &mut agrees {
                *agrees = if step.lost {
                    // The first loss proves that the others met no more than a packet.
                    most(*agrees, 0.0)
                } else {
                    // Those before the last one met more, half of the step's weight at the mean.
                    *agrees + 0.5 * step.weight
                };
            }
            tell(&agrees, step.packets - 1);
        } else {
            self.levels = before;
            let mut single = Step {
                weight: step.weight / step.packets as f32,
                packets: 1,
                ..step
            };
            for _ in 0..step.packets {
                tell(&self.agreement(single), 1);
                single.gap = 0.0;
            }
        }
        0
    }
}

/// By how many bytes levels contradict fates, over a noise width.
pub(super) fn costs(steps: &[Step], buckets: &[Bucket; LANES], width: f32) -> Lanes {
    let mut bank = Bank::new(buckets);
    let mut costs = [0f32; LANES];
    for step in steps {
        let agrees = bank.agreement(*step);
        // A packet that passes lacks at most its weight, which the cap would hardly cut.
        let cap = if step.lost { CAP * width } else { f32::MAX };
        for i in 0..LANES {
            costs[i] += least(most(-agrees[i], 0.0), cap);
        }
    }
    for cost in &mut costs {
        *cost /= width;
    }
    costs
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
        sure += bank.agreements(*step, certain, |agrees, packets| {
            for i in 0..LANES {
                sums[i] += f64::from(packets as f32 * curve.at(agrees[i]));
            }
        });
    }
    let sure = f64::from(sure) * f64::from(curve.at(certain));
    for sum in &mut sums {
        *sum += sure;
    }
    sums
}

/// Agreements up to 2^20 bytes are told apart, in four classes each time they double.
const LEAST_CLASS: u32 = class_bits(8.0);
const CLASSES: usize = (class_bits(LARGE) - LEAST_CLASS) as usize;
const LARGE: f32 = 1_048_576.0;
/// The least bit of a class.
const CLASS_SHIFT: u32 = 21;

/// Sign, exponent and two bits of the mantissa make a class.
const fn class_bits(agreement: f32) -> u32 {
    agreement.to_bits() >> CLASS_SHIFT
}

/// How many packets agree and contradict by how much, by bucket.
type Histogram = [[[u32; LANES]; CLASSES + 1]; 2];

/// For each bucket the noise among these under which the fates are likeliest, and the logarithm of
/// the likelihood, from a histogram of agreements.
pub(super) fn likeliest_noises(
    steps: &[Step],
    buckets: &[Bucket; LANES],
    noises: &[Noise],
) -> [(Noise, f64); LANES] {
    let mut counts = [[[0; LANES]; CLASSES + 1]; 2];
    let large = count(steps, buckets, &mut counts);
    let mut best = [(noises[0], f64::NEG_INFINITY); LANES];
    for &noise in noises {
        let sums = sums(&counts, large, noise);
        for (best, sum) in best.iter_mut().zip(sums) {
            if sum > best.1 {
                *best = (noise, sum);
            }
        }
    }
    best
}

/// Fills a histogram. How many packets agree with all buckets by more than it tells apart.
fn count(steps: &[Step], buckets: &[Bucket; LANES], counts: &mut Histogram) -> u32 {
    let counts = counts.as_flattened_mut().as_flattened_mut();
    let mut bank = Bank::new(buckets);
    let mut large = 0;
    for step in steps {
        large += bank.agreements(*step, LARGE, |agrees, packets| {
            let mut rows = [0u32; LANES];
            for i in 0..LANES {
                let class = class_bits(agrees[i].abs()).max(LEAST_CLASS) - LEAST_CLASS;
                let contradicts = agrees[i].to_bits() >> 31;
                rows[i] = class.min(CLASSES as u32) + contradicts * (CLASSES as u32 + 1);
            }
            for i in 0..LANES {
                counts[rows[i] as usize * LANES + i] += packets;
            }
        });
    }
    large
}

/// The logarithm of the likelihood of each bucket's histogram.
fn sums(counts: &Histogram, large: u32, noise: Noise) -> [f64; LANES] {
    let curve = noise.curve();
    let middle = |class: usize| {
        f32::from_bits(((LEAST_CLASS + class as u32) << CLASS_SHIFT) | (1 << (CLASS_SHIFT - 1)))
    };
    let mut sums = [f64::from(large) * f64::from(curve.at(middle(CLASSES))); LANES];
    for (counts, sign) in counts.iter().zip([1.0, -1.0]) {
        for (class, counts) in counts.iter().enumerate() {
            if *counts == [0; LANES] {
                continue;
            }
            let at = f64::from(curve.at(sign * middle(class)));
            for i in 0..LANES {
                // No fit is of more packets than a signed number of 32 bits counts.
                sums[i] += f64::from(counts[i] as i32) * at;
            }
        }
    }
    sums
}

#[inline(always)]
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
#[inline(always)]
pub(super) fn least(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

#[inline(always)]
pub(super) fn most(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}
