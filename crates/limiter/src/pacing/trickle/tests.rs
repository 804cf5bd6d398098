use super::super::{Ready, Way, Writer};
use super::*;
use crate::{Bytes, Rate};

const MILLISECOND: Nanos = 1_000_000;

fn clamp(rate: u64, headroom: u32) -> Trickle {
    Trickle::new(Target {
        rate,
        headroom,
        hold_average: false,
        block: 14_480,
    })
}

/// Segments at 500,000 B/s, round trip and elapsed time in ms.
fn segments(clamp: &mut Trickle, rtt: u64, elapsed: u64, delivered: u64) -> u32 {
    clamp.segments(1448, rtt * MILLISECOND, elapsed * MILLISECOND, delivered)
}

#[test]
fn the_bound_is_rate_times_round_trip_with_headroom() {
    let mut clamp = clamp(500_000, 1200);
    // 34.5 segments; with a fifth more, 41.4.
    assert_eq!(segments(&mut clamp, 100, 0, 0), 41);
    assert_eq!(clamp.hold(), Hold::Clamped);
    // Ten times the round trip, ten times the window.
    assert_eq!(segments(&mut clamp, 1000, 0, 0), 414);
    // 9.1 segments are too few.
    assert_eq!(segments(&mut clamp, 22, 0, 0), 10);
    assert_eq!(clamp.hold(), Hold::Floor);
    // 9.5 are rounded to 10, and not below the floor.
    assert_eq!(segments(&mut clamp, 23, 0, 0), 10);
    assert_eq!(clamp.hold(), Hold::Clamped);
}

#[test]
fn writes_that_are_throttled_once_stay_so_but_while_catching_up() {
    let mut clamp = clamp(500_000, 1200);
    let rate = Rate::from_bits_per_second(4_000_000);
    let mut writer = Writer::new(Way::TRICKLE, rate, Bytes::new(0));
    let mut throttles = |clamp: &Trickle| {
        let ready = writer.ready(0, Some(clamp.hold()));
        ready != Ready::Write(u64::MAX)
    };
    segments(&mut clamp, 100, 0, 0);
    assert!(!throttles(&clamp));
    segments(&mut clamp, 22, 0, 0);
    assert!(throttles(&clamp));
    segments(&mut clamp, 100, 0, 0);
    assert!(clamp.hold() == Hold::Clamped && throttles(&clamp));
    segments(&mut clamp, 100, 10_000, 0);
    assert!(clamp.hold() == Hold::Behind && !throttles(&clamp));
    segments(&mut clamp, 100, 10_000, 5_000_000);
    assert!(clamp.hold() == Hold::Clamped && throttles(&clamp));
}

#[test]
fn a_connection_that_is_behind_is_free_until_it_has_caught_up() {
    let mut clamp = clamp(500_000, 1200);
    // 5 MB are due; 50 kB may be under way, and a block still to be written.
    let allowed = 5_000_000 - 50_000 - 14_480;
    segments(&mut clamp, 100, 10_000, allowed);
    assert_eq!(clamp.hold(), Hold::Clamped);
    segments(&mut clamp, 100, 10_000, allowed - 1);
    assert_eq!(clamp.hold(), Hold::Behind);
    segments(&mut clamp, 100, 10_000, 4_999_999);
    assert_eq!(clamp.hold(), Hold::Behind);
    segments(&mut clamp, 100, 10_000, 5_000_000);
    assert_eq!(clamp.hold(), Hold::Clamped);
}

#[test]
fn the_headroom_may_be_left_away_when_ahead() {
    let mut clamp = clamp(500_000, 1200);
    clamp.target.hold_average = true;
    let ahead = 5_000_000 + 50_000 + 14_480;
    assert_eq!(segments(&mut clamp, 100, 10_000, ahead), 41);
    assert_eq!(segments(&mut clamp, 100, 10_000, ahead + 1), 34);
}

#[test]
fn extremes_do_not_overflow() {
    let mut clamp = clamp(u64::MAX, u32::MAX);
    clamp.target.block = u64::MAX;
    let got = clamp.segments(0, Nanos::MAX, Nanos::MAX, u64::MAX);
    assert_eq!(got, u32::MAX);
}
