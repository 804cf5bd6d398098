//! All rates and depths tried at once, roughly: which are worth a closer look.
//!
//! What a bucket of rate r and depth b holds since the last loss is the lesser of two levels: that
//! of a bucket without a bound, and b less the backlog of a queue that drains at r. Neither depends
//! on b. So packets are replayed for each rate only, and depths are compared at losses. The level
//! behind a loss, less than one packet, is taken from the bucket without a bound.

use super::arrival::Arrival;
use super::lanes::{CAP, LANES, Lanes, Step, least, merged, most};

/// Noise widths in bytes under which costs are compared.
pub(super) const WIDTHS: [f32; 3] = [250.0, 1200.0, 6000.0];
/// Rates and depths that are tried.
pub(super) const RATES: usize = 96;
pub(super) const DEPTHS: usize = 64;
/// Bytes by which a level may be wrong because packets are replayed together.
const MERGE: f64 = 300.0;
/// No sum of bytes reaches it.
const UNBOUNDED: f32 = 1e15;

/// The costs of buckets of one rate, by noise width and depth: by how many bytes the level
/// contradicts the packets' fates, over the width.
pub(super) type Costs = [[f32; DEPTHS]; WIDTHS.len()];

/// The costs of all buckets, by rate. Where the bucket did not begin full, nothing is known before
/// the first loss.
pub(super) fn screen(
    arrivals: &[Arrival],
    full: bool,
    rates: &[f64; RATES],
    depths: &[f64; DEPTHS],
) -> Vec<Costs> {
    let depths = depths.map(|depth| depth as f32);
    let mut steps = Vec::new();
    let mut all = Vec::with_capacity(RATES);
    for rates in rates.chunks_exact(LANES) {
        let lanes: Lanes = std::array::from_fn(|i| rates[i] as f32);
        let mut table = Table::new(&depths);
        merged(arrivals, MERGE / rates[LANES - 1], &mut steps);
        table.replay(&steps, &lanes, full);
        all.extend(table.costs());
    }
    all
}

/// Costs of buckets of some rates, as they add up.
struct Table<'a> {
    depths: &'a [f32; DEPTHS],
    /// For losses that met too much, by rate.
    surplus: Box<[Costs; LANES]>,
    /// Bytes that were missing for packets that passed, by rate: those without a bound on the level,
    /// and those for each depth.
    missing: Lanes,
    missing_by_depth: Box<[[f32; DEPTHS]; LANES]>,
}

impl<'a> Table<'a> {
    fn new(depths: &'a [f32; DEPTHS]) -> Self {
        Self {
            depths,
            surplus: Box::new([[[0.0; DEPTHS]; WIDTHS.len()]; LANES]),
            missing: [0.0; LANES],
            missing_by_depth: Box::new([[0.0; DEPTHS]; LANES]),
        }
    }

    fn replay(&mut self, steps: &[Step], rates: &Lanes, full: bool) {
        // What a bucket without a bound holds, the backlog, and the most of that since the last loss.
        let mut level = [UNBOUNDED; LANES];
        let mut backlog = [0f32; LANES];
        let mut peak = [0f32; LANES];
        let mut counts = full;
        for step in steps {
            let weight = step.weight;
            if !step.lost {
                for i in 0..LANES {
                    let fill = rates[i] * step.gap;
                    let left = level[i] + fill - weight;
                    level[i] = most(left, 0.0);
                    self.missing[i] += level[i] - left;
                    backlog[i] = most(backlog[i] - fill, 0.0) + weight;
                    peak[i] = most(peak[i], backlog[i]);
                }
                continue;
            }
            for i in 0..LANES {
                let fill = rates[i] * step.gap;
                level[i] += fill;
                backlog[i] = most(backlog[i] - fill, 0.0);
                if counts {
                    self.loss(i, level[i] - weight, backlog[i] + weight, peak[i]);
                }
                // Where the bound must have held, anything below a packet may be left.
                level[i] = if level[i] > 1.5 * weight {
                    0.5 * weight
                } else {
                    least(level[i], weight)
                };
                backlog[i] = 0.0;
                peak[i] = 0.0;
            }
            counts = true;
        }
    }

    /// Counts a loss at the `i`th rate: the surplus without a bound, the depth from which the bound
    /// leaves one, and the depth that packets before it needed.
    fn loss(&mut self, i: usize, surplus: f32, from: f32, needed: f32) {
        let surplus = most(surplus, 0.0);
        let missing = &mut self.missing_by_depth[i];
        if needed > self.depths[0] {
            for (missing, &depth) in missing.iter_mut().zip(self.depths) {
                *missing += most(needed - depth, 0.0);
            }
        }
        if surplus == 0.0 {
            return;
        }
        let [narrow, middle, wide] = &mut self.surplus[i];
        for j in 0..DEPTHS {
            let over = least(most(self.depths[j] - from, 0.0), surplus);
            narrow[j] += least(over, CAP * WIDTHS[0]);
            middle[j] += least(over, CAP * WIDTHS[1]);
            wide[j] += least(over, CAP * WIDTHS[2]);
        }
    }

    fn costs(self) -> impl Iterator<Item = Costs> {
        (0..LANES).map(move |i| {
            let mut costs = self.surplus[i];
            for (row, width) in costs.iter_mut().zip(WIDTHS) {
                for (j, cost) in row.iter_mut().enumerate() {
                    *cost = (*cost + self.missing[i] + self.missing_by_depth[i][j]) / width;
                }
            }
            costs
        })
    }
}
