//! What captures in the wild get wrong.

use crate::annotate::Marks;
use crate::flow::Span;
use crate::read::{Frame, LinkType, Nanos};
use crate::testing::*;
use crate::wire::{Flags, Timestamps};
use crate::write::{Ends, TcpFrame};

#[test]
fn a_copy_with_the_same_ip_id_is_no_retransmission() {
    let mut talk = Talk::begun();
    let data = talk.data(0, MSS);
    talk.put(10 * MS, data);
    talk.put(30 * MS, data);
    talk.ack(40 * MS, MSS);
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.sent.len(), 1);
    assert_eq!(kept.tally.duplicates, 1);
    assert_eq!(kept.metrics.retransmitted_packets, 0);
    assert_eq!(kept.tally.payload_bytes, 1000);
}

#[test]
fn every_packet_twice_changes_nothing_else() {
    let talk = |twice: bool| {
        let mut talk = Talk::begun();
        for n in 0..50 {
            let at = (10 + 2 * u64::from(n)) * MS;
            let data = talk.data(nth(n), MSS);
            let ack = talk.acking(nth(n));
            for _ in 0..=u8::from(twice) {
                talk.put(at, data);
                talk.put(at + MS, ack);
            }
        }
        talk.end()
    };
    let (once, twice) = (talk(false), talk(true));
    assert_eq!(twice.response().sent, once.response().sent);
    assert_eq!(twice.response().metrics, once.response().metrics);
    assert_eq!(twice.response().tally.duplicates, 50);
}

/// Packets as a burst, and then all of them once more, `later` after that, as the capture of a router
/// with a queue holds them that listens on all interfaces.
fn burst_twice(talk: &mut Talk, packets: u32, later: Nanos) {
    let burst: Vec<TcpFrame> = (0..packets).map(|n| talk.data(nth(n), MSS)).collect();
    for start in [10 * MS, 10 * MS + later] {
        for (n, &data) in (0..).zip(&burst) {
            talk.put(start + n * 1000, data);
        }
    }
}

#[test]
fn copies_that_come_behind_a_whole_burst_are_found() {
    // With fewer than four packets, as many as are remembered in place, and more than a table holds at first.
    for packets in [3, 5, 10, 40, 700] {
        let mut talk = Talk::begun();
        burst_twice(&mut talk, packets, 2 * MS);
        let found = talk.end();
        let kept = found.response();
        assert_eq!(kept.sent.len(), packets as usize);
        assert_eq!(kept.tally.duplicates, u64::from(packets));
        assert_eq!(kept.metrics.retransmitted_packets, 0);
    }
}

#[test]
fn bursts_that_are_repeated_later_or_without_identification_are_retransmitted() {
    let mut late = Talk::begun();
    burst_twice(&mut late, 10, 51 * MS);
    assert_eq!(late.end().response().tally.duplicates, 0);

    // What has no identification is compared with the last few packets only, whatever was before.
    let mut unidentified = Talk::begun();
    burst_twice(&mut unidentified, 10, 2 * MS);
    let burst: Vec<TcpFrame> = (10..20)
        .map(|n| TcpFrame {
            ip_id: 0,
            ..unidentified.data(nth(n), MSS)
        })
        .collect();
    for start in [0, 100_000] {
        for (n, &data) in (0..).zip(&burst) {
            unidentified.put(20 * MS + start + n * 1000, data);
        }
    }
    let found = unidentified.end();
    assert_eq!(found.response().tally.duplicates, 10);
    assert_eq!(found.response().metrics.retransmitted_packets, 10);

    // A sender that repeats a burst gives it other numbers.
    let mut again = Talk::begun();
    for start in [10 * MS, 12 * MS] {
        for n in 0..40 {
            again.full(start + u64::from(n) * 1000, n);
        }
    }
    let found = again.end();
    assert_eq!(found.response().tally.duplicates, 0);
    assert_eq!(found.response().metrics.retransmitted_packets, 40);
}

#[test]
fn the_same_bytes_with_another_ip_id_are_a_retransmission() {
    let mut talk = Talk::begun();
    talk.full(10 * MS, 0);
    talk.full(10 * MS + 1000, 0);
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.sent.len(), 2);
    assert_eq!((kept.lost(), kept.tally.duplicates), (vec![0], 0));
}

#[test]
fn a_late_repetition_of_an_ip_id_is_a_retransmission() {
    let mut talk = Talk::begun();
    let data = talk.data(0, MSS);
    talk.put(10 * MS, data);
    talk.put(61 * MS, data);
    assert_eq!(talk.end().response().lost(), [0]);
}

/// A conversation over IPv6, which has no IP identification.
pub(super) fn six() -> Talk {
    let mut talk = Talk::new();
    talk.ends = [1, 2].map(|i| ([0x2001, 0xdb8, 0, 0, 0, 0, 0, i], 50_000 + i).into());
    talk.handshake(0);
    talk.request(3 * MS, 0, 100);
    talk
}

