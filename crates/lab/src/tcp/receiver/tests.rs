use proptest::prelude::*;

use super::*;
use crate::SECOND;

/// A receiver that has passed its quick acknowledgements, and expects byte 1.
fn receiver(config: &TcpConfig) -> Receiver {
    let mut receiver = Receiver::new(config);
    receiver.establish(&Segment {
        syn: true,
        ..Segment::default()
    });
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

/// What is acknowledged after these arrive one after the other, each acknowledged at once.
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
            acks.push((ack.ack, ack.sacks.ranges().to_vec()));
        }
    }
    acks
}

/// RFC 2018 §7, case 3: 8 segments of 500 bytes from 5000, of which 2, 4, 6, and 8 are lost; in a
/// segment without timestamps there is space for four ranges.
#[test]
fn reports_the_ranges_of_rfc_2018() {
    let config = TcpConfig {
        timestamps: false,
        ..TcpConfig::default()
    };
    let mut receiver = receiver(&config);
    receiver.next = 5000;
    receiver.acked = 5000;
    receiver.quick = 16;
    let arrived = [(5000, 500), (6000, 500), (7000, 500), (8000, 500)];
    let told = acks(&mut receiver, &arrived);
    assert_eq!(
        told,
        [
            (5500, vec![]),
            (5500, vec![(6000, 6500)]),
            (5500, vec![(7000, 7500), (6000, 6500)]),
            (5500, vec![(8000, 8500), (7000, 7500), (6000, 6500)]),
        ]
    );
    // "Suppose at this point, the 4th packet is received out of order": 6500 to 7000.
    let told = acks(&mut receiver, &[(6500, 500)]);
    assert_eq!(told, [(5500, vec![(6000, 7500), (8000, 8500)])]);
    // "Suppose at this point, the 2nd segment is received."
    let told = acks(&mut receiver, &[(5500, 500)]);
    assert_eq!(told, [(7500, vec![(8000, 8500)])]);
}

/// RFC 2883 §4.1: a segment that was there is reported first, once.
#[test]
fn reports_duplicates_of_rfc_2883() {
    let mut receiver = receiver(&TcpConfig::default());
    receiver.next = 3500;
    receiver.acked = 3500;
    receiver.quick = 16;
    let told = acks(&mut receiver, &[(3500, 500), (3500, 500), (4000, 500)]);
    assert_eq!(
        told,
        [(4000, vec![]), (4000, vec![(3500, 4000)]), (4500, vec![]),]
    );
    // §4.2: one that is behind the hole.
    let told = acks(&mut receiver, &[(5000, 500), (5500, 500), (5000, 500)]);
    assert_eq!(told[2], (4500, vec![(5000, 5500), (5000, 6000)]));
    // §4.3: in part below the acknowledgement.
    let told = acks(&mut receiver, &[(4000, 1000)]);
    assert_eq!(told, [(6000, vec![(4000, 4500)])]);
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
    receiver.on_timeout(2 + config.delayed_ack - 1);
    assert!(!receiver.wants_ack());
    receiver.on_timeout(2 + config.delayed_ack);
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
    // 64 kB of window are 22 times two segments, 3000 bytes only one.
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
    // But not if a range would never be told.
    let mut told = Vec::new();
    for hole in 1..=3 {
        receiver.take(0, &data(1 + (20 + 2 * hole) * 1448, 1448), rtt, SECOND);
        if receiver.wants_ack() {
            let mut ack = Segment::default();
            receiver.fill(&mut ack);
            told.push(ack.sacks.ranges().len());
        }
        assert!(!receiver.wants_ack());
    }
    assert_eq!(told, [2, 3]);
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
    /// Against bytes marked one by one: what is in order is received, and ranges tell nothing
    /// that is not there.
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
