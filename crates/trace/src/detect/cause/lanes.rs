//! Many buckets replayed side by side.

use super::bucket::{Bucket, Curve, Noise};
use super::step::Step;
use super::vector::{LANES, Lanes, Loop, Vector, run};

/// One contradiction costs at most this many widths: a loss with another cause must not decide.
pub(super) const CAP: f32 = 6.0;

/// Buckets that are replayed side by side.
struct Bank<V> {
    rates: V,
    depths: V,
    levels: V,
}

impl<V: Vector> Bank<V> {
    #[inline(always)]
    fn new(buckets: &[Bucket; LANES]) -> Self {
        let (mut rates, mut depths, mut levels) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        for i in 0..LANES {
            rates[i] = buckets[i].rate as f32;
            depths[i] = buckets[i].depth as f32;
            levels[i] = (buckets[i].depth * buckets[i].start) as f32;
        }
        Self {
            rates: V::new(&rates),
            depths: V::new(&depths),
            levels: V::new(&levels),
        }
    }

    /// By how many bytes each level agrees with the step's fate: what it holds beyond packets that
    /// passed, what it lacks for one that was lost. Moves each level to what the fate proves.
    #[inline(always)]
    fn agreement(&mut self, step: Step) -> V {
        let (met, weight) = (self.met(step.gap), V::all(step.weight));
        if step.lost {
            self.levels = met.least(weight);
            weight.minus(met)
        } else {
            let left = met.minus(weight);
            self.levels = left.most(V::all(0.0));
            left
        }
    }

    /// What each level is a time in seconds later.
    #[inline(always)]
    fn met(&self, gap: f32) -> V {
        let filled = self.levels.plus(self.rates.times(V::all(gap)));
        filled.least(self.depths)
    }

    /// Tells by how many bytes the levels agree with the fates of how many packets. Returns how many
    /// others agree with all levels by at least `certain`.
    #[inline(always)]
    fn agreements(&mut self, step: Step, certain: f32, to: &mut impl UseAgreement) -> u32 {
        let before = self.levels;
        let agrees = self.agreement(step);
        if agrees.is_never_below(certain) {
            return step.packets;
        }
        if step.packets == 1 {
            to.take(agrees, 1);
        } else if step.lost || agrees.is_never_below(0.0) {
            to.take(agrees, 1);
            let others = if step.lost {
                // The first loss proves that the others met no more than a packet.
                agrees.most(V::all(0.0))
            } else {
                // Those before the last one met more, half of the step's weight at the mean.
                agrees.plus(V::all(0.5 * step.weight))
            };
            to.take(others, step.packets - 1);
        } else {
            self.levels = before;
            let mut single = Step {
                weight: step.weight / step.packets as f32,
                packets: 1,
                ..step
            };
            for _ in 0..step.packets {
                to.take(self.agreement(single), 1);
                single.gap = 0.0;
            }
        }
        0
    }
}

/// What is made of agreements.
trait UseAgreement {
    /// By how many bytes the levels agree with the fates of how many packets.
    fn take<V: Vector>(&mut self, agrees: V, packets: u32);
}

/// By how many bytes levels contradict fates, over the noise width of each group of buckets.
pub(super) fn costs<const GROUPS: usize>(
    steps: &[Step],
    buckets: &[[Bucket; LANES]; GROUPS],
    widths: [f32; GROUPS],
) -> [Lanes; GROUPS] {
    run(Costs {
        steps,
        buckets,
        widths,
    })
}

struct Costs<'a, const GROUPS: usize> {
    steps: &'a [Step],
    buckets: &'a [[Bucket; LANES]; GROUPS],
    widths: [f32; GROUPS],
}

impl<const GROUPS: usize> Loop for Costs<'_, GROUPS> {
    type Result = [Lanes; GROUPS];

    #[inline(always)]
    fn run<V: Vector>(self) -> [Lanes; GROUPS] {
        let mut banks: [Bank<V>; GROUPS] = self.buckets.each_ref().map(Bank::new);
        let mut costs = [V::all(0.0); GROUPS];
        // As `Bank::agreement` has it: this loop takes most of the time of a fit.
        for step in self.steps {
            let weight = V::all(step.weight);
            if step.lost {
                for group in 0..GROUPS {
                    let met = banks[group].met(step.gap);
                    let cap = V::all(CAP * self.widths[group]);
                    let held = met.minus(weight).most(V::all(0.0));
                    costs[group] = costs[group].plus(held.least(cap));
                    banks[group].levels = met.least(weight);
                }
                continue;
            }
            for group in 0..GROUPS {
                let left = banks[group].met(step.gap).minus(weight);
                let level = left.most(V::all(0.0));
                // A packet that passes lacks at most its weight, which the cap would hardly cut.
                costs[group] = costs[group].plus(level.minus(left));
                banks[group].levels = level;
            }
        }
        let mut sums = costs.map(V::values);
        for (sums, width) in sums.iter_mut().zip(self.widths) {
            for sum in sums {
                *sum /= width;
            }
        }
        sums
    }
}