#[test]
fn over_ipv6_a_copy_comes_within_200_us() {
    for (apart, packets) in [(150_000, 1), (250_000, 2)] {
        let mut talk = six();
        talk.full(10 * MS, 0);
        talk.full(10 * MS + apart, 0);
        let found = talk.end();
        assert_eq!(found.response().sent.len(), packets, "{apart}");
        assert_eq!(found.response().tally.duplicates, 2 - packets as u64);
    }
}

#[test]
fn acknowledged_data_that_was_never_seen_is_no_loss() {
    let mut talk = Talk::begun();
    talk.full(10 * MS, 0);
    // Packets 1 and 2 are missing in the capture at its end so far.
    talk.ack(20 * MS, nth(3));
    talk.full(30 * MS, 3);
    talk.ack(40 * MS, nth(4));
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.tally.unseen_bytes, 2000);
    assert_eq!(kept.metrics.lost_packets, 0);
    assert_eq!(kept.metrics.retransmitted_packets, 0);
    assert_eq!(kept.sent[1].in_flight, 1000);
}

#[test]
fn a_gap_is_unseen_and_no_loss() {
    let mut talk = Talk::begun();
    talk.full(10 * MS, 0);
    talk.full(11 * MS, 3);
    talk.ack(20 * MS, nth(4));
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.tally.unseen_bytes, 2000);
    assert_eq!(kept.metrics.lost_packets, 0);
    assert_eq!(kept.metrics.delivered_bytes, 2000);
}

#[test]
fn a_gap_that_fills_later_is_reordering_and_not_unseen() {
    let mut talk = Talk::begun();
    talk.full(10 * MS, 0);
    talk.full(11 * MS, 2);
    talk.full(12 * MS, 1);
    talk.full(13 * MS, 3);
    talk.ack(20 * MS, nth(4));
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.marked(Marks::LATE), [2]);
    assert_eq!(kept.metrics.retransmitted_packets, 0);
    assert_eq!(kept.metrics.lost_packets, 0);
    assert_eq!(kept.tally.unseen_bytes, 0);
    assert_eq!(kept.metrics.delivered_bytes, 4000);
}

#[test]
fn an_acknowledgement_far_beyond_the_data_is_damage() {
    let mut talk = Talk::begun();
    talk.full(10 * MS, 0);
    talk.ack(15 * MS, 0x6000_0000);
    talk.ack(20 * MS, nth(1));
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.rtts(), [Some(10)]);
    assert_eq!(kept.tally.unseen_bytes, 0);
}

#[test]
fn time_that_goes_back_is_counted_and_survived() {
    let mut talk = Talk::begun();
    for n in 0..20 {
        let at = 10 * MS + u64::from(n) * 100_000;
        talk.full(if n % 3 == 2 { at - 400_000 } else { at }, n);
    }
    // Even an acknowledgement before what it acknowledges.
    talk.ack(9 * MS, nth(20));
    assert_eq!(talk.table.counters().backwards, 7);
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.sent.len(), 20);
    assert_eq!(kept.metrics.lost_packets, 0);
    assert!(kept.metrics.duration <= 2 * MS);
    assert_eq!(kept.rtts(), [Some(0); 20]);
}

#[test]
fn sequence_numbers_wrap_around_amid_losses() {
    let transfer = |isn: u32| {
        let mut talk = Talk::new();
        talk.isn = [isn, isn];
        talk.handshake(0);
        talk.request(3 * MS, 0, 100);
        for n in 0..20 {
            talk.full((10 + u64::from(n)) * MS, n);
        }
        // Packets 5 and 12 are lost, and sent again.
        talk.sack(30 * MS, nth(5), &[(nth(6), nth(12))]);
        talk.sack(31 * MS, nth(5), &[(nth(13), nth(20)), (nth(6), nth(12))]);
        talk.full(32 * MS, 5);
        talk.full(33 * MS, 12);
        talk.ack(50 * MS, nth(20));
        talk.end()
    };
    let plain = transfer(1000);
    // The number 0 is in the middle of packet 5, and between packets 9 and 10.
    for isn in [
        0u32.wrapping_sub(nth(5) + 500),
        0u32.wrapping_sub(nth(10) + 1),
        0x8000_0000u32 - nth(10),
    ] {
        let found = transfer(isn);
        let kept = found.response();
        assert_eq!(kept.lost(), [5, 12]);
        assert_eq!(kept.offsets(), plain.response().offsets());
        assert_eq!(kept.rtts(), plain.response().rtts());
        assert_eq!(kept.metrics, plain.response().metrics);
        assert_eq!(kept.tally, plain.response().tally);
    }
}

