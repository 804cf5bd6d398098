//! All rates and depths tried at once, roughly: which are worth a closer look.
//!
//! What a bucket of rate r and depth b holds since the last loss is the lesser of two levels: that
//! of a bucket without a bound, and b less the backlog of a queue that drains at r. Neither depends
//! on b. So packets are replayed for each rate only, and depths are compared at losses. The level
//! behind a loss, less than one packet, is taken from the bucket without a bound.
//!
//! What a loss costs rises and falls with the depth in straight lines. So only the ends of these lines
//! are noted for each loss, and the costs of all depths are summed up once.

use super::lanes::CAP;
use super::step::{Merges, Step};
use super::vector::{LANES, Lanes, Loop, Vector, run};

#[cfg(test)]
mod tests;

/// Noise widths in bytes under which costs are compared.
pub(super) const WIDTHS: [f32; 3] = [250.0, 1200.0, 6000.0];
/// Rates and depths that are tried.
pub(super) const RATES: usize = 64;
pub(super) const DEPTHS: usize = 64;
/// Bytes by which a level may be wrong because packets are replayed together.
const MERGE: f64 = 300.0;
/// No sum of bytes reaches it.
const UNBOUNDED: f32 = 1e15;

/// The costs of buckets of one rate, by noise width and depth: by how many bytes the level
/// contradicts the packets' fates, over the width.
pub(super) type Costs = [[f32; DEPTHS]; WIDTHS.len()];

/// The costs of all buckets, by rate.
pub(super) struct Screened {
    /// Of those that began full.
    pub full: Vec<Costs>,
    /// Of those that did not: nothing is known before the first loss.
    pub partly: Vec<Costs>,
}

/// Replays the packets for all rates.
pub(super) fn screen(
    merges: &mut Merges<'_>,
    rates: &[f64; RATES],
    depths: &[f64; DEPTHS],
) -> Screened {
    let depths = Depths::new(depths);
    let mut ends = Box::new(Ends::NONE);
    let mut screened = Screened {
        full: Vec::with_capacity(RATES),
        partly: Vec::with_capacity(RATES),
    };
    for rates in rates.chunks_exact(LANES) {
        let mut lanes = [0f32; LANES];
        for (lane, &rate) in lanes.iter_mut().zip(rates) {
            *lane = rate as f32;
        }
        let steps = merges.within(MERGE / rates[LANES - 1]);
        *ends = Ends::NONE;
        let (missing, first) = run(Replay {
            ends: &mut ends,
            steps,
            rates: &lanes,
            depths: &depths,
        });
        ends.costs(&missing, &depths, &mut screened.partly);
        if let Some(first) = first {
            ends.add(&first, &depths);
        }
        ends.costs(&missing, &depths, &mut screened.full);
    }
    screened
}

/// See [`Ends::replay`].
struct Replay<'a> {
    ends: &'a mut Ends,
    steps: &'a [Step],
    rates: &'a Lanes,
    depths: &'a Depths,
}

impl Loop for Replay<'_> {
    type Result = (Lanes, Option<Loss>);

    #[inline(always)]
    fn run<V: Vector>(self) -> Self::Result {
        self.ends.replay::<V>(self.steps, self.rates, self.depths)
    }
}

/// The depths that are tried, in rising order.
struct Depths {
    /// Behind them one without a bound.
    depths: [f32; DEPTHS + 1],
    /// For each class of sizes how many depths are in lower classes.
    lower: [u8; CLASSES],
}

/// Sizes up to 2^24 bytes fall into classes, 32 each time they double. No two depths are in the
/// same.
const CLASSES: usize = class(16_777_216.0) + 1;

/// Exponent and five bits of the mantissa of a size from 1 on.
#[inline(always)]
const fn class(size: f32) -> usize {
    const SHIFT: u32 = 18;
    (size.to_bits() >> SHIFT).saturating_sub(1f32.to_bits() >> SHIFT) as usize
}

impl Depths {
    fn new(tried: &[f64; DEPTHS]) -> Self {
        let mut depths = [f32::INFINITY; DEPTHS + 1];
        for (depth, &tried) in depths.iter_mut().zip(tried) {
            *depth = tried as f32;
        }
        let mut lower = [0; CLASSES];
        for (limit, lower) in lower.iter_mut().enumerate() {
            *lower = depths[..DEPTHS].partition_point(|&depth| class(depth) < limit) as u8;
        }
        Self { depths, lower }
    }

    /// How many depths are less than a size.
    #[inline(always)]
    fn below(&self, size: f32) -> usize {
        let lower = usize::from(self.lower[class(size).min(CLASSES - 1)]);
        lower + usize::from(self.depths[lower] < size)
    }
}

/// What a loss shows under each rate.
struct Loss {
    /// What the level exceeds the packet by without a bound.
    surplus: Lanes,
    /// The depth from which the bound leaves a surplus.
    from: Lanes,
    /// The depth that packets before it needed.
    needed: Lanes,
}

/// Ends of lines, by how many depths are less and by rate: how many ends there are, and the sum of their
/// distances from a depth beside them.
struct Line([End; DEPTHS + 1]);

