use super::*;

fn trips(lengths: impl Iterator<Item = u64>) -> Trips {
    let mut counts = [0; GROUPS];
    for length in lengths {
        let group = (0..GROUPS)
            .rev()
            .find(|&group| Trips::begins(group) <= length);
        counts[group.unwrap_or(0)] += 1;
    }
    let mut trips = Trips::default();
    trips.add(counts);
    trips
}

#[test]
fn quantiles_are_near_those_of_the_lengths() {
    // From 100 µs to 3 s, so that all lengths of a decade are as frequent.
    let lengths: Vec<u64> = (0..4_500)
        .map(|number| (1e5 * 10f64.powf(f64::from(number) / 1_000.0)) as u64)
        .collect();
    let trips = trips(lengths.iter().copied());
    assert_eq!(trips.count(), 4_500);
    for share in [0.01, 0.1, 0.5, 0.9, 0.95, 0.99] {
        let exact = lengths[(share * 4_500.0) as usize] as f64;
        let found = trips.quantile(share).unwrap() as f64;
        assert!(
            (found / exact - 1.0).abs() < 0.01,
            "{share}: {found} for {exact}"
        );
    }
}

#[test]
fn all_of_a_kind_are_within_their_group() {
    for length in [70_000, 5_000_000, 40_000_000, 1_999_999_999] {
        let trips = trips(std::iter::repeat_n(length, 100));
        for share in [0.0, 0.5, 1.0] {
            let found = trips.quantile(share).unwrap() as f64;
            assert!(
                (found / length as f64 - 1.0).abs() < 0.125,
                "{found} for {length}"
            );
        }
    }
}

#[test]
fn without_trips_there_is_no_quantile() {
    assert_eq!(Trips::default().quantile(0.5), None);
    let line = Counted::default().summary();
    assert_eq!((line.access.p50, line.access.lately), (0, 0));
}
