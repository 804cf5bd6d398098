//! A set of byte ranges of a stream, merged where they touch.

use std::collections::BTreeMap;

/// Disjoint ranges `[start, end)`, by start.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    by_start: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Ranges {
    /// Bytes in all ranges together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes in ranges from this position on. Takes time in the ranges below it.
    pub fn bytes_from(&self, position: u64) -> u64 {
        match self.by_start.last_key_value() {
            Some((_, &end)) if end > position => {
                let below = self.by_start.range(..position);
                let below = below.map(|(&start, &end)| end.min(position) - start);
                self.bytes - below.sum::<u64>()
            }
            _ => 0,
        }
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.by_start.len()
    }

    /// Adds a range and calls `new` for every part of it that was not there before, from low to
    /// high. Takes time in the parts found, not in the range's length.
    pub fn insert(&mut self, start: u64, end: u64, mut new: impl FnMut(u64, u64)) {
        if start >= end {
            return;
        }
        let mut merged = (start, end);
        let mut from = start;
        if let Some((&before, &before_end)) = self.by_start.range(..=start).next_back()
            && before_end >= start
        {
            if before_end >= end {
                return;
            }
            merged.0 = before;
            from = before_end;
            self.by_start.remove(&before);
        }
        while let Some((&next, &next_end)) = self.by_start.range(start..=end).next() {
            if next > from {
                self.bytes += next - from;
                new(from, next);
            }
            self.by_start.remove(&next);
            from = from.max(next_end);
            merged.1 = merged.1.max(next_end);
        }
        if from < end {
            self.bytes += end - from;
            new(from, end);
        }
        self.by_start.insert(merged.0, merged.1);
    }

    /// Forgets everything below a position.
    pub fn forget(&mut self, below: u64) {
        while let Some(first) = self.by_start.first_entry() {
            let (start, end) = (*first.key(), *first.get());
            if start >= below {
                return;
            }
            first.remove();
            self.bytes -= end.min(below) - start;
            if end > below {
                self.by_start.insert(below, end);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Against a set of single bytes.
        #[test]
        fn agrees_with_a_set_of_bytes(
            operations in prop::collection::vec((0u64..60, 0u64..20, prop::bool::weighted(0.2)), 0..40)
        ) {
            let mut ranges = Ranges::default();
            let mut model = BTreeSet::new();
            let mut floor = 0;
            for (start, length, forget) in operations {
                if forget {
                    floor = floor.max(start);
                    ranges.forget(start);
                    model.retain(|&byte| byte >= start);
                } else {
                    let mut found = BTreeSet::new();
                    ranges.insert(start, start + length, |from, to| {
                        assert!(from < to);
                        for byte in from..to {
                            assert!(found.insert(byte), "reported twice");
                        }
                    });
                    let expected: BTreeSet<u64> =
                        (start..start + length).filter(|byte| !model.contains(byte)).collect();
                    prop_assert_eq!(&found, &expected);
                    model.extend(expected);
                }
                prop_assert_eq!(ranges.bytes(), model.len() as u64);
                let from = model.range(start..).count() as u64;
                prop_assert_eq!(ranges.bytes_from(start), from);
            }
        }
    }
}
