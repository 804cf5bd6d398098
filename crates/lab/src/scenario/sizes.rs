//! Sizes of transfers that are drawn from a distribution.

use tidegate_notation::{Mistake, Node, Value, quantity};

use super::fields::Fields;
use super::keys::SIZES;
use crate::random::BoundedPareto;

/// Most points of a distribution.
const MOST: usize = 10_000;

/// The size that a key has: bytes, or drawn from the distribution of a table.
pub(super) fn size(f: &Fields<'_>, key: &str) -> Result<Option<u64>, Mistake> {
    let Some(node) = f.node(key)? else {
        return Ok(None);
    };
    let (Value::Table(table), Some(draw)) = (&node.value, f.draw(key)) else {
        return f.positive_bytes(key);
    };
    let share = draw.uniform();
    let sizes = Fields::of(table, node.place, "a distribution of sizes", &[SIZES], &[])?;
    let mean = sizes.positive_bytes("mean")?;
    let shape = sizes.real("shape", 1.01..=100.0)?;
    let max = sizes.positive_bytes("max")?;
    let value = match (mean, sizes.raw("cdf")) {
        (Some(mean), None) => {
            let max = max.unwrap_or(mean.saturating_mul(1000));
            if max <= mean {
                return Err(sizes.wrong("max", "`max` must be more than `mean`"));
            }
            BoundedPareto::with_mean(mean as f64, shape.unwrap_or(1.2), max as f64).value(share)
        }
        (None, Some(points)) => {
            if let Some(other) = ["shape", "max"].iter().find(|key| sizes.raw(key).is_some()) {
                let message = format!("`{other}` has no meaning with `cdf`");
                return Err(sizes.wrong(other, message));
            }
            between(&cdf(points)?, share)
        }
        _ => return Err(node.wrong("sizes have either `mean` or `cdf`")),
    };
    Ok(Some((value as u64).max(1)))
}

/// The points of a distribution: bytes, and the share of transfers that are not longer.
fn cdf(node: &Node) -> Result<Vec<(f64, f64)>, Mistake> {
    let example = "such as [[\"10kB\", 0.8], [\"1MB\", 1]]";
    let Value::List(list) = &node.value else {
        return Err(node.wrong(format!("`cdf` is a list of pairs, {example}")));
    };
    let mut points: Vec<(f64, f64)> = Vec::new();
    for pair in list.iter().take(MOST + 1) {
        let values = pair.values();
        let [bytes, share] = values else {
            return Err(pair.wrong(format!("a point of `cdf` is a pair, {example}")));
        };
        let (bytes, share) = (
            bytes.quantity("cdf", quantity::bytes)? as f64,
            share.real("cdf", 0.0..=1.0)?,
        );
        if points
            .last()
            .is_some_and(|last| bytes < last.0 || share < last.1)
        {
            return Err(pair.wrong("sizes and shares of `cdf` ascend"));
        }
        points.push((bytes, share));
    }
    match points.last() {
        Some(&(_, 1.0)) if points.len() <= MOST => Ok(points),
        _ => Err(node.wrong(format!(
            "`cdf` has up to {MOST} points, and the share of the last is 1"
        ))),
    }
}

/// The size at a share, on straight lines between the points. Shares below the first point have its size.
fn between(points: &[(f64, f64)], share: f64) -> f64 {
    let after = points.partition_point(|point| point.1 <= share);
    let (Some(&high), Some(&low)) = (points.get(after), points.get(after.wrapping_sub(1))) else {
        return points.first().map_or(1.0, |first| first.0);
    };
    low.0 + (high.0 - low.0) * (share - low.1) / (high.1 - low.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_on_lines_between_points() {
        let points = [(10.0, 0.5), (20.0, 0.5), (120.0, 1.0)];
        for (share, size) in [(0.0, 10.0), (0.499, 10.0), (0.5, 20.0), (0.75, 70.0)] {
            assert_eq!(between(&points, share), size, "{share}");
        }
        assert_eq!(between(&[(7.0, 1.0)], 0.9), 7.0);
    }
}
