//! Times counted by size, in little memory.

use crate::read::Nanos;

/// Two to this power steps to a factor of two: a step's middle is within 3.2 % of what falls in.
const STEPS: u32 = 4;

/// How many times of which size there were, to within 3.2 %. Only the steps between the least and
/// the greatest are kept: most flows have few round-trip times, and these are alike.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Histogram {
    /// The step of the first count.
    lowest: u16,
    counts: Vec<u32>,
    /// The least and the greatest, exactly.
    ends: Option<(Nanos, Nanos)>,
}

impl Histogram {
    pub fn add(&mut self, value: Nanos) {
        let step = step(value);
        if self.counts.is_empty() {
            self.lowest = step;
        } else if step < self.lowest {
            let more = usize::from(self.lowest - step);
            self.counts.splice(0..0, std::iter::repeat_n(0, more));
            self.lowest = step;
        }
        let i = usize::from(step - self.lowest);
        if i >= self.counts.len() {
            self.counts.reserve_exact(i + 1 - self.counts.len());
            self.counts.resize(i + 1, 0);
        }
        self.counts[i] = self.counts[i].saturating_add(1);
        let (least, most) = self.ends.unwrap_or((value, value));
        self.ends = Some((least.min(value), most.max(value)));
    }

    /// How many steps are kept.
    pub fn steps(&self) -> usize {
        self.counts.len()
    }

    pub fn least(&self) -> Option<Nanos> {
        self.ends.map(|(least, _)| least)
    }

    pub fn greatest(&self) -> Option<Nanos> {
        self.ends.map(|(_, greatest)| greatest)
    }

    /// A percentile by nearest rank, never beyond the least and the greatest.
    pub fn percentile(&self, percent: u64) -> Option<Nanos> {
        let (least, greatest) = self.ends?;
        let all: u64 = self.counts.iter().copied().map(u64::from).sum();
        let rank = (all * percent).div_ceil(100).clamp(1, all);
        if rank == 1 {
            return Some(least);
        }
        if rank == all {
            return Some(greatest);
        }
        let mut below = 0;
        let i = self.counts.iter().position(|&count| {
            below += u64::from(count);
            below >= rank
        })?;
        Some(middle(self.lowest + i as u16).clamp(least, greatest))
    }
}

fn step(value: Nanos) -> u16 {
    let value = value.max(1 << STEPS);
    let power = value.ilog2();
    let part = (value >> (power - STEPS)) & ((1 << STEPS) - 1);
    (((power - STEPS) << STEPS) + part as u32) as u16
}

fn middle(step: u16) -> Nanos {
    let power = u32::from(step >> STEPS);
    let low = ((1 << STEPS) + u64::from(step & ((1 << STEPS) - 1))) << power;
    low + (1u64 << power) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn steps_hold_what_they_say() {
        for value in (1..2000).chain([1_000_000, 123_456_789, u64::MAX / 3, u64::MAX]) {
            let found = middle(step(value)) as f64;
            let wanted = value.max(16) as f64;
            assert!((found / wanted - 1.0).abs() < 0.035, "{value}: {found}");
        }
    }

    proptest! {
        /// Against the sorted values.
        #[test]
        fn percentiles_are_near_those_of_the_values(
            mut values in prop::collection::vec(16u64..1_000_000_000, 1..60),
            percent in 1u64..101,
        ) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|&value| histogram.add(value));
            values.sort_unstable();
            let rank = (values.len() as u64 * percent).div_ceil(100);
            let wanted = values[rank as usize - 1] as f64;
            let found = histogram.percentile(percent);
            prop_assert!(found >= histogram.least() && found <= histogram.greatest());
            prop_assert!((found.unwrap() as f64 / wanted - 1.0).abs() < 0.035);
            prop_assert_eq!(histogram.least(), values.first().copied());
            prop_assert_eq!(histogram.greatest(), values.last().copied());
        }
    }
}
