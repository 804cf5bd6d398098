use proptest::prelude::*;

use super::*;
use crate::SECOND;

/// A receiver that has passed its quick acknowledgements, whose window grows no more, and that
/// expects byte 1.
fn receiver(config: &TcpConfig) -> Receiver {
    let mut receiver = Receiver::new(config);
    receiver.establish(&Segment {
        syn: true,
        ..Segment::default()
    });
    receiver.growth = Growth::new(config.mss, 0);
    receiver.last_data = Some(0);
    receiver.full = 1448;
    receiver
}

fn data(seq: u64, payload: u32) -> Segment {
    Segment {
        seq,
        payload,
        ..Segment::default()
    }
}

/// The acknowledgements when these segments arrive one after the other, each acknowledged at once.
fn acks(receiver: &mut Receiver, arrivals: &[(u64, u32)]) -> Vec<(u64, Vec<(u64, u64)>)> {
    let mut acks = Vec::new();
    for (number, &(seq, payload)) in arrivals.iter().enumerate() {
        receiver.take(
            number as u64 * SECOND / 1000,
            &data(seq, payload),
            None,
            SECOND,
        );
        if receiver.wants_ack() {
            let mut ack = Segment::default();
            receiver.fill(&mut ack);
            acks.push((
                ack.ack,
                ack.sacks
                    .ranges()
                    .map(|range| (range.start, range.end))
                    .collect(),
            ));
        }
    }
    acks
}

/// The acknowledgements of a receiver that expects `first`, and acknowledges each of these at once, with
/// space for four ranges.
fn reported(first: u64, arrivals: &[(u64, u32)]) -> Vec<(u64, Vec<(u64, u64)>)> {
    let mut receiver = receiver(&TcpConfig {
        timestamps: false,
        ..TcpConfig::default()
    });
    (receiver.next, receiver.acked, receiver.quick) = (first, first, 100);
    let reported = acks(&mut receiver, arrivals);
    assert_eq!(reported.len(), arrivals.len());
    reported
}

/// RFC 2018 §7: 8 segments of 500 bytes from 5000.
#[test]
fn reports_the_ranges_of_rfc_2018() {
    // Case 1: the last four are lost.
    let last = reported(5000, &[(5000, 500), (5500, 500), (6000, 500), (6500, 500)])
        .pop()
        .unwrap();
    assert_eq!(last, (7000, vec![]));
    // Case 2: the first is lost.
    let seven: Vec<_> = (1..8).map(|n| (5000 + n * 500, 500)).collect();
    let expected: Vec<_> = (1..8)
        .map(|n| (5000, vec![(5500, 5500 + n * 500)]))
        .collect();
    assert_eq!(reported(5000, &seven), expected);
    // Case 3: the second, fourth, sixth and eighth are lost; then the fourth comes, and the second.
    let arrived = [5000, 6000, 7000, 8000, 6500, 5500].map(|seq| (seq, 500));
    assert_eq!(
        reported(5000, &arrived),
        [
            (5500, vec![]),
            (5500, vec![(6000, 6500)]),
            (5500, vec![(7000, 7500), (6000, 6500)]),
            (5500, vec![(8000, 8500), (7000, 7500), (6000, 6500)]),
            (5500, vec![(6000, 7500), (8000, 8500)]),
            (7500, vec![(8000, 8500)]),
        ]
    );
}