#[derive(Clone, Copy)]
struct End {
    count: Lanes,
    distance: Lanes,
}

impl Line {
    const NONE: Self = Self(
        [End {
            count: [0.0; LANES],
            distance: [0.0; LANES],
        }; DEPTHS + 1],
    );

    #[inline(always)]
    fn add(&mut self, below: usize, lane: usize, distance: f32) {
        let end = &mut self.0[below];
        end.count[lane] += 1.0;
        end.distance[lane] += distance;
    }
}

/// Where the costs that rise with the depth begin and end, for each noise width, and where the costs that
/// fall with it end.
struct Ends {
    rise: Line,
    stop: [Line; WIDTHS.len()],
    fall: Line,
}

impl Ends {
    const NONE: Self = Self {
        rise: Line::NONE,
        stop: [Line::NONE; WIDTHS.len()],
        fall: Line::NONE,
    };

    /// Notes all losses but the first one. Returns the bytes that were missing for packets that passed, by
    /// rate, at any depth, and the first loss.
    #[inline(always)]
    fn replay<V: Vector>(
        &mut self,
        steps: &[Step],
        rates: &Lanes,
        depths: &Depths,
    ) -> (Lanes, Option<Loss>) {
        // What a bucket without a bound holds, the backlog, and the most of that since the last loss.
        let rates = V::new(rates);
        let zero = V::all(0.0);
        let mut level = V::all(UNBOUNDED);
        let (mut backlog, mut peak, mut missing) = (zero, zero, zero);
        let mut first = None;
        for step in steps {
            let weight = V::all(step.weight);
            let fill = rates.times(V::all(step.gap));
            let met = level.plus(fill);
            let drained = backlog.minus(fill).most(zero);
            if !step.lost {
                let left = met.minus(weight);
                level = left.most(zero);
                missing = missing.plus(level.minus(left));
                backlog = drained.plus(weight);
                peak = peak.most(backlog);
                continue;
            }
            let loss = Loss {
                surplus: met.minus(weight).most(zero).values(),
                from: drained.plus(weight).values(),
                needed: peak.values(),
            };
            // Where the bound must have held, anything below a packet may be left.
            level = met.least(weight).or_where(
                V::all(1.5 * step.weight).is_below(met),
                V::all(0.5 * step.weight),
            );
            backlog = zero;
            peak = zero;
            match first {
                None => first = Some(loss),
                Some(_) => self.add(&loss, depths),
            }
        }
        (missing.values(), first)
    }

    #[inline(always)]
    fn add(&mut self, loss: &Loss, depths: &Depths) {
        for i in 0..LANES {
            // A need that every depth meets costs nothing.
            if loss.needed[i] <= depths.depths[0] {
                continue;
            }
            let below = depths.below(loss.needed[i]);
            let beside = depths.depths[below - 1];
            self.fall.add(below, i, loss.needed[i] - beside);
        }
        for i in 0..LANES {
            if loss.surplus[i] == 0.0 {
                continue;
            }
            let below = depths.below(loss.from[i]);
            let beside = depths.depths[below];
            self.rise.add(below, i, beside - loss.from[i]);
            for (stop, width) in self.stop.iter_mut().zip(WIDTHS) {
                // Both are numbers. `f32::min` looks for those that are not, and in WebAssembly it is a call.
                let (surplus, cap) = (loss.surplus[i], CAP * width);
                let to = loss.from[i] + if surplus < cap { surplus } else { cap };
                let below = depths.below(to);
                stop.add(below, i, depths.depths[below] - to);
            }
        }
    }

    /// The costs for each rate.
    fn costs(&self, missing: &Lanes, depths: &Depths, all: &mut Vec<Costs>) {
        let depths = &depths.depths;
        let mut fallen = [[0f32; LANES]; DEPTHS];
        let (mut count, mut value) = ([0f32; LANES], *missing);
        for j in (0..DEPTHS).rev() {
            let step = depths[(j + 1).min(DEPTHS - 1)] - depths[j];
            let fall = &self.fall.0[j + 1];
            for i in 0..LANES {
                value[i] += count[i] * step + fall.distance[i];
                count[i] += fall.count[i];
            }
            fallen[j] = value;
        }
        let begin = all.len();
        all.resize(begin + LANES, [[0.0; DEPTHS]; WIDTHS.len()]);
        for (row, (stop, width)) in self.stop.iter().zip(WIDTHS).enumerate() {
            let (mut count, mut value) = ([0f32; LANES], [0f32; LANES]);
            for j in 0..DEPTHS {
                let step = depths[j] - depths[j.saturating_sub(1)];
                let (rise, stop) = (&self.rise.0[j], &stop.0[j]);
                for i in 0..LANES {
                    value[i] += count[i] * step + (rise.distance[i] - stop.distance[i]);
                    count[i] += rise.count[i] - stop.count[i];
                }
                for i in 0..LANES {
                    all[begin + i][row][j] = (value[i] + fallen[j][i]) / width;
                }
            }
        }
    }
}
