use proptest::prelude::*;

use super::*;
use crate::SECOND;

const MBIT: u64 = 1_000_000;

fn steps(steps: &[(Nanos, u64)], period: Option<Nanos>) -> Steps {
    let steps = steps
        .iter()
        .map(|&(at, bits)| (at, Rate::from_bits_per_second(bits)));
    Steps::new(steps.collect(), period).unwrap()
}

/// Bits times 10⁹, as links count.
fn bits(bits: u64) -> u128 {
    u128::from(bits) * 1_000_000_000
}

#[test]
fn work_goes_on_at_the_next_rate() {
    let steps = steps(&[(0, 8 * MBIT), (SECOND, MBIT)], None);
    assert_eq!(steps.sent(0, bits(8 * MBIT)), (SECOND, 0));
    assert_eq!(steps.sent(0, bits(9 * MBIT)), (2 * SECOND, 0));
    assert_eq!(
        steps.sent(SECOND / 2, bits(5 * MBIT)),
        (2 * SECOND, 0),
        "half a second at each rate"
    );
    assert_eq!(steps.sent(SECOND, 1), (SECOND + 1, u128::from(MBIT) - 1));
}

#[test]
fn a_link_that_is_off_waits_and_may_be_off_for_ever() {
    let on_off = steps(&[(0, 10 * MBIT), (300 * MILLISECOND, 0)], Some(SECOND));
    // 3 Mbit in each second.
    assert_eq!(on_off.sent(0, bits(3 * MBIT)).0, 300 * MILLISECOND);
    assert_eq!(on_off.sent(0, bits(4 * MBIT)).0, SECOND + 100 * MILLISECOND);
    assert_eq!(
        on_off.sent(500 * MILLISECOND, bits(MBIT)).0,
        SECOND + 100 * MILLISECOND
    );
    assert_eq!(
        on_off.sent(0, bits(3_000_000 * MBIT)).0,
        999_999 * SECOND + 300 * MILLISECOND
    );
    let once = steps(&[(0, MBIT), (SECOND, 0)], None);
    assert_eq!(once.sent(0, bits(2 * MBIT)).0, Nanos::MAX);
}

#[test]
fn contradictions_are_errors() {
    let rate = Rate::from_bits_per_second(MBIT);
    let off = Rate::from_bits_per_second(0);
    for (steps, period, what) in [
        (vec![], None, "at 0s"),
        (vec![(1, rate)], None, "at 0s"),
        (vec![(0, rate), (0, off)], None, "after the one before"),
        (vec![(0, rate), (5, off)], Some(5), "period"),
        (vec![(0, off)], Some(5), "always off"),
    ] {
        let error = Steps::new(steps, period).unwrap_err();
        assert!(error.contains(what), "{error}");
    }
    for (text, what) in [
        ("", "the file is empty"),
        ("0\n0\n", "longer than 0 ms"),
        ("1\n-1", "line 2"),
        ("5\n4", "line 2 is earlier"),
        ("99999999999", "line 1"),
    ] {
        let error = Trace::read(text).unwrap_err();
        assert!(error.contains(what), "{error}");
    }
}

#[test]
fn a_trace_repeats_after_its_last_line() {
    let trace = Trace::read("1\n1\n5\n").unwrap();
    let times: Vec<Nanos> = (0..7).map(|n| trace.opportunity(n) / MILLISECOND).collect();
    assert_eq!(times, [1, 1, 5, 6, 6, 10, 11]);
    assert_eq!(trace.first_after(0), 0);
    assert_eq!(trace.first_after(MILLISECOND), 2);
    assert_eq!(trace.first_after(5 * MILLISECOND), 3);
    // 3 packets of 1,500 bytes in 5 ms.
    assert_eq!(trace.mean().bits_per_second(), 7_200_000);
}

proptest! {
    /// What is sent in two parts is sent when the whole is: nothing is lost at steps and periods.
    #[test]
    fn parts_add_up(
        rates in prop::collection::vec(0u64..50 * MBIT, 1..5),
        gaps in prop::collection::vec(1u64..SECOND, 5),
        periodic in any::<bool>(),
        now in 0..10 * SECOND,
        first in 1u64..10 * MBIT,
        second in 1u64..10 * MBIT,
    ) {
        prop_assume!(rates.iter().any(|&rate| rate > 0));
        let mut at = 0;
        let mut all = Vec::new();
        for (&rate, &gap) in rates.iter().zip(&gaps) {
            all.push((at, rate));
            at += gap;
        }
        let steps = steps(&all, periodic.then_some(at));
        let (middle, ahead) = steps.sent(now, bits(first));
        prop_assume!(middle < Nanos::MAX);
        let whole = steps.sent(now, bits(first) + bits(second)).0;
        let parts = steps.sent(middle, bits(second).saturating_sub(ahead)).0;
        prop_assert_eq!(whole, parts);
    }
}
