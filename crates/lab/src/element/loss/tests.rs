use super::*;
use crate::random::Owner;

/// Share of packets lost, and mean number in a row.
fn measure(probability: f64, burst: f64) -> (f64, f64) {
    let mut loss = Loss::new(probability, burst, Random::new(5, Owner::Element(0)));
    let (mut lost, mut runs, mut before) = (0u32, 0u32, false);
    for _ in 0..1_000_000 {
        let now = loss.loses();
        lost += u32::from(now);
        runs += u32::from(now && !before);
        before = now;
    }
    (
        f64::from(lost) / 1e6,
        f64::from(lost) / f64::from(runs.max(1)),
    )
}

#[test]
fn losses_have_their_rate_and_length() {
    for (probability, burst) in [(0.01, 1.0), (0.2, 1.0), (0.01, 5.0), (0.3, 2.0)] {
        let (part, run) = measure(probability, burst);
        assert!(
            (part / probability - 1.0).abs() < 0.05,
            "{probability} {burst}: {part}"
        );
        // Independent losses follow each other by chance: 1 / (1 − p) in a row.
        let expected = if burst == 1.0 {
            1.0 / (1.0 - probability)
        } else {
            burst
        };
        assert!(
            (run / expected - 1.0).abs() < 0.05,
            "{probability} {burst}: {run}"
        );
    }
    assert_eq!(measure(0.0, 1.0).0, 0.0);
    assert_eq!(measure(0.0, 4.0).0, 0.0);
    assert_eq!(measure(1.0, 1.0).0, 1.0);
}
