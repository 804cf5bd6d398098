//! What became of a packet: lost, retransmitted, spuriously retransmitted, or acknowledged, and when.

use crate::annotate::Marks;
use crate::testing::*;
use crate::wire::Timestamps;
use crate::write::TcpFrame;

/// A conversation in which the server has sent `n` packets, a millisecond apart from 10 ms on.
fn sent(n: u32) -> Talk {
    let mut talk = Talk::begun();
    for i in 0..n {
        talk.full((10 + u64::from(i)) * MS, i);
    }
    talk
}

#[test]
fn a_fast_retransmit_is_a_loss() {
    let mut talk = sent(8);
    for i in 4..8 {
        talk.sack((20 + u64::from(i)) * MS, nth(3), &[(nth(4), nth(i + 1))]);
    }
    talk.full(30 * MS, 3);
    talk.ack(50 * MS, nth(8));
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.lost(), [3]);
    assert_eq!(kept.marked(Marks::RETRANSMISSION), [8]);
    assert_eq!((kept.sent[3].repeated, kept.sent[8].repeats), (5, 5));
    assert_eq!(kept.metrics.lost_packets, 1);
    assert_eq!(kept.metrics.retransmitted_packets, 1);
    assert_eq!(kept.metrics.spurious_packets, 0);
    assert_eq!(kept.metrics.bytes_before_loss, Some(3000));
    assert_eq!(kept.metrics.unique_bytes, 8000);
    assert_eq!(kept.metrics.delivered_bytes, 8000);
    // Both transmissions have the time at which the bytes were acknowledged.
    assert_eq!([3, 8].map(|i| kept.sent[i].acked_at), [START + 50 * MS; 2]);
}

#[test]
fn a_retransmission_by_timeout_is_a_loss() {
    let mut talk = sent(3);
    talk.ack(20 * MS, nth(2));
    talk.full(320 * MS, 2);
    talk.ack(330 * MS, nth(3));
    let found = talk.end();
    assert_eq!(found.response().lost(), [2]);
}

#[test]
fn what_is_not_sent_again_is_not_lost() {
    let mut talk = sent(3);
    talk.ack(20 * MS, nth(2));
    let found = talk.end();
    let kept = found.response();
    assert!(kept.lost().is_empty());
    assert_eq!(kept.sent[2].acked_at, 0);
    assert_eq!(kept.metrics.delivered_bytes, 2000);
}

#[test]
fn a_retransmission_that_is_lost_again_is_a_chain() {
    let mut talk = sent(1);
    talk.full(210 * MS, 0);
    talk.full(610 * MS, 0);
    talk.full(1410 * MS, 0);
    talk.ack(1420 * MS, nth(1));
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.lost(), [0, 1, 2]);
    assert_eq!(
        kept.sent
            .iter()
            .map(|sent| sent.repeats)
            .collect::<Vec<_>>(),
        [0, 1, 1, 1]
    );
    assert!(
        kept.sent
            .iter()
            .all(|sent| sent.acked_at == START + 1420 * MS)
    );
    assert_eq!(kept.metrics.lost_packets, 3);
}

#[test]
fn a_duplicate_acknowledgement_tells_that_a_retransmission_was_in_vain() {
    let mut talk = sent(2);
    talk.full(30 * MS, 0);
    talk.ack(31 * MS, nth(2));
    talk.sack(50 * MS, nth(2), &[(nth(0), nth(1))]);
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.marked(Marks::SPURIOUS_DSACK), [0]);
    assert!(kept.lost().is_empty());
    assert_eq!(kept.metrics.spurious_packets, 1);
    assert_eq!(kept.metrics.retransmitted_packets, 1);
}

#[test]
fn a_duplicate_acknowledgement_with_the_cumulative_one() {
    // The retransmission fills the hole, and the receiver had it already.
    let mut talk = sent(3);
    talk.full(30 * MS, 1);
    talk.sack(31 * MS, nth(3), &[(nth(1), nth(2))]);
    assert_eq!(talk.end().response().marked(Marks::SPURIOUS_DSACK), [1]);
}

