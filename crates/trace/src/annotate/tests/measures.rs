//! Measures of transfers.

use crate::annotate::median;
use crate::testing::*;
use crate::wire::Flags;
use crate::write::TcpFrame;

#[test]
fn duration_and_goodput_are_from_the_first_packet_to_the_last_acknowledgement() {
    let mut talk = Talk::begun();
    for n in 0..10 {
        talk.full((100 + 10 * u64::from(n)) * MS, n);
    }
    talk.ack(600 * MS, nth(10));
    let found = talk.end();
    let metrics = found.response().metrics;
    assert_eq!(metrics.first_sent, START + 100 * MS);
    assert_eq!(metrics.duration, 500 * MS);
    assert_eq!(metrics.goodput_bps(), Some(160_000.0));
}

#[test]
fn without_acknowledgements_all_that_was_sent_counts_as_delivered() {
    let mut talk = Talk::new();
    for n in 0..10 {
        talk.full((100 + 10 * u64::from(n)) * MS, n);
    }
    let found = talk.end();
    assert_eq!(found.response().metrics.delivered_bytes, 10_000);
    assert_eq!(found.response().metrics.rtt, None);
    assert_eq!(
        found.response().metrics.goodput_bps(),
        Some(80_000.0 / 0.09)
    );
}

#[test]
fn one_packet_has_no_goodput() {
    let mut talk = Talk::new();
    talk.full(100 * MS, 0);
    let found = talk.end();
    assert_eq!(found.response().metrics.goodput_bps(), None);
    assert_eq!(found.response().metrics.loss_rate(), 0.0);
}

/// Bursts of 40 packets at line rate into a bottleneck of 8 Mbit/s (a packet a millisecond),
/// with an acknowledgement for every `each` packets.
fn behind_a_bottleneck(each: u32) -> Kept {
    let mut talk = Talk::begun();
    for burst in 0..5 {
        let at = (10 + 100 * u64::from(burst)) * MS;
        for i in 0..40 {
            talk.full(at + u64::from(i) * 10_000, 40 * burst + i);
        }
        for i in (0..40).filter(|i| i % each == each - 1) {
            talk.ack(at + (21 + u64::from(i)) * MS, nth(40 * burst + i + 1));
        }
    }
    talk.end().response().clone()
}

#[test]
fn capacity_is_the_rate_of_the_bottleneck() {
    for each in [1, 2] {
        let capacity = behind_a_bottleneck(each).metrics.capacity.unwrap();
        assert!(
            (capacity.bps / 8e6 - 1.0).abs() < 0.05,
            "{each}: {capacity:?}"
        );
        assert!(capacity.trains >= 10);
    }
}

#[test]
fn acknowledgements_closer_than_their_packets_show_no_capacity() {
    let mut made = Made::new();
    for i in 0..100 {
        // Sent over 100 ms, and acknowledged within 10 ms.
        made.passes(i * MS, 200 * MS - i * MS / 10 * 9, 5);
    }
    assert_eq!(made.measure().capacity, None);
}

#[test]
fn a_loss_ends_a_train() {
    let mut made = Made::new();
    for i in 0..100 {
        if i % 5 == 4 {
            made.is_lost(i * MS, 40 * MS, 5);
        } else {
            made.passes(i * MS, 20 * MS, 5);
        }
    }
    // Never eight packets without a loss.
    assert_eq!(made.measure().capacity, None);
}

#[test]
fn round_trip_times_by_nearest_rank() {
    let mut made = Made::new();
    for i in 0..100 {
        // In no order.
        made.passes(i * MS, (1 + i * 37 % 100) * MS, 1);
    }
    let rtt = made.measure().rtt.unwrap();
    assert_eq!(rtt.samples, 100);
    let found = [
        rtt.min, rtt.p10, rtt.median, rtt.p90, rtt.p95, rtt.p99, rtt.max,
    ];
    assert_eq!(found, [1, 10, 50, 90, 95, 99, 100].map(|ms| ms * MS));
}

#[test]
fn the_median_is_between_the_middle_two() {
    assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
    assert_eq!(median(&mut []), None);
}

#[test]
fn a_queue_that_grows_with_what_is_in_flight_is_bufferbloat() {
    let mut made = Made::new();
    for i in 0..200 {
        let flight = i % 100;
        made.passes(i * 10 * MS, (10 + flight) * MS, flight as u32);
    }
    let metrics = made.measure();
    let growth = metrics.growth.unwrap();
    assert!(growth.correlation > 0.99);
    // A millisecond for a packet: 8 Mbit/s.
    assert!((growth.ns_per_byte - 1000.0).abs() < 1.0);
    assert!(metrics.bufferbloat);
}

#[test]
fn what_is_no_bufferbloat() {
    let bloat = |rtt: fn(u64) -> u64, flight: fn(u64) -> u32| {
        let mut made = Made::new();
        for i in 0..200 {
            made.passes(i * 10 * MS, rtt(i), flight(i));
        }
        made.measure().bufferbloat
    };
    let growing = |i: u64| (10 + i % 100) * MS;
    let flight = |i: u64| (i % 100) as u32;
    assert!(bloat(growing, flight));
    // A constant delay, one that goes its own way, one that hardly grows, one that grows by less
    // than half of a long path's.
    assert!(!bloat(|_| 100 * MS, flight));
    assert!(!bloat(growing, |i| (i * 37 % 50) as u32));
    assert!(!bloat(|i| (1 + i % 100 / 10) * MS, flight));
    assert!(!bloat(|i| (500 + i % 100) * MS, flight));
}

#[test]
fn few_samples_show_no_growth() {
    let mut made = Made::new();
    for i in 0..9 {
        made.passes(i * 10 * MS, (10 + 10 * i) * MS, i as u32);
    }
    assert_eq!(made.measure().growth, None);
}

/// Bits of the acknowledgements of one packet after another: as RFC 3168 echoes marks, with accurate ECN, and without either.
#[test]
fn congestion_marks_are_counted_by_what_acknowledgements_echo_anew() {
    const ECE: u8 = Flags::ECE;
    const CWR: u8 = Flags::CWR;
    for (bits, echoes) in [
        ([0, ECE, ECE, 0, 0, ECE, ECE, 0], 2),
        ([ECE, ECE, CWR, CWR, CWR | ECE, CWR | ECE, 0, ECE], 3),
        ([ECE; 8], 0),
        ([0; 8], 0),
    ] {
        let mut talk = Talk::begun();
        for (n, bits) in (0..).zip(bits) {
            let at = (10 + 10 * u64::from(n)) * MS;
            talk.full(at, n);
            let ack = TcpFrame {
                flags: Flags::ACK | bits,
                ..talk.acking(nth(n + 1))
            };
            talk.put(at + 5 * MS, ack);
        }
        assert_eq!(talk.end().response().metrics.congestion_echoes, echoes);
    }
}
