//! Senders whose clock and path are known.

use super::*;
use crate::annotate::Marks;

const MILLISECOND: Nanos = 1_000_000;

/// Ten packets of a burst each 5 ms, and what each waits in nanoseconds, given its number. The sender's clock counts ticks of
/// this length.
fn sent(count: u64, tick: Nanos, wait: impl Fn(u64) -> Nanos) -> Vec<Sent> {
    let packet = |i: u64| {
        let left = i / 10 * 5 * MILLISECOND + i % 10 * 300_000;
        Sent {
            at: 7_000_123_456 + left + wait(i),
            seq: i * 1000,
            len: 1000,
            tsval: (4_294_967_000u64 + left / tick) as u32,
            ..Sent::default()
        }
    };
    (0..count).map(packet).collect()
}

#[test]
fn a_clock_of_milliseconds_tells_what_packets_waited() {
    let waited = |i: u64| i % 100 * MILLISECOND / 5;
    let found = waits(&sent(2000, MILLISECOND, waited)).unwrap();
    for (i, found) in (0..).zip(found) {
        assert!(found <= waited(i), "{i}: {found}");
        assert!(found + 3 * MILLISECOND / 2 > waited(i), "{i}: {found}");
    }
}

#[test]
fn a_clock_that_drifts_shows_no_queue() {
    // 60 ppm over ten seconds are 600 µs; the second half of the packets waits.
    let drifting = |i: u64| {
        i / 10 * 300
            + if i > 10_000 && !i.is_multiple_of(7) {
                20 * MILLISECOND
            } else {
                0
            }
    };
    let found = waits(&sent(20_000, MILLISECOND, drifting)).unwrap();
    let (early, late) = found.split_at(10_000);
    assert!(early.iter().all(|&wait| wait < MILLISECOND / 4));
    assert!(late.iter().filter(|&&wait| wait > 18 * MILLISECOND).count() > 8_000);
}

#[test]
fn other_clocks_tell_nothing() {
    assert!(waits(&sent(2000, 4 * MILLISECOND, |_| 0)).is_none());
    assert!(waits(&sent(2000, 10 * MILLISECOND, |_| 0)).is_none());
    assert!(waits(&sent(2000, 1_000, |_| 0)).is_none());
    let mut without = sent(2000, MILLISECOND, |_| 0);
    without.iter_mut().for_each(|sent| sent.tsval = 0);
    assert!(waits(&without).is_none());
    assert!(waits(&[]).is_none());
    // Hostile times and clocks.
    let mut wild = sent(2000, MILLISECOND, |_| 0);
    for (i, sent) in (0u64..).zip(&mut wild) {
        sent.at = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        sent.tsval = (i.wrapping_mul(0x85eb_ca6b) >> 3) as u32 | 1;
    }
    let _ = waits(&wild);
}

#[test]
fn what_was_lost_was_sent_with_its_flight() {
    let mut flight = Flight::default();
    (0..10).for_each(|i| flight.went(i * 100));
    // The next packet came a round trip later.
    assert_eq!(flight.lost(3, 900, 50_000), [1000, 1100, 1200]);
    // The next one came at once.
    flight.went(1300);
    assert_eq!(flight.lost(1, 1300, 1340), [1320]);
    // Nothing is known of the first packets.
    assert_eq!(Flight::default().lost(1, 100, 300), [200]);
}

#[test]
fn packets_that_never_came_are_not_asked_for_their_clock() {
    let mut packets = sent(200, MILLISECOND, |_| 0);
    for lost in packets.iter_mut().skip(50).step_by(10) {
        lost.tsval = 0;
        lost.marks = Marks::not_captured(false);
    }
    assert_eq!(waits(&packets).unwrap().len(), 185);
}