#[test]
fn a_duplicate_above_the_cumulative_acknowledgement_is_within_the_second_block() {
    let mut talk = sent(3);
    talk.full(20 * MS, 1);
    talk.sack(30 * MS, nth(0), &[(nth(1), nth(3))]);
    talk.sack(40 * MS, nth(0), &[(nth(1), nth(2)), (nth(1), nth(3))]);
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.marked(Marks::SPURIOUS_DSACK_OTHER), [1]);
    assert!(kept.marked(Marks::SPURIOUS_DSACK).is_empty());
    assert!(kept.lost().is_empty());
}

#[test]
fn two_selective_blocks_are_no_duplicate() {
    let mut talk = sent(5);
    talk.full(20 * MS, 1);
    talk.sack(30 * MS, nth(0), &[(nth(1), nth(2)), (nth(3), nth(4))]);
    assert_eq!(talk.end().response().lost(), [1]);
}

#[test]
fn a_duplicate_of_several_packets_at_once() {
    let mut talk = sent(2);
    talk.full(30 * MS, 0);
    talk.full(31 * MS, 1);
    talk.ack(32 * MS, nth(2));
    talk.sack(50 * MS, nth(2), &[(nth(0), nth(2))]);
    let found = talk.end();
    assert_eq!(found.response().marked(Marks::SPURIOUS_DSACK_OTHER), [0, 1]);
    assert!(found.response().lost().is_empty());
}

#[test]
fn each_duplicate_tells_of_one_retransmission() {
    let mut talk = sent(1);
    talk.full(30 * MS, 0);
    talk.full(60 * MS, 0);
    talk.ack(61 * MS, nth(1));
    talk.sack(80 * MS, nth(1), &[(nth(0), nth(1))]);
    let mut twice = Talk::begun();
    twice.full(10 * MS, 0);
    twice.full(30 * MS, 0);
    twice.full(60 * MS, 0);
    twice.ack(61 * MS, nth(1));
    twice.sack(80 * MS, nth(1), &[(nth(0), nth(1))]);
    twice.sack(90 * MS, nth(1), &[(nth(0), nth(1))]);
    assert_eq!(talk.end().response().lost(), [0]);
    assert!(twice.end().response().lost().is_empty());
}

#[test]
fn a_duplicate_of_what_was_sent_once_means_nothing() {
    let mut talk = sent(2);
    talk.ack(30 * MS, nth(2));
    talk.sack(40 * MS, nth(2), &[(nth(0), nth(1))]);
    assert!(talk.end().response().marked(Marks::DELIVERED).is_empty());
}

/// Packet 0 at 10 ms with TSval 1, again at 40 ms with `again`, and an acknowledgement at 50 ms
/// that echoes `echo`.
fn with_timestamps(again: u32, echo: u32) -> Kept {
    let mut talk = Talk::begun();
    for (at, value) in [(10, 1), (40, again)] {
        let data = TcpFrame {
            timestamps: Some(Timestamps { value, echo: 9 }),
            ..talk.data(0, 900)
        };
        talk.put(at * MS, data);
    }
    let ack = TcpFrame {
        timestamps: Some(Timestamps { value: 9, echo }),
        ..talk.acking(900)
    };
    talk.put(50 * MS, ack);
    talk.end().response().clone()
}

#[test]
fn an_echoed_timestamp_of_the_original_tells_that_the_retransmission_was_in_vain() {
    let kept = with_timestamps(2, 1);
    assert_eq!(kept.marked(Marks::SPURIOUS_TIMESTAMP), [0]);
    assert!(kept.lost().is_empty());
    assert_eq!(kept.rtts(), [Some(40), None]);
}

#[test]
fn an_echoed_timestamp_of_the_retransmission_gives_its_round_trip() {
    let kept = with_timestamps(2, 2);
    assert_eq!(kept.lost(), [0]);
    assert_eq!(kept.rtts(), [None, Some(10)]);
}

