//! Many buckets replayed at once, roughly: which rates and depths are worth a closer look.
//!
//! The cost of a bucket is by how many bytes its level contradicts the packets' fates, over a noise
//! width. All depths of one rate are replayed side by side in arrays of single precision, which the
//! compiler turns into vector instructions. Packets that pass within a short time are one step.

use super::arrival::Arrival;

/// Noise widths in bytes under which costs are compared.
pub(super) const WIDTHS: [f32; 3] = [250.0, 1200.0, 6000.0];

/// One contradiction costs at most this many widths: a loss with another cause must not decide.
const CAP: f32 = 6.0;

/// Packets that the replay takes as one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// Seconds since the step before.
    gap: f32,
    /// Bytes that passed together, or the weight of a packet that was lost.
    weight: f32,
    lost: bool,
}

/// The arrivals as steps, with packets merged that have the same fate within `merge` seconds.
pub(super) fn steps<'a>(
    arrivals: impl Iterator<Item = &'a Arrival>,
    merge: f64,
    steps: &mut Vec<Step>,
) {
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

/// The costs of buckets of one rate, by noise width and depth.
pub(super) type Costs<const N: usize> = [[f32; N]; WIDTHS.len()];

/// Replays the steps through buckets of one rate (bytes a second) and these depths.
pub(super) fn replay<const N: usize>(
    steps: &[Step],
    rate: f32,
    depths: &[f32; N],
    start: f32,
) -> Costs<N> {
    let mut level = depths.map(|depth| depth * start);
    let mut missing = [0f32; N];
    let mut by_width = [[0f32; N]; WIDTHS.len()];
    for step in steps {
        let fill = rate * step.gap;
        if step.lost {
            for i in 0..N {
                let met = least(level[i] + fill, depths[i]);
                let surplus = most(met - step.weight, 0.0);
                for (costs, width) in by_width.iter_mut().zip(WIDTHS) {
                    costs[i] += least(surplus * (1.0 / width), CAP);
                }
                level[i] = least(met, step.weight);
            }
        } else {
            for i in 0..N {
                let left = least(level[i] + fill, depths[i]) - step.weight;
                level[i] = most(left, 0.0);
                missing[i] += level[i] - left;
            }
        }
    }
    // A packet that passes lacks at most its weight, which the cap would hardly cut.
    for (costs, width) in by_width.iter_mut().zip(WIDTHS) {
        for i in 0..N {
            costs[i] += missing[i] / width;
        }
    }
    by_width
}

/// One vector instruction, which `f32::min` is not: that treats values that are not numbers.
fn least(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

fn most(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}
