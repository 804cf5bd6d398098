use super::*;
use crate::MILLISECOND;

const MIN_RTO: Nanos = 200 * MILLISECOND;

/// RFC 6298 §2.2 and the 200 ms of Linux: srtt = R, rttvar = R/2, RTO = srtt + max(4 rttvar, 200).
#[test]
fn the_first_sample_is_trusted() {
    let mut rtt = RoundTrip::new(MIN_RTO);
    assert_eq!(rtt.rto(), SECOND);
    rtt.sample(50 * MILLISECOND, 1, 1);
    assert_eq!(rtt.smoothed(), Some(50 * MILLISECOND));
    assert_eq!(rtt.rto(), 250 * MILLISECOND);
    let mut rtt = RoundTrip::new(MIN_RTO);
    rtt.sample(300 * MILLISECOND, 1, 1);
    assert_eq!(rtt.rto(), 900 * MILLISECOND);
}

/// RFC 6298 §2.3, by hand: R' = 180 ms after 100 ms gives srtt 110, rttvar 3/4 · 50 + 1/4 · 80.
#[test]
fn a_longer_round_trip_raises_the_timeout_by_the_formula() {
    let mut rtt = RoundTrip::new(0);
    rtt.sample(100 * MILLISECOND, 1, 1000);
    rtt.sample(180 * MILLISECOND, 500, 1000);
    assert_eq!(rtt.smoothed(), Some(110 * MILLISECOND));
    assert_eq!(rtt.rto(), (110 + 4 * 57) * MILLISECOND + 2 * MILLISECOND);
}

/// Linux: the deviation of a round trip counts by its maximum, and falls by a quarter in the next.
#[test]
fn calm_lowers_the_timeout_once_a_round_trip() {
    let mut rtt = RoundTrip::new(0);
    rtt.sample(100 * MILLISECOND, 1, 1000);
    let first = rtt.rto();
    assert_eq!(first, 300 * MILLISECOND);
    for _ in 0..10 {
        rtt.sample(100 * MILLISECOND, 1000, 2000);
    }
    assert_eq!(rtt.rto(), first, "the round trip is not over");
    // The first round trip ends, whose largest deviation was that of the first sample.
    rtt.sample(100 * MILLISECOND, 2001, 3000);
    let mut before = first;
    for round in 3..40 {
        rtt.sample(100 * MILLISECOND, round * 1000 + 1, round * 1000 + 1000);
        assert!(rtt.rto() < before);
        before = rtt.rto();
    }
    assert!(rtt.rto() < 120 * MILLISECOND, "{}", rtt.rto());
}

#[test]
fn backing_off_ends_at_two_minutes_and_with_the_next_sample() {
    let mut rtt = RoundTrip::new(MIN_RTO);
    rtt.sample(50 * MILLISECOND, 1, 1);
    for _ in 0..20 {
        rtt.back_off();
    }
    assert_eq!(rtt.rto(), MAX_RTO);
    rtt.sample(50 * MILLISECOND, 1, 1);
    assert_eq!(rtt.rto(), 250 * MILLISECOND);
}

#[test]
fn the_smallest_round_trip_is_forgotten_after_five_minutes() {
    let mut rtt = RoundTrip::new(MIN_RTO);
    rtt.sample_smallest(0, 10);
    rtt.sample_smallest(MIN_RTT_WINDOW, 20);
    assert_eq!(rtt.smallest(), Some(10));
    rtt.sample_smallest(MIN_RTT_WINDOW + 1, 20);
    assert_eq!(rtt.smallest(), Some(20));
}

#[test]
fn absurd_samples_do_no_harm() {
    let mut rtt = RoundTrip::new(Nanos::MAX);
    for sample in [Nanos::MAX, 0, Nanos::MAX / 2, 1, Nanos::MAX] {
        rtt.sample(sample, 1, 1);
        assert!(rtt.rto() <= MAX_RTO);
    }
}