#[test]
fn equal_or_unknown_timestamps_tell_nothing() {
    for (again, echo) in [(1, 1), (2, 7), (2, 0)] {
        let kept = with_timestamps(again, echo);
        assert_eq!(kept.lost(), [0], "{again} {echo}");
        assert_eq!(kept.rtts(), [None, None]);
    }
}

#[test]
fn what_is_sent_again_after_its_acknowledgement_was_not_lost() {
    let mut talk = sent(2);
    talk.ack(20 * MS, nth(2));
    talk.full(30 * MS, 0);
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.marked(Marks::SPURIOUS_ACKED), [0]);
    assert_eq!(kept.marked(Marks::RETRANSMISSION), [2]);
    assert!(kept.lost().is_empty());
    assert_eq!(kept.rtts(), [Some(10), Some(9), None]);
}

#[test]
fn what_is_sent_again_after_its_selective_acknowledgement_was_not_lost() {
    let mut talk = sent(3);
    talk.sack(20 * MS, nth(0), &[(nth(1), nth(2))]);
    talk.full(30 * MS, 1);
    talk.ack(40 * MS, nth(3));
    assert_eq!(talk.end().response().marked(Marks::SPURIOUS_ACKED), [1]);
}

/// The handshake took 2 ms: an acknowledgement after 1 ms is not that of the retransmission.
#[test]
fn what_is_acknowledged_sooner_than_a_round_trip_after_it_was_sent_again_was_not_lost() {
    for (after, early) in [(MS, true), (2 * MS, false)] {
        let mut talk = sent(3);
        talk.full(30 * MS, 0);
        talk.ack(30 * MS + after, nth(3));
        let found = talk.end();
        let kept = found.response();
        assert_eq!(kept.marked(Marks::SPURIOUS_EARLY) == [0], early);
        assert_eq!(kept.lost().is_empty(), early);
    }
}

/// It may hold back the acknowledgements of single packets, and not that of a retransmission.
#[test]
fn without_a_handshake_a_receiver_of_single_packets_tells_no_round_trip() {
    let mut talk = Talk::new();
    for n in 0..20 {
        let at = (100 + 100 * u64::from(n)) * MS;
        talk.full(at, n);
        talk.ack(at + 45 * MS, nth(n + 1));
    }
    talk.full(3_000 * MS, 20);
    talk.full(3_300 * MS, 20);
    talk.ack(3_305 * MS, nth(21));
    assert_eq!(talk.end().response().lost(), [20]);
}

#[test]
fn a_retransmission_of_something_long_forgotten_is_one_still() {
    let mut talk = Talk::begun();
    for n in 0..500 {
        talk.full((10 + u64::from(n)) * MS, n);
        talk.ack((10 + u64::from(n)) * MS + 1000, nth(n + 1));
    }
    talk.full(600 * MS, 0);
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.metrics.retransmitted_packets, 1);
    assert_eq!(kept.metrics.unique_bytes, 500_000);
}

#[test]
fn a_selective_acknowledgement_gives_the_round_trip_when_it_comes() {
    let mut talk = sent(4);
    talk.sack(30 * MS, nth(0), &[(nth(2), nth(3))]);
    talk.sack(40 * MS, nth(0), &[(nth(2), nth(4))]);
    talk.full(45 * MS, 0);
    talk.ack(60 * MS, nth(4));
    let found = talk.end();
    let kept = found.response();
    // The second packet may have waited for the first, or was late: both look the same.
    assert_eq!(kept.rtts(), [None, None, Some(18), Some(27), None]);
    assert_eq!(kept.marked(Marks::SACKED), [2, 3]);
}

#[test]
fn what_waited_behind_a_hole_gives_no_round_trip() {
    // Without selective acknowledgements: they come when the hole is filled.
    let mut talk = sent(4);
    talk.ack(25 * MS, nth(1));
    talk.full(30 * MS, 1);
    talk.full(31 * MS, 4);
    talk.ack(50 * MS, nth(5));
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.lost(), [1]);
    // What was sent behind the retransmission did not wait.
    assert_eq!(kept.rtts(), [Some(15), None, None, None, None, Some(19)]);
    assert!(
        kept.sent[1..]
            .iter()
            .all(|sent| sent.acked_at == START + 50 * MS)
    );
}

