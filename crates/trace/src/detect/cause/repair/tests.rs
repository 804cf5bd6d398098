use super::*;
use crate::testing::*;

/// Sixteen packets of which every second was lost; what follows each retransmission is acknowledged after
/// 50 ms, and `pauses` later, in ms, the next one is sent.
fn repaired(pauses: [u64; 8]) -> Nanos {
    seen(pauses, 50, 0)
}

/// The same, seen where acknowledgements take `there` ms, and what they lead to the rest of the 50.
fn seen(pauses: [u64; 8], there: u64, away: u64) -> Nanos {
    let mut talk = Talk::begun();
    for n in 0..16 {
        talk.full(10 * MS, n);
    }
    let mut at = 100 * MS;
    for (n, pause) in (0..).zip(pauses) {
        talk.full(at, 2 * n);
        at += there * MS;
        talk.ack(at, nth(2 * n + 2));
        at += (50 - there + pause) * MS;
    }
    slow_repairs(&talk.end().response().sent, away * MS)
}

#[test]
fn one_retransmission_a_round_trip_is_slow() {
    assert_eq!(repaired([0; 8]), 7 * 50 * MS);
    assert_eq!(repaired([5; 8]), 7 * 55 * MS);
}

#[test]
fn away_from_the_sender_the_next_one_comes_later() {
    assert_eq!(seen([0; 8], 0, 50), 7 * 50 * MS);
    assert_eq!(seen([5; 8], 20, 30), 7 * 55 * MS);
    assert_eq!(seen([0; 8], 0, 0), 0);
    assert_eq!(seen([10; 8], 0, 50), 0);
}

#[test]
fn a_row_that_a_pause_interrupts_is_too_short() {
    assert_eq!(repaired([0, 0, 0, 200, 0, 0, 0, 0]), 0);
    assert_eq!(repaired([200, 200, 0, 0, 0, 0, 0, 0]), 5 * 50 * MS);
}

#[test]
fn retransmissions_side_by_side_are_not_slow() {
    let mut talk = Talk::begun();
    for n in 0..16 {
        talk.full(10 * MS, n);
    }
    for n in 0..8 {
        talk.full(100 * MS, 2 * n);
    }
    for n in 0..8 {
        talk.ack(150 * MS, nth(2 * n + 2));
    }
    assert_eq!(slow_repairs(&talk.end().response().sent, 0), 0);
}

#[test]
fn retransmissions_in_a_row_from_afar_are_not_slow() {
    let mut talk = Talk::begun();
    for n in 0..16 {
        talk.full(10 * MS, n);
    }
    for n in 0..8u32 {
        talk.full((100 + 2 * u64::from(n)) * MS, 2 * n);
        talk.ack((101 + 2 * u64::from(n)) * MS, nth(2 * n + 2));
    }
    assert_eq!(slow_repairs(&talk.end().response().sent, 50 * MS), 0);
}
