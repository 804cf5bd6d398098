use proptest::prelude::*;

use super::MaxFilter;

#[test]
fn a_maximum_is_forgotten_when_its_window_is_over() {
    let mut filter = MaxFilter::default();
    filter.update(10, 0, 100);
    for time in 1..=10 {
        filter.update(10, time, 50);
        assert_eq!(filter.get(), 100);
    }
    filter.update(10, 11, 50);
    assert_eq!(filter.get(), 50);
    filter.update(10, 11, 70);
    assert_eq!(filter.get(), 70, "a larger one counts at once");
    filter.update(10, 30, 1);
    assert_eq!(filter.get(), 1, "nothing is left in the window");
}

#[test]
fn falling_samples_leave_candidates_behind() {
    let mut filter = MaxFilter::default();
    for time in 0..=20u64 {
        filter.update(10, time, 100 - time as u32);
    }
    // 90, of time 10, is the maximum; the candidate of the second quarter or half replaces it.
    assert!((80..=90).contains(&filter.get()), "{}", filter.get());
}

proptest! {
    /// Compared with a list of all samples: the filter's value was seen within the window. It is
    /// the true maximum, unless that came after a larger one and fell between candidates.
    #[test]
    fn it_says_what_was_seen_in_the_window(
        samples in prop::collection::vec((0u64..3, 0u32..1000), 1..200),
    ) {
        let (mut filter, mut seen, mut time) = (MaxFilter::default(), Vec::new(), 0);
        for (step, value) in samples {
            time += step;
            filter.update(10, time, value);
            seen.push((time, value));
            let window = seen.iter().filter(|(at, _)| time - at <= 10);
            let max = window.clone().map(|sample| sample.1).max().unwrap();
            prop_assert!(window.clone().any(|sample| sample.1 == filter.get()));
            prop_assert!(filter.get() <= max);
            let late = window.clone().filter(|(at, _)| time - at <= 2);
            prop_assert!(filter.get() >= late.map(|sample| sample.1).max().unwrap());
        }
    }
}