#[test]
fn keepalives_are_no_retransmissions() {
    for payload in [0, 1] {
        let mut talk = Talk::begun();
        talk.full(10 * MS, 0);
        talk.ack(20 * MS, nth(1));
        for i in 1..4 {
            let alive = talk.data(nth(1) - 1, payload);
            talk.put(i * 60_000 * MS, alive);
            talk.ack(i * 60_000 * MS + MS, nth(1));
        }
        talk.full(200_000 * MS, 1);
        let found = talk.end();
        let kept = found.response();
        assert_eq!(kept.sent.len(), 2, "{payload}");
        assert_eq!(kept.metrics.retransmitted_packets, 0);
        assert_eq!(kept.tally.probes, if payload == 1 { 3 } else { 0 });
        assert_eq!(kept.tally.payload_bytes, 2000);
    }
}

#[test]
fn zero_window_probes_are_no_data() {
    let mut talk = Talk::begun();
    talk.full(10 * MS, 0);
    talk.window = 0;
    talk.ack(20 * MS, nth(1));
    for i in 1..4 {
        let probe = talk.data(nth(1), 1);
        talk.put(i * 300 * MS, probe);
        talk.ack(i * 300 * MS + MS, nth(1));
    }
    talk.window = 500;
    talk.ack(1500 * MS, nth(1));
    talk.full(1501 * MS, 1);
    talk.ack(1510 * MS, nth(2));
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.sent.len(), 2);
    assert_eq!(kept.tally.probes, 3);
    assert_eq!(kept.metrics.lost_packets, 0);
    assert_eq!(kept.metrics.retransmitted_packets, 0);
    // The receiver held the sender back, and the application has let it wait for a millisecond.
    assert_eq!(kept.tally.window_limited, 1480 * MS);
    assert_eq!(kept.tally.idle, MS);
}

#[test]
fn a_window_that_closes_after_the_last_packet_holds_nothing_back() {
    let mut talk = Talk::begun();
    talk.full(10 * MS, 0);
    talk.window = 0;
    talk.ack(20 * MS, nth(1));
    talk.window = 500;
    talk.ack(1500 * MS, nth(1));
    let found = talk.end();
    assert_eq!(found.response().tally.window_limited, 0);
    assert_eq!(found.response().tally.idle, 0);
}

#[test]
fn the_window_of_a_capture_without_syn_is_closed_only_at_zero() {
    let mut talk = Talk::new();
    talk.request(0, 0, 100);
    talk.full(10 * MS, 0);
    talk.ack(20 * MS, nth(1));
    talk.full(30 * MS, 1);
    talk.window = 0;
    talk.ack(40 * MS, nth(2));
    let probe = talk.data(nth(2), 1);
    talk.put(300 * MS, probe);
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.tally.probes, 1);
    assert!(kept.marked(Marks::WINDOW_FULL).is_empty());
    // That the window closed does not tell its scale.
    assert!(!kept.tally.window_known);
}

#[test]
fn one_byte_at_a_time_is_data() {
    let mut talk = Talk::begun();
    for i in 0..5u32 {
        talk.send((10 + 10 * u64::from(i)) * MS, i, 1);
        talk.ack((15 + 10 * u64::from(i)) * MS, i + 1);
    }
    assert_eq!(talk.end().response().sent.len(), 5);
}

#[test]
fn counters_tell_what_became_of_the_frames() {
    let mut talk = Talk::begun();
    let cut = |snaplen| TcpFrame {
        snaplen,
        timestamps: Some(Timestamps { value: 1, echo: 1 }),
        ..TcpFrame::new(Ends {
            src: client(),
            dst: server(),
        })
    };
    talk.put(10 * MS, cut(58));
    talk.put(11 * MS, cut(40));
    // A tap keeps 66 bytes, and the capture does not know.
    let mut bytes = Vec::new();
    let data = TcpFrame {
        payload: 100,
        ..cut(66)
    };
    data.encode(&mut bytes);
    let sliced = Frame {
        at: START + 12 * MS,
        link: LinkType::ETHERNET,
        data: &bytes,
        wire_len: 66,
        outbound: None,
    };
    talk.table.frame(&sliced, &mut talk.found);
    let counters = *talk.table.counters();
    assert_eq!((counters.frames, counters.tcp), (7, 6));
    assert_eq!((counters.options_cut, counters.cut), (1, 1));
    assert_eq!((counters.sliced, counters.malformed), (1, 0));
    let span = Span {
        first: START,
        last: START + 12 * MS,
    };
    assert_eq!(counters.span, Some(span));
    assert_eq!(counters.flows, 1);
}

#[test]
fn data_in_a_syn_is_data() {
    // TCP Fast Open, RFC 7413.
    let mut talk = Talk::new();
    let open = TcpFrame {
        flags: Flags::SYN,
        seq: talk.isn[0],
        ..talk.asking(0, 100)
    };
    talk.put(0, open);
    talk.full(5 * MS, 0);
    let found = talk.end();
    assert_eq!(found.requests()[0].lengths(), [100]);
    assert_eq!(found.requests()[0].offsets(), [0]);
    assert_eq!(found.requests()[0].tally.unseen_bytes, 0);
}
