use super::bucket::Bucket;
use super::*;
use crate::MILLISECOND;

fn trickle(rate: u64, headroom: u32) -> Trickle {
    let target = Target {
        rate,
        headroom,
        hold_average: false,
        block: 14_480,
    };
    Trickle::new(target, 0, 0)
}

/// Segments at 500,000 B/s, round trip and elapsed time in ms.
fn segments(trickle: &mut Trickle, rtt: u64, elapsed: u64, delivered: u64) -> u32 {
    trickle.segments(1448, rtt * MILLISECOND, elapsed * MILLISECOND, delivered)
}

#[test]
fn the_bound_is_rate_times_round_trip_with_headroom() {
    let mut trickle = trickle(500_000, 1200);
    // 34.5 segments; with a fifth more, 41.4.
    assert_eq!(segments(&mut trickle, 100, 0, 0), 41);
    assert!(!trickle.throttles_writes());
    // Ten times the round trip, ten times the window.
    assert_eq!(segments(&mut trickle, 1000, 0, 0), 414);
    // 9.1 segments are too few.
    assert_eq!(segments(&mut trickle, 22, 0, 0), 10);
    assert!(trickle.throttles_writes());
    // 9.5 are rounded to 10, and not below the floor.
    assert_eq!(segments(&mut trickle, 23, 0, 0), 10);
    assert_eq!(trickle.stand, Stand::Bound);
}

#[test]
fn writes_that_are_throttled_once_stay_so_but_while_catching_up() {
    let mut trickle = trickle(500_000, 1200);
    segments(&mut trickle, 22, 0, 0);
    segments(&mut trickle, 100, 0, 0);
    assert!(trickle.stand == Stand::Bound && trickle.throttles_writes());
    segments(&mut trickle, 100, 10_000, 0);
    assert!(trickle.stand == Stand::Behind && !trickle.throttles_writes());
    segments(&mut trickle, 100, 10_000, 5_000_000);
    assert!(trickle.stand == Stand::Bound && trickle.throttles_writes());
}

/// 10 kB come in 20 ms.
#[test]
fn blocks_that_are_late_are_caught_up_at_twice_the_rate_two_at_most() {
    let mut bucket = Bucket::new(500_000, 10_000, 0);
    let mut at = Vec::new();
    let mut write = |bucket: &mut Bucket, from: Nanos, count: usize| {
        let mut now = from;
        for _ in 0..count {
            now = bucket.due(now).max(now);
            at.push(now / MILLISECOND);
            bucket.wrote(now, 10_000);
        }
    };
    write(&mut bucket, 0, 2);
    // Nothing for 160 ms: eight are due, and two are there.
    write(&mut bucket, 200 * MILLISECOND, 5);
    // Behind, the six that were missed are due.
    bucket.counted(270 * MILLISECOND, 60_000);
    assert_eq!(at, [20, 40, 200, 210, 220, 240, 260]);
    assert_eq!(bucket.due(270 * MILLISECOND), 280 * MILLISECOND);
    // What the window let go ahead counts, up to 262,144 bytes.
    bucket.counted(280 * MILLISECOND, 1 << 30);
    let wait = 10_000_u64 * 2_000 + (1 << 18) * 2_000;
    assert_eq!(bucket.due(0), 280 * MILLISECOND + wait);
}

#[test]
fn a_connection_that_is_behind_is_free_until_it_has_caught_up() {
    let mut trickle = trickle(500_000, 1200);
    // 5 MB are due; 50 kB may be under way, and a block still to be written.
    let allowed = 5_000_000 - 50_000 - 14_480;
    segments(&mut trickle, 100, 10_000, allowed);
    assert_eq!(trickle.stand, Stand::Bound);
    segments(&mut trickle, 100, 10_000, allowed - 1);
    assert_eq!(trickle.stand, Stand::Behind);
    segments(&mut trickle, 100, 10_000, 4_999_999);
    assert_eq!(trickle.stand, Stand::Behind);
    segments(&mut trickle, 100, 10_000, 5_000_000);
    assert_eq!(trickle.stand, Stand::Bound);
}

#[test]
fn the_headroom_may_be_left_away_when_ahead() {
    let mut trickle = trickle(500_000, 1200);
    trickle.target.hold_average = true;
    let ahead = 5_000_000 + 50_000 + 14_480;
    assert_eq!(segments(&mut trickle, 100, 10_000, ahead), 41);
    assert_eq!(segments(&mut trickle, 100, 10_000, ahead + 1), 34);
}

#[test]
fn extremes_do_not_overflow() {
    let mut trickle = trickle(u64::MAX, u32::MAX);
    trickle.target.block = u64::MAX;
    let got = trickle.segments(0, Nanos::MAX, Nanos::MAX, u64::MAX);
    assert_eq!(got, u32::MAX);
}