/// The logarithm of the likelihood of all fates, under a noise.
pub(super) fn log_likelihoods(
    steps: &[Step],
    buckets: &[Bucket; LANES],
    noise: Noise,
) -> [f64; LANES] {
    let curve = noise.curve();
    let likelihoods = Likelihoods {
        curve,
        sums: [0.0; LANES],
    };
    let (likelihoods, sure) = run(Replay {
        steps,
        buckets,
        certain: curve.certain(),
        to: likelihoods,
    });
    let sure = f64::from(sure) * f64::from(curve.at(curve.certain()));
    likelihoods.sums.map(|sum| sum + sure)
}

/// Tells all agreements, and counts the packets of which it does not.
struct Replay<'a, T> {
    steps: &'a [Step],
    buckets: &'a [Bucket; LANES],
    /// See [`Bank::agreements`].
    certain: f32,
    to: T,
}

impl<T: UseAgreement> Loop for Replay<'_, T> {
    type Result = (T, u32);

    #[inline(always)]
    fn run<V: Vector>(mut self) -> (T, u32) {
        let mut bank = Bank::<V>::new(self.buckets);
        let mut sure = 0;
        for step in self.steps {
            sure += bank.agreements(*step, self.certain, &mut self.to);
        }
        (self.to, sure)
    }
}

/// The logarithms of likelihoods, under the curve of a noise.
struct Likelihoods {
    curve: Curve,
    sums: [f64; LANES],
}

impl UseAgreement for Likelihoods {
    #[inline(always)]
    fn take<V: Vector>(&mut self, agrees: V, packets: u32) {
        let each = self.curve.of(agrees);
        each.times(V::all(packets as f32)).add_to(&mut self.sums);
    }
}

/// Agreements up to 2^20 bytes are distinguished, in four classes each time they double.
const LEAST_CLASS: u32 = class_bits(8.0);
const CLASSES: usize = (class_bits(LARGE) - LEAST_CLASS) as usize;
const LARGE: f32 = 1_048_576.0;
/// The least bit of a class.
const CLASS_SHIFT: u32 = 21;

/// Sign, exponent and two bits of the mantissa make a class.
const fn class_bits(agreement: f32) -> u32 {
    agreement.to_bits() >> CLASS_SHIFT
}

/// How many packets agree by how much, and then how many contradict, by bucket.
type Histogram = [[u32; LANES]; 2 * CONTRADICTS];
/// The first row of those that contradict: as many as a byte counts, so that no place needs to be checked.
const CONTRADICTS: usize = 128;
const _: () = assert!(CLASSES < CONTRADICTS);

/// For each bucket the noise among these under which the fates are likeliest, and the logarithm of
/// the likelihood, from a histogram of agreements.
pub(super) fn likeliest_noises(
    steps: &[Step],
    buckets: &[Bucket; LANES],
    noises: &[Noise],
) -> [(Noise, f64); LANES] {
    let mut counts = [[0; LANES]; 2 * CONTRADICTS];
    let (_, large) = run(Replay {
        steps,
        buckets,
        certain: LARGE,
        to: Counts(&mut counts),
    });
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

struct Counts<'a>(&'a mut Histogram);

impl UseAgreement for Counts<'_> {
    #[inline(always)]
    fn take<V: Vector>(&mut self, agrees: V, packets: u32) {
        let rows = agrees.values().map(|agreement| {
            let class = class_bits(agreement.abs()).max(LEAST_CLASS) - LEAST_CLASS;
            let contradicts = agreement.to_bits() >> 31;
            (class.min(CLASSES as u32) + contradicts * CONTRADICTS as u32) as u8
        });
        for (lane, row) in rows.into_iter().enumerate() {
            self.0[usize::from(row)][lane] += packets;
        }
    }
}

/// The logarithm of the likelihood of each bucket's histogram.
fn sums(counts: &Histogram, large: u32, noise: Noise) -> [f64; LANES] {
    let curve = noise.curve();
    let middle = |class: usize| {
        f32::from_bits(((LEAST_CLASS + class as u32) << CLASS_SHIFT) | (1 << (CLASS_SHIFT - 1)))
    };
    let mut sums = [f64::from(large) * f64::from(curve.at(middle(CLASSES))); LANES];
    let (agreeing, contradicting) = counts.split_at(CONTRADICTS);
    for (counts, sign) in [(agreeing, 1.0), (contradicting, -1.0)] {
        for (class, counts) in counts[..=CLASSES].iter().enumerate() {
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