/// RFC 2883 §4 and §5, the tables: what arrived, and the acknowledgements with their ranges.
#[test]
fn reports_the_duplicates_of_rfc_2883() {
    // §4.1.1: a duplicate segment.
    let arrived = [(3000, 500), (3500, 500), (3000, 500)];
    let expected = [(3500, vec![]), (4000, vec![]), (4000, vec![(3000, 3500)])];
    assert_eq!(reported(3000, &arrived), expected);
    // §4.1.2: one out of order, and a duplicate.
    let arrived = [(3000, 500), (3500, 500), (4500, 500), (3000, 500)];
    let expected = [
        (3500, vec![]),
        (4000, vec![]),
        (4000, vec![(4500, 5000)]),
        (4000, vec![(3000, 3500), (4500, 5000)]),
    ];
    assert_eq!(reported(3000, &arrived), expected);
    // §4.1.3: a duplicate of one out of order.
    let arrived = [(3500, 500), (4500, 500), (5000, 500), (5000, 500)];
    let expected = [
        (4000, vec![]),
        (4000, vec![(4500, 5000)]),
        (4000, vec![(4500, 5500)]),
        (4000, vec![(5000, 5500), (4500, 5500)]),
    ];
    assert_eq!(reported(3500, &arrived), expected);
    // §4.2.1: a part of the last segment had arrived.
    let arrived = [(500, 500), (2000, 500), (1000, 500), (1000, 1000)];
    let expected = [
        (1000, vec![]),
        (1000, vec![(2000, 2500)]),
        (1500, vec![(2000, 2500)]),
        (2500, vec![(1000, 1500)]),
    ];
    assert_eq!(reported(500, &arrived), expected);
    // §4.2.2: two parts of the last segment had arrived, below the acknowledgement.
    let arrived = [
        (500, 500),
        (3000, 500),
        (1000, 500),
        (2000, 500),
        (1000, 1500),
    ];
    let expected = [
        (1000, vec![]),
        (1000, vec![(3000, 3500)]),
        (1500, vec![(3000, 3500)]),
        (1500, vec![(2000, 2500), (3000, 3500)]),
        (2500, vec![(1000, 1500), (3000, 3500)]),
    ];
    assert_eq!(reported(500, &arrived), expected);
    // §4.2.3: two parts had arrived, above it; they do not touch.
    let arrived = [
        (500, 500),
        (3500, 500),
        (1500, 500),
        (2500, 500),
        (1500, 1500),
    ];
    let expected = [
        (1000, vec![]),
        (1000, vec![(3500, 4000)]),
        (1000, vec![(1500, 2000), (3500, 4000)]),
        (1000, vec![(2500, 3000), (1500, 2000), (3500, 4000)]),
        (1000, vec![(1500, 2000), (1500, 3000), (3500, 4000)]),
    ];
    assert_eq!(reported(500, &arrived), expected);
    // §5.1: the network duplicated a segment.
    let arrived = [(500, 500), (1000, 500), (1000, 500)];
    let expected = [(1000, vec![]), (1500, vec![]), (1500, vec![(1000, 1500)])];
    assert_eq!(reported(500, &arrived), expected);
    // §5.2: sent again for reordering.
    let arrived = [500, 1500, 2000, 2500, 1000, 1000].map(|seq| (seq, 500));
    let expected = [
        (1000, vec![]),
        (1000, vec![(1500, 2000)]),
        (1000, vec![(1500, 2500)]),
        (1000, vec![(1500, 3000)]),
        (3000, vec![]),
        (3000, vec![(1000, 1500)]),
    ];
    assert_eq!(reported(500, &arrived), expected);
    // §5.3 and §5.4: a timeout, because acknowledgements were lost or late.
    let arrived = [500, 1000, 1500, 2000, 500].map(|seq| (seq, 500));
    let last = reported(500, &arrived).pop().unwrap();
    assert_eq!(last, (2500, vec![(500, 1000)]));
}

/// RFC 2883 §4: each duplicate is reported in one acknowledgement only.
#[test]
fn reports_a_duplicate_once() {
    let arrived = [(3500, 500), (3500, 500), (4000, 500)];
    let expected = [(4000, vec![]), (4000, vec![(3500, 4000)]), (4500, vec![])];
    assert_eq!(reported(3500, &arrived), expected);
}

/// RFC 5681 §4.2: every second full segment, or after the delay.
#[test]
fn acknowledges_every_second_segment_or_after_the_delay() {
    let config = TcpConfig::default();
    let mut receiver = receiver(&config);
    receiver.take(0, &data(1, 1448), None, SECOND);
    assert!(!receiver.wants_ack());
    assert_eq!(receiver.next_timeout(), Some(config.delayed_ack));
    receiver.take(1, &data(1449, 1448), None, SECOND);
    assert!(receiver.wants_ack());
    receiver.fill(&mut Segment::default());
    assert_eq!(receiver.next_timeout(), None);
    receiver.take(2, &data(2897, 1448), None, SECOND);
    receiver.on_timeout(2 + config.delayed_ack - 1, None, SECOND);
    assert!(!receiver.wants_ack());
    receiver.on_timeout(2 + config.delayed_ack, None, SECOND);
    assert!(receiver.wants_ack());
}

