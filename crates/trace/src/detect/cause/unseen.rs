//! Whether losses follow a bucket that others use too whose packets the capture does not hold.
//!
//! What others use is unknown, so the level is known only from above: since the last loss the bucket
//! cannot have gained more than its rate. The test asks whether losses are predicted better by that upper
//! bound than by all that a channel with memory knows. Both sides are scored by the evidence of
//! tables of counts, which punishes tables with more cells.

use super::arrival::Arrival;
use super::chance::{Count, contexts};
use super::vector::{LANES, Loop, Vector, run};

/// Classes of the upper bound of the level.
const LEVELS: usize = 6;
/// The packet that levels are counted in, in bytes.
const PACKET: f32 = 1518.0;
/// Surpluses in bytes at which the classes end, the last class but for full buckets.
const BOUNDS: [f32; 4] = [-0.25 * PACKET, 0.35 * PACKET, 3.0 * PACKET, 12.0 * PACKET];
/// What the memory of the channel distinguishes.
const CONTEXTS: usize = 4;
const RATES: usize = 44;
/// Rates that are replayed side by side.
const SIDE_BY_SIDE: usize = 2;
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
        let depths: [f64; DEPTHS] =
            std::array::from_fn(|j| geometric(j, DEPTHS, LEAST_DEPTH, MOST_DEPTH));
        let mut best: Option<(usize, Self)> = None;
        let mut at = |places: [usize; SIDE_BY_SIDE]| {
            let share = |i| geometric(i, RATES, LEAST_RATE, MOST_RATE);
            let rates = places.map(|i| passed / seconds * share(i.min(RATES - 1)));
            for ((i, rate), found) in places
                .into_iter()
                .zip(rates)
                .zip(evidences(&steps, rates, &depths))
            {
                for (depth, evidences) in depths.into_iter().zip(found) {
                    for (in_context, evidence) in evidences {
                        let gain = evidence - channel;
                        if best.is_none_or(|(_, best)| gain > best.gain) {
                            let found = Self {
                                gain,
                                rate,
                                depth,
                                in_context,
                            };
                            best = Some((i, found));
                        }
                    }
                }
            }
            best
        };
        // Every second rate, and then the neighbours of the best.
        let coarse = (0..RATES).step_by(2 * SIDE_BY_SIDE);
        let (i, _) = coarse.filter_map(|i| at([i, i + 2])).last()?;
        at([i.saturating_sub(1), i + 1]).map(|(_, best)| best)
    }

    /// The gain of the same bucket for these packets alone.
    pub fn gain_for(&self, arrivals: &[Arrival]) -> f64 {
        let [[evidences]] = evidences(&steps(arrivals), [self.rate], &[self.depth]);
        let evidence = evidences
            .into_iter()
            .find(|&(in_context, _)| in_context == self.in_context);
        evidence.map_or(0.0, |(_, evidence)| evidence) - channel(arrivals)
    }
}

/// The `i`th of `n` values evenly on a logarithmic scale.
fn geometric(i: usize, n: usize, low: f64, high: f64) -> f64 {
    low * (high / low).powf(i as f64 / (n - 1) as f64)
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

/// Packets, for buckets that are replayed side by side, whose surplus is below each of [`BOUNDS`], and
/// those that met no full bucket, or one of the first three bounds.
type Below = [[u32; LANES]; BOUNDS.len() + 1];

/// What is counted in a context, by fate.
type Counts = ([[Below; 2]; CONTEXTS], [[u32; 2]; CONTEXTS]);

/// Counts packets by the class of the level's upper bound, for each rate.
struct Replay<'a, const RATES: usize> {
    steps: &'a [Step],
    rates: [f32; RATES],
    depths: [f32; LANES],
}

impl<const RATES: usize> Loop for Replay<'_, RATES> {
    type Result = [Counts; RATES];

    #[inline(always)]
    fn run<V: Vector>(self) -> [Counts; RATES] {
        let mut counts = [(
            [[[[0; LANES]; BOUNDS.len() + 1]; 2]; CONTEXTS],
            [[0; 2]; CONTEXTS],
        ); RATES];
        let bounds = BOUNDS.map(V::all);
        let depths = V::new(&self.depths);
        let mut levels = [depths; RATES];
        for step in self.steps {
            let (context, fate) = (usize::from(step.context), usize::from(step.lost));
            let weight = V::all(step.weight);
            for i in 0..RATES {
                let (below, all) = &mut counts[i];
                all[context][fate] += 1;
                let counts: &mut Below = &mut below[context][fate];
                let level = levels[i].plus(V::all(self.rates[i] * step.gap));
                let met = level.least(depths);
                let surplus = met.minus(weight);
                let unsettled = surplus.is_below(bounds[2]);
                let below_full = V::or(unsettled, level.is_below(depths));
                V::count(surplus.is_below(bounds[0]), &mut counts[0]);
                V::count(surplus.is_below(bounds[1]), &mut counts[1]);
                V::count(unsettled, &mut counts[2]);
                V::count(
                    V::and(surplus.is_below(bounds[3]), below_full),
                    &mut counts[3],
                );
                V::count(below_full, &mut counts[4]);
                levels[i] = if step.lost {
                    met.least(weight)
                } else {
                    surplus.most(V::all(0.0))
                };
            }
        }
        counts
    }
}

/// For each rate and depth the evidence of counts by the class of the level's upper bound: within the channel's
/// memory (`true`), and without.
fn evidences<const R: usize, const N: usize>(
    steps: &[Step],
    rates: [f64; R],
    depths: &[f64; N],
) -> [[[(bool, f64); 2]; N]; R] {
    const { assert!(0 < N && N <= LANES) };
    let counts = run(Replay {
        steps,
        rates: rates.map(|rate| rate as f32),
        depths: std::array::from_fn(|i| depths[i.min(N - 1)] as f32),
    });
    counts.map(|counts| evidences_of(&counts))
}

/// The same for one rate.
fn evidences_of<const N: usize>((below, all): &Counts) -> [[(bool, f64); 2]; N] {
    std::array::from_fn(|i| {
        let mut together = [Count::default(); LEVELS];
        let mut in_context = 0.0;
        for (below, all) in below.iter().zip(all) {
            let [passed, lost] = [0, 1].map(|fate| classes(&below[fate], i, all[fate]));
            for class in 0..LEVELS {
                let count = Count {
                    passed: passed[class],
                    lost: lost[class],
                };
                in_context += count.evidence();
                together[class].passed += count.passed;
                together[class].lost += count.lost;
            }
        }
        let together = together.iter().map(Count::evidence).sum();
        [(true, in_context), (false, together)]
    })
}

/// How many packets are in each class, of `all`, for the `i`th bucket.
fn classes(below: &Below, i: usize, all: u32) -> [u32; LEVELS] {
    let below = below.map(|lanes| lanes[i]);
    let full = all - below[4];
    [
        below[0],
        below[1] - below[0],
        below[2] - below[1],
        below[3] - below[2],
        all - below[3] - full,
        full,
    ]
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