#[test]
fn a_selective_acknowledgement_of_a_part_is_none_of_the_whole() {
    let mut talk = sent(2);
    // Sent again with other boundaries; only its second half is known to have arrived.
    talk.send(30 * MS, 500, 1000);
    talk.sack(40 * MS, 0, &[(nth(1), nth(2))]);
    talk.full(45 * MS, 0);
    talk.ack(60 * MS, nth(2));
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.marked(Marks::SPURIOUS_ACKED), [0; 0]);
    assert_eq!(kept.lost(), [0]);
    assert_eq!(kept.sent[0].acked_at, START + 60 * MS);
}

#[test]
fn a_selective_acknowledgement_of_a_retransmission_with_other_boundaries() {
    let mut talk = sent(3);
    talk.send(30 * MS, nth(1), 500);
    talk.sack(40 * MS, 0, &[(nth(1), nth(1) + 500)]);
    talk.ack(60 * MS, nth(3));
    let found = talk.end();
    assert_eq!(found.response().sent[3].acked_at, START + 40 * MS);
}

#[test]
fn a_packet_is_acknowledged_when_all_of_it_is() {
    let mut talk = sent(2);
    talk.ack(20 * MS, 500);
    talk.ack(30 * MS, 1500);
    talk.ack(40 * MS, 2000);
    assert_eq!(talk.end().response().rtts(), [Some(20), Some(29)]);
}

#[test]
fn a_retransmission_with_other_boundaries_repeats_what_carried_its_first_byte() {
    let mut talk = sent(3);
    talk.send(30 * MS, 500, 1000);
    talk.ack(40 * MS, nth(3));
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.lost(), [0]);
    assert_eq!(kept.marked(Marks::RETRANSMISSION), [3]);
    assert_eq!(kept.rtts(), [None, Some(29), Some(28), None]);
    assert!(
        kept.sent
            .iter()
            .all(|sent| sent.acked_at == START + 40 * MS)
    );
}

#[test]
fn a_retransmission_in_two_halves() {
    let mut talk = sent(2);
    talk.send(30 * MS, 0, 500);
    talk.send(31 * MS, 500, 500);
    talk.ack(40 * MS, nth(2));
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.lost(), [0]);
    assert_eq!(kept.metrics.retransmitted_packets, 2);
    assert_eq!(kept.metrics.unique_bytes, 2000);
}

#[test]
fn a_retransmission_of_two_small_packets_in_one() {
    let mut talk = Talk::begun();
    talk.send(10 * MS, 0, 500);
    talk.send(11 * MS, 500, 500);
    talk.send(30 * MS, 0, 1000);
    // And that once more.
    talk.send(60 * MS, 0, 1000);
    talk.ack(70 * MS, 1000);
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.lost(), [0, 2]);
    assert_eq!(
        kept.sent
            .iter()
            .map(|sent| sent.repeats)
            .collect::<Vec<_>>(),
        [0, 0, 2, 1]
    );
}

#[test]
fn a_retransmission_within_a_retransmission() {
    let mut talk = sent(2);
    talk.send(30 * MS, 500, 1000);
    talk.send(40 * MS, 700, 100);
    talk.send(50 * MS, 1000, 500);
    talk.send(60 * MS, 700, 50);
    talk.ack(70 * MS, nth(2));
    let found = talk.end();
    // Of the second half of the first, which the second has not touched; and of the second.
    let repeats: Vec<u32> = found
        .response()
        .sent
        .iter()
        .map(|sent| sent.repeats)
        .collect();
    assert_eq!(repeats, [0, 0, 2, 1, 2, 2]);
}

#[test]
fn a_packet_that_is_partly_new_is_no_retransmission() {
    let mut talk = sent(1);
    talk.send(30 * MS, 500, 1000);
    talk.ack(40 * MS, 1500);
    let found = talk.end();
    assert_eq!(found.response().metrics.retransmitted_packets, 0);
    assert_eq!(found.response().lost(), [0; 0]);
}

