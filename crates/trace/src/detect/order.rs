//! Percentiles of a growing set of numbers.

/// Counts of numbers known in advance, in a binary indexed tree: adding one and finding the n-th
/// smallest take logarithmic time.
pub(super) struct Order {
    values: Vec<f64>,
    tree: Vec<u32>,
    count: usize,
}

impl Order {
    /// For numbers among `values`, in any order and with repetitions.
    pub(super) fn of(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        values.dedup();
        let tree = vec![0; values.len() + 1];
        Self {
            values,
            tree,
            count: 0,
        }
    }

    /// Adds one of the values that it was made for.
    pub(super) fn add(&mut self, value: f64) {
        let mut i = self.values.partition_point(|&other| other < value) + 1;
        while i < self.tree.len() {
            self.tree[i] += 1;
            i += i & i.wrapping_neg();
        }
        self.count += 1;
    }

    /// The n-th smallest so far, from 0.
    fn nth(&self, n: usize) -> f64 {
        let mut left = n as u32;
        let mut at = 0;
        let mut step = self.tree.len().next_power_of_two();
        while step > 0 {
            if let Some(&count) = self.tree.get(at + step)
                && count <= left
            {
                left -= count;
                at += step;
            }
            step /= 2;
        }
        self.values[at.min(self.values.len() - 1)]
    }

    /// A percentile so far, interpolated between neighbours as numpy does by default.
    pub(super) fn percentile(&self, percent: f64) -> Option<f64> {
        let last = self.count.checked_sub(1)?;
        let rank = last as f64 * percent / 100.0;
        let below = self.nth(rank.floor() as usize);
        let above = self.nth((rank.ceil() as usize).min(last));
        Some(below + (above - below) * rank.fract())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against sorting again after every number.
        #[test]
        fn agrees_with_sorting(values in prop::collection::vec(0u8..50, 1..60), percent in 0.0f64..100.0) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let mut order = Order::of(values.clone());
            prop_assert_eq!(order.percentile(percent), None);
            for n in 0..values.len() {
                order.add(values[n]);
                let mut sorted = values[..=n].to_vec();
                sorted.sort_by(f64::total_cmp);
                let rank = n as f64 * percent / 100.0;
                let (i, j) = (rank.floor() as usize, rank.ceil() as usize);
                let expected = sorted[i] + (sorted[j] - sorted[i]) * rank.fract();
                prop_assert!((order.percentile(percent).unwrap() - expected).abs() < 1e-9);
            }
        }
    }
}