/// Linux: at the beginning, and after silence, 16 at once.
#[test]
fn acknowledges_quickly_at_first() {
    let config = TcpConfig::default();
    let mut receiver = receiver(&config);
    receiver.last_data = None;
    let arrivals: Vec<_> = (0..40).map(|index| (1 + index * 1448, 1448)).collect();
    assert_eq!(acks(&mut receiver, &arrivals).len(), 16 + 12);
    // A window of 64 kB grows by two segments 22 times, 3000 bytes only once.
    let config = TcpConfig {
        receive_window: 3000,
        ..config
    };
    let mut receiver = self::receiver(&config);
    receiver.last_data = None;
    assert_eq!(acks(&mut receiver, &arrivals[..5]).len(), 1 + 2);
}

/// Linux: three duplicates at once, then one every 5 % of the round trip.
#[test]
fn puts_duplicates_together_after_three() {
    let mut receiver = receiver(&TcpConfig::default());
    let rtt = Some(10 * MILLISECOND);
    for index in 1..=3 {
        receiver.take(0, &data(1 + index * 1448, 1448), rtt, SECOND);
        assert!(receiver.wants_ack());
        receiver.fill(&mut Segment::default());
    }
    for index in 4..=20 {
        receiver.take(0, &data(1 + index * 1448, 1448), rtt, SECOND);
        assert!(!receiver.wants_ack());
    }
    assert_eq!(receiver.next_timeout(), Some(MILLISECOND / 2));
    // But not if a range would never be reported.
    let mut reported = Vec::new();
    for hole in 1..=3 {
        receiver.take(0, &data(1 + (20 + 2 * hole) * 1448, 1448), rtt, SECOND);
        if receiver.wants_ack() {
            let mut ack = Segment::default();
            receiver.fill(&mut ack);
            reported.push(ack.sacks.len());
        }
        assert!(!receiver.wants_ack());
    }
    assert_eq!(reported, [2, 3]);
}

/// RFC 5681 §4.2: at once for each segment behind a hole.
#[test]
fn answers_each_segment_behind_a_hole_without_compression() {
    let config = TcpConfig {
        ack_compression: false,
        ..TcpConfig::default()
    };
    let mut receiver = receiver(&config);
    for index in 1..=20 {
        receiver.take(0, &data(1 + index * 1448, 1448), Some(SECOND), SECOND);
        assert!(receiver.wants_ack());
        receiver.fill(&mut Segment::default());
    }
}

#[test]
fn takes_nothing_from_beyond_the_window() {
    let config = TcpConfig {
        receive_window: 1000,
        ..TcpConfig::default()
    };
    let mut receiver = receiver(&config);
    for (seq, payload) in [(1001, 1), (500, 5000), (1, 5000), (u64::MAX, 5)] {
        receiver.take(0, &data(seq, payload), None, SECOND);
    }
    assert_eq!(receiver.received(), 1000);
    assert!(receiver.early.is_empty());
}

proptest! {
    /// Compared with bytes that are marked one by one: the bytes in order are received, and ranges
    /// contain only bytes that have arrived.
    #[test]
    fn puts_bytes_in_order(
        arrivals in proptest::collection::vec((0u64..400, 1u32..60), 0..80),
    ) {
        let config = TcpConfig { receive_window: 300, mss: 60, ..TcpConfig::default() };
        let mut receiver = receiver(&config);
        let mut there = [false; 1000];
        for (seq, payload) in arrivals {
            let edge = receiver.next + 300;
            let start = seq + 1;
            for byte in start..(start + u64::from(payload)).min(edge) {
                there[byte as usize] = true;
            }
            receiver.take(0, &data(start, payload), Some(SECOND), SECOND);
            let next = (1..).find(|&byte| !there[byte]).unwrap();
            prop_assert_eq!(receiver.received(), next as u64 - 1);
            for &(from, to) in receiver.list.ranges() {
                prop_assert!(from > receiver.next && from < to);
                prop_assert!((from..to).all(|byte| there[byte as usize]));
                prop_assert!(!there[to as usize] && !there[from as usize - 1]);
            }
            for pair in receiver.early.windows(2) {
                prop_assert!(pair[0].1 < pair[1].0);
            }
            let early: u64 = receiver.early.iter().map(|(from, to)| to - from).sum();
            let marked = there[next..].iter().filter(|&&byte| byte).count() as u64;
            prop_assert_eq!(early, marked);
        }
    }
}
