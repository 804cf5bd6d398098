use super::*;
use crate::testing::*;

/// Sixteen packets of which every second was lost; what follows each retransmission is acknowledged after
/// 50 ms, and `pauses` later, in ms, the next one is sent.
fn repaired(pauses: [u64; 8]) -> Nanos {
    let mut talk = Talk::begun();
    for n in 0..16 {
        talk.full(10 * MS, n);
    }
    let mut at = 100 * MS;
    for (n, pause) in (0..).zip(pauses) {
        talk.full(at, 2 * n);
        at += 50 * MS;
        talk.ack(at, nth(2 * n + 2));
        at += pause * MS;
    }
    slow_repairs(&talk.end().response().sent)
}

#[test]
fn one_retransmission_a_round_trip_is_slow() {
    assert_eq!(repaired([0; 8]), 7 * 50 * MS);
    assert_eq!(repaired([5; 8]), 7 * 55 * MS);
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
    assert_eq!(slow_repairs(&talk.end().response().sent), 0);
}
