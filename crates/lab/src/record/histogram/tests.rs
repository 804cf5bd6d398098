use proptest::prelude::*;

use super::*;

#[test]
fn steps_follow_each_other_up_to_the_longest_time() {
    let mut end = 0u128;
    for step in 0..=bucket(Nanos::MAX) {
        let (low, width) = bounds(step);
        assert_eq!(u128::from(low), end, "step {step}");
        assert_eq!((bucket(low), bucket(low + (width - 1))), (step, step));
        end = u128::from(low) + u128::from(width);
    }
    assert_eq!(end, 1 << 64);
    assert_eq!(bucket(Nanos::MAX), 7423);
}

proptest! {
    #[test]
    fn percentiles_are_within_a_step_of_the_sorted_values(
        mut values in prop::collection::vec((0u32..40).prop_flat_map(|bits| 0u64..1 << bits), 1..300),
    ) {
        let mut histogram = Histogram::default();
        values.iter().for_each(|&value| histogram.record(value));
        values.sort_unstable();
        let got = histogram.distribution();
        prop_assert_eq!((got.min, got.max), (values[0], values[values.len() - 1]));
        prop_assert_eq!(got.mean, values.iter().sum::<u64>() / values.len() as u64);
        let percentiles = [(10, got.p10), (50, got.p50), (90, got.p90), (95, got.p95), (99, got.p99)];
        for (percent, got) in percentiles {
            let exact = values[(values.len() * percent).div_ceil(100) - 1];
            prop_assert!(got.abs_diff(exact) <= exact / 128 + 1, "{got} for {exact}");
        }
    }
}
