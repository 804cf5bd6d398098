//! Windows of rates that cover most of their weight.

use pyo3::prelude::*;

/// For each rate the number of the window that it is in, if it is in one. See `tidegate._networks.windows`.
///
/// Rates are known by their places. The window from a place on stops before the place in `ends`, which do not decrease. Each
/// time, the window is chosen that covers most of the weight that no earlier one does, until they cover the goal.
#[pyfunction]
pub fn cover(
    py: Python<'_>,
    ends: Vec<usize>,
    mut weights: Vec<u128>,
    goal: u128,
) -> Vec<Option<u32>> {
    py.detach(|| {
        let sums = sums(&weights);
        let mut inside: Vec<u128> = (0..ends.len())
            .map(|start| sums[ends[start]] - sums[start])
            .collect();
        let mut windows = vec![None; ends.len()];
        let mut covered = 0;
        for number in 0.. {
            // Of equals the first.
            let most = (0..inside.len()).rev().max_by_key(|place| inside[*place]);
            let Some(start) = most.filter(|start| covered < goal && inside[*start] > 0) else {
                break;
            };
            let stop = ends[start];
            covered += inside[start];
            // Only windows that overlap this one cover less from now on.
            let removed = self::sums(&weights[start..stop]);
            for other in ends.partition_point(|end| *end <= start)..stop {
                inside[other] -=
                    removed[ends[other].min(stop) - start] - removed[other.max(start) - start];
            }
            weights[start..stop].fill(0);
            for window in &mut windows[start..stop] {
                window.get_or_insert(number);
            }
        }
        windows
    })
}

/// The sums of the first weights: of none, of one, and so on.
fn sums(weights: &[u128]) -> Vec<u128> {
    let mut sum = 0;
    let sums = weights.iter().map(|weight| {
        sum += *weight;
        sum
    });
    std::iter::once(0).chain(sums).collect()
}