#[test]
fn in_flight_and_delivered_bytes() {
    let mut talk = sent(4);
    talk.sack(20 * MS, nth(1), &[(nth(2), nth(3))]);
    talk.full(30 * MS, 4);
    talk.full(31 * MS, 1);
    talk.ack(40 * MS, nth(4));
    talk.full(50 * MS, 5);
    let found = talk.end();
    let kept = found.response();
    let flight: Vec<u32> = kept.sent.iter().map(|sent| sent.in_flight).collect();
    // Selectively acknowledged bytes do not fly, and what is sent again was flying before.
    assert_eq!(flight, [1000, 2000, 3000, 4000, 3000, 3000, 2000]);
    let delivered: Vec<u64> = kept.sent.iter().map(|sent| sent.delivered).collect();
    let base = delivered[0];
    let delivered: Vec<u64> = delivered.iter().map(|bytes| bytes - base).collect();
    assert_eq!(delivered, [0, 0, 0, 0, 2000, 2000, 4000]);
    assert_eq!(kept.metrics.max_in_flight, 4000);
}

#[test]
fn selective_acknowledgements_out_of_all_bounds_are_harmless() {
    let mut talk = sent(3);
    talk.sack(
        20 * MS,
        0,
        &[(nth(9), nth(12)), (nth(2), nth(1)), (nth(1), nth(1))],
    );
    talk.sack(
        21 * MS,
        0,
        &[(0x7000_0000, 0x7000_0010), (nth(2), 0x7000_0000)],
    );
    talk.ack(30 * MS, nth(3));
    let found = talk.end();
    assert_eq!(found.response().rtts(), [Some(20), Some(19), Some(18)]);
    assert_eq!(found.response().metrics.delivered_bytes, 3000);
}

#[test]
fn a_selective_acknowledgement_of_more_than_was_sent_counts_what_was() {
    let mut talk = sent(3);
    talk.sack(20 * MS, nth(1), &[(nth(2), nth(9))]);
    talk.full(30 * MS, 3);
    assert_eq!(talk.end().response().sent[3].in_flight, 2000);
}

#[test]
fn a_duplicate_acknowledgement_behind_the_next_request_still_tells() {
    let mut talk = sent(2);
    talk.full(30 * MS, 0);
    talk.ack(31 * MS, nth(2));
    talk.request(40 * MS, 100, 100);
    talk.sack(50 * MS, nth(2), &[(nth(0), nth(1))]);
    talk.full(60 * MS, 2);
    let found = talk.end();
    assert_eq!(found.responses()[0].marked(Marks::SPURIOUS_DSACK), [0]);
}

#[test]
fn losses_of_one_in_five_are_all_found() {
    // Round after round of ten packets, of which two are lost and sent again at once.
    let mut talk = Talk::begun();
    let mut expected = Vec::new();
    let mut number = 0;
    for round in 0..200u32 {
        let at = (10 + 50 * u64::from(round)) * MS;
        let first = 10 * round;
        for i in 0..10 {
            talk.full(at + u64::from(i) * 10_000, first + i);
            if i % 5 == 1 {
                expected.push(number + i as usize);
            }
        }
        let (a, b) = (first + 1, first + 6);
        talk.sack(
            at + 20 * MS,
            nth(a),
            &[(nth(b + 1), nth(first + 10)), (nth(a + 1), nth(b))],
        );
        talk.full(at + 21 * MS, a);
        talk.full(at + 21 * MS + 10_000, b);
        talk.ack(at + 41 * MS, nth(first + 10));
        number += 12;
    }
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.lost(), expected);
    assert_eq!(kept.metrics.lost_packets, 400);
    assert_eq!(kept.metrics.delivered_bytes, 2_000_000);
    // All that was not lost or sent again has a round trip of 20 ms.
    let rtt = kept.metrics.rtt.unwrap();
    assert_eq!(rtt.samples, 1600);
    assert!(rtt.min >= 19 * MS && rtt.max <= 20 * MS);
}
