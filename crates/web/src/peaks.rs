//! The least and the greatest value of any part of a curve, without a look at each of its points.

use std::ops::Range;

/// Seconds, and a value. A value that is not a number interrupts a line.
pub type Point = (f64, f64);

/// Points that make a block, and blocks that make one of the next level.
const FAN: usize = 32;

/// The places of the least and of the greatest value.
type Ends = (u32, u32);

/// The ends of blocks of points, of blocks of blocks, and so on. Values that are not numbers do not count.
#[derive(Debug, Default)]
pub struct Peaks {
    levels: Vec<Vec<Option<Ends>>>,
    /// The places of values that are not numbers.
    gaps: Vec<u32>,
}

impl Peaks {
    pub fn of(points: &[Point]) -> Self {
        let mut levels: Vec<Vec<Option<Ends>>> = Vec::new();
        let mut count = points.len();
        while count > FAN {
            let below = levels.last();
            let block = |block: usize| {
                let members = block * FAN..((block + 1) * FAN).min(count);
                match below {
                    None => members.fold(None, |ends, i| with_point(points, ends, i)),
                    Some(below) => members.fold(None, |ends, i| both(points, ends, below[i])),
                }
            };
            let level = (0..count.div_ceil(FAN)).map(block).collect::<Vec<_>>();
            count = level.len();
            levels.push(level);
        }
        let gaps = points.iter().zip(0..);
        let gaps = gaps.filter_map(|((_, value), place)| value.is_nan().then_some(place));
        Self {
            levels,
            gaps: gaps.collect(),
        }
    }

    /// The first value in a part that is not a number.
    pub fn gap(&self, part: Range<usize>) -> Option<usize> {
        let next = self
            .gaps
            .partition_point(|&gap| (gap as usize) < part.start);
        let gap = *self.gaps.get(next)? as usize;
        (gap < part.end).then_some(gap)
    }

    /// The places of the least and of the greatest value from one place to before another one.
    pub fn ends(&self, points: &[Point], from: usize, to: usize) -> Option<(usize, usize)> {
        let (mut from, mut to) = (from, to.min(points.len()));
        let mut found = None;
        for level in std::iter::once(None).chain(self.levels.iter().map(Some)) {
            let add = |found, i: usize| match level {
                None => with_point(points, found, i),
                Some(blocks) => both(points, found, blocks[i]),
            };
            // The members of blocks that are in the part as a whole are left to the next level.
            let (first, last) = (from.next_multiple_of(FAN), to - to % FAN);
            if first >= last {
                found = (from..to).fold(found, add);
                break;
            }
            found = (from..first).chain(last..to).fold(found, add);
            (from, to) = (first / FAN, last / FAN);
        }
        found.map(|(least, most)| (least as usize, most as usize))
    }
}

fn with_point(points: &[Point], ends: Option<Ends>, i: usize) -> Option<Ends> {
    if points[i].1.is_nan() {
        return ends;
    }
    let place = u32::try_from(i).ok()?;
    both(points, ends, Some((place, place)))
}

fn both(points: &[Point], one: Option<Ends>, other: Option<Ends>) -> Option<Ends> {
    let (Some(one), Some(other)) = (one, other) else {
        return one.or(other);
    };
    let value = |place: u32| points[place as usize].1;
    let least = if value(other.0) < value(one.0) {
        other.0
    } else {
        one.0
    };
    let most = if value(other.1) > value(one.1) {
        other.1
    } else {
        one.1
    };
    Some((least, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_those_of_all_points_of_a_part() {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        let points: Vec<Point> = (0..40_000)
            .map(|i| match next() {
                value if value % 97 == 0 => (f64::from(i), f64::NAN),
                value => (f64::from(i), f64::from(value)),
            })
            .collect();
        let peaks = Peaks::of(&points);
        for round in 0..2000u32 {
            let from = next() as usize % points.len();
            let length = next() as usize % if round % 2 == 0 { 100 } else { points.len() };
            let to = (from + length).min(points.len());
            let known = points[from..to].iter().map(|(_, value)| *value);
            let known: Vec<f64> = known.filter(|value| !value.is_nan()).collect();
            let wanted = known.iter().copied().reduce(f64::min);
            let wanted = wanted.zip(known.iter().copied().reduce(f64::max));
            let found = peaks.ends(&points, from, to);
            let found = found.map(|(least, most)| (points[least].1, points[most].1));
            assert_eq!(found, wanted, "{from} to {to}");
            let gap = (from..to).find(|&place| points[place].1.is_nan());
            assert_eq!(peaks.gap(from..to), gap);
        }
        assert_eq!(peaks.ends(&points, 7, 7), None);
        assert_eq!(Peaks::of(&[]).ends(&[], 0, 5), None);
    }
}
