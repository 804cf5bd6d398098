//! Captures that were not taken at the sender.

use std::net::SocketAddr;

use crate::annotate::{Marks, Sign, Vantage};
use crate::testing::*;
use crate::wire::{Flags, Sacks, Timestamps};
use crate::write::TcpFrame;

/// A full packet with timestamps.
const SHORT: u32 = MSS - 12;

/// A conversation whose server is so far from the capture, and whose client so far; times are the
/// capture's.
fn between(to_server: u64, to_client: u64) -> Talk {
    captured(None, to_server, to_client)
}

/// The same at one of the ends, if the capture says which packets this end sent.
fn captured(captures: Option<SocketAddr>, to_server: u64, to_client: u64) -> Talk {
    let mut talk = Talk::new();
    talk.captures = captures;
    let syn = TcpFrame {
        seq: talk.isn[0],
        flags: Flags::SYN,
        mss: Some(MSS as u16),
        ..talk.asking(0, 0)
    };
    talk.put(0, syn);
    let answer = TcpFrame {
        seq: talk.isn[1],
        flags: Flags::SYN | Flags::ACK,
        mss: Some(MSS as u16),
        ..talk.data(0, 0)
    };
    talk.put(to_server, answer);
    talk.ack(to_server + to_client, 0);
    talk.request(to_server + to_client, 0, 100);
    talk
}

#[test]
fn the_handshake_tells_where_the_capture_was_taken() {
    for (to_server, to_client, vantage) in [
        (0, 40, Vantage::Sender),
        (4, 36, Vantage::Sender),
        (20, 20, Vantage::Between),
        (36, 4, Vantage::Receiver),
        (40, 0, Vantage::Receiver),
    ] {
        let mut talk = between(to_server * MS, to_client * MS);
        talk.full(100 * MS, 0);
        talk.ack(150 * MS, nth(1));
        let found = talk.end();
        let path = found.response().path;
        assert_eq!(path.vantage(), vantage);
        assert_eq!(path.sign, Some(Sign::Handshake));
        assert_eq!(path.round_trip(), Some(40 * MS));
        assert_eq!(path.sender_part(), Some(to_server as f64 / 40.0));
        // The client's request goes the other way.
        let part = found.requests()[0].path.sender_part();
        assert_eq!(part, Some(to_client as f64 / 40.0));
        assert_eq!(found.response().info.handshake.rtt(), Some(40 * MS));
    }
}

/// In a round trip of 20 µs hosts take longer to answer than packets take.
#[test]
fn directions_tell_where_the_round_trip_is_too_short() {
    let us = MS / 1000;
    for (captures, vantage) in [
        (None, Vantage::Unknown),
        (Some(server()), Vantage::Sender),
        (Some(client()), Vantage::Receiver),
    ] {
        let mut talk = captured(captures, 10 * us, 10 * us);
        talk.full(100 * us, 0);
        talk.ack(110 * us, nth(1));
        let found = talk.end();
        let path = found.response().path;
        assert_eq!(path.vantage(), vantage, "{path:?}");
        assert_eq!(path.sign == Some(Sign::Direction), captures.is_some());
        // A router sends what it forwards, too: round trips that are long enough count more.
        let mut talk = captured(captures, 20 * MS, 20 * MS);
        talk.full(100 * MS, 0);
        talk.ack(150 * MS, nth(1));
        let path = talk.end().response().path;
        assert_eq!(path.vantage(), Vantage::Between);
        assert_eq!(path.sign, Some(Sign::Handshake));
    }
}

#[test]
fn a_handshake_that_was_repeated_gives_no_round_trip() {
    let mut talk = Talk::new();
    let syn = TcpFrame {
        seq: talk.isn[0],
        flags: Flags::SYN,
        ip_id: 0,
        ..talk.asking(0, 0)
    };
    talk.put(0, syn);
    talk.put(1000 * MS, syn);
    talk.put(3000 * MS, syn);
    talk.request(3040 * MS, 0, 100);
    talk.full(3050 * MS, 0);
    let found = talk.end();
    assert_eq!(found.response().info.handshake.retransmissions, 2);
    assert_eq!(found.response().info.handshake.rtt(), None);
    assert_eq!(found.response().path.vantage(), Vantage::Unknown);
}

/// At the receiver, 40 ms from the server: packet 2 of ten does not come at first.
fn hole(fill: impl FnOnce(&mut Talk)) -> Kept {
    let mut talk = between(40 * MS, MS / 10);
    for n in (0..10).filter(|&n| n != 2) {
        talk.full((100 + 2 * u64::from(n)) * MS, n);
        talk.ack(
            (100 + 2 * u64::from(n)) * MS + 1000,
            nth(if n < 2 { n + 1 } else { 2 }),
        );
    }
    fill(&mut talk);
    talk.ack(180 * MS, nth(10));
    talk.end().response().clone()
}

#[test]
fn at_the_receiver_a_hole_that_is_filled_after_a_round_trip_is_a_loss() {
    let kept = hole(|talk| talk.full(147 * MS, 2));
    assert_eq!(kept.lost(), [2]);
    assert_eq!(kept.marked(Marks::NOT_CAPTURED), [2]);
    assert_eq!(kept.marked(Marks::RETRANSMISSION), [10]);
    assert_eq!((kept.sent[2].repeated, kept.sent[10].repeats), (8, 8));
    // In its place, at the time when it should have come.
    assert_eq!(kept.sent[2].at, START + 102 * MS);
    assert_eq!(kept.offsets()[..4], [0, 1000, 2000, 3000]);
    assert_eq!(kept.metrics.data_packets, 11);
    assert_eq!(kept.tally.payload_bytes, 11_000);
    assert_eq!(kept.tally.unseen_bytes, 0);
    assert_eq!(kept.metrics.unique_bytes, 10_000);
}

#[test]
fn at_the_receiver_a_hole_that_is_filled_soon_is_reordering() {
    let kept = hole(|talk| talk.full(120 * MS, 2));
    assert_eq!(kept.metrics.lost_packets, 0);
    assert_eq!(kept.marked(Marks::LATE), [9]);
    assert_eq!(kept.sent.len(), 10);
}

#[test]
fn a_timestamp_tells_a_retransmission_from_what_was_overtaken() {
    for (value, lost) in [(9, 0), (11, 1)] {
        let mut talk = between(40 * MS, MS / 10);
        let stamped = |talk: &mut Talk, n: u32, value| TcpFrame {
            timestamps: Some(Timestamps { value, echo: 1 }),
            ..talk.data(n * SHORT, SHORT)
        };
        let first = stamped(&mut talk, 0, 8);
        talk.put(100 * MS, first);
        let second = stamped(&mut talk, 2, 10);
        talk.put(101 * MS, second);
        // Whenever it comes.
        let late = stamped(&mut talk, 1, value);
        talk.put(if lost == 1 { 102 } else { 160 } * MS, late);
        assert_eq!(talk.end().response().metrics.lost_packets, lost);
    }
}

#[test]
fn at_the_receiver_round_trips_end_with_data_that_echo_a_timestamp() {
    let mut talk = between(40 * MS, MS / 10);
    for round in 0..5u32 {
        let at = (100 + 45 * u64::from(round)) * MS;
        let data = TcpFrame {
            timestamps: Some(Timestamps {
                value: 500 + 45 * round,
                echo: 10 + 45 * round,
            }),
            ..talk.data(round * SHORT, SHORT)
        };
        talk.put(at, data);
        let ack = TcpFrame {
            timestamps: Some(Timestamps {
                value: 55 + 45 * round,
                echo: 500 + 45 * round,
            }),
            ..talk.acking((round + 1) * SHORT)
        };
        talk.put(at + MS / 10, ack);
    }
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.path.vantage(), Vantage::Receiver);
    let rtts = kept.rtts();
    assert_eq!(rtts, [None, Some(44), Some(44), Some(44), Some(44)]);
    // What the sender had in flight, although the receiver acknowledges at once.
    assert_eq!(kept.sent[3].in_flight, SHORT);
    // Nor did the sender pause.
    assert_eq!(kept.tally.idle, 0);
}

#[test]
fn at_the_receiver_bytes_that_were_acknowledged_selectively_count_once() {
    let mut talk = between(40 * MS, MS / 10);
    let mut clock = 10;
    let mut stamped = |frame: TcpFrame| {
        clock += 1;
        let timestamps = Some(Timestamps {
            value: clock,
            echo: clock - 1,
        });
        TcpFrame {
            timestamps,
            ..frame
        }
    };
    let mut at = 100 * MS;
    // The second packet is lost, and sent again after the fourth.
    for (n, acked, selectively) in [(0, 1, 0), (2, 1, 3), (3, 1, 4), (1, 4, 0), (4, 5, 0)] {
        let data = stamped(talk.data(n * SHORT, SHORT));
        talk.put(at, data);
        let mut ack = stamped(talk.acking(acked * SHORT));
        if selectively > 0 {
            let first = talk.isn[1].wrapping_add(1);
            let [from, to] = [2, selectively].map(|n| first.wrapping_add(n * SHORT));
            ack.sacks = Sacks::new(std::iter::once(from..to));
        }
        talk.put(at + MS / 10, ack);
        at += 45 * MS;
    }
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.path.vantage(), Vantage::Receiver);
    let last = kept.sent.last().unwrap();
    assert_eq!(last.in_flight, SHORT, "{:?}", kept.sent);
}

/// For how long a window of some packets limited a sender that keeps four packets in flight, at a receiver 40 ms away that
/// acknowledges each, and how long it took from the first packet that echoes a timestamp to the last.
fn limited_at_the_receiver(window: u32) -> (u64, u64) {
    let mut talk = between(40 * MS, MS / 10);
    talk.window = (window * SHORT) as u16;
    for n in 0..20u32 {
        let (round, place) = (n / 4, n % 4);
        let at = 100 + 40 * round + 2 * place;
        let stamped = |frame, echo| TcpFrame {
            timestamps: Some(Timestamps { value: at, echo }),
            ..frame
        };
        let data = stamped(talk.data(n * SHORT, SHORT), at - 40);
        talk.put(u64::from(at) * MS, data);
        let ack = stamped(talk.acking((n + 1) * SHORT), at);
        talk.put(u64::from(at) * MS + MS / 10, ack);
    }
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.path.vantage(), Vantage::Receiver);
    (kept.tally.window_limited, (160 + 6 - 40) * MS)
}

#[test]
fn at_the_receiver_a_window_limits_that_each_acknowledgement_opens() {
    let (limited, time) = limited_at_the_receiver(4);
    assert_eq!(limited, time);
    // One packet more would have been allowed.
    assert_eq!(limited_at_the_receiver(6).0, 0);
}

#[test]
fn data_that_come_right_behind_their_acknowledgement_are_sent_once() {
    let mut talk = Talk::begun();
    talk.full(10 * MS, 0);
    talk.ack(12 * MS, nth(3));
    talk.full(12 * MS + 5_000, 1);
    talk.full(12 * MS + 6_000, 2);
    talk.full(14 * MS, 3);
    talk.ack(24 * MS, nth(4));
    let found = talk.end();
    let kept = found.response();
    assert_eq!(kept.metrics.retransmitted_packets, 0);
    assert_eq!(kept.metrics.unique_bytes, 4000);
    assert_eq!(kept.metrics.delivered_bytes, 4000);
    assert_eq!(kept.tally.unseen_bytes, 0);
}

/// The capture shows the acknowledgement of a retransmission 3 µs before the retransmission.
#[test]
fn at_the_receiver_a_loss_counts_although_its_repair_is_acknowledged_ahead() {
    let kept = hole(|talk| {
        talk.ack(147 * MS, nth(10));
        talk.full(147 * MS + 3000, 2);
    });
    assert_eq!(kept.lost(), [2]);
    assert_eq!(kept.marked(Marks::RETRANSMISSION), [10]);
    assert_eq!(kept.tally.unseen_bytes, 0);
    assert_eq!(kept.metrics.unique_bytes, 10_000);
    // In halves, of which the second is acknowledged selectively: right behind it, or right before it.
    let halves = |acknowledged: u64| {
        hole(|talk| {
            let second = (147 * MS, nth(2) + 500, 500);
            if acknowledged > second.0 {
                talk.send(second.0, second.1, second.2);
            }
            talk.sack(acknowledged, nth(2), &[(second.1, nth(10))]);
            if acknowledged < second.0 {
                talk.send(second.0, second.1, second.2);
            }
            talk.send(148 * MS, nth(2), 500);
        })
    };
    let [behind, before] = [147 * MS + 3000, 147 * MS - 3000].map(halves);
    assert_eq!(behind.lost(), before.lost());
    assert_eq!(before.tally.unseen_bytes, 0);
}

#[test]
fn what_comes_long_after_its_acknowledgement_was_sent_again() {
    let kept = hole(|talk| {
        talk.ack(147 * MS, nth(10));
        talk.full(149 * MS, 2);
    });
    assert_eq!(kept.metrics.lost_packets, 0);
    assert_eq!(kept.metrics.retransmitted_packets, 1);
    assert_eq!(kept.tally.unseen_bytes, u64::from(MSS));
}

/// A hostile capture: many holes, all acknowledged again and again at the same time.
#[test]
fn acknowledgements_of_holes_are_not_remembered_without_bound() {
    let mut talk = between(40 * MS, MS / 10);
    for n in 0..2000 {
        talk.full(100 * MS, 2 * n);
        talk.ack(100 * MS, nth(2 * n));
        let sacked = (nth(2 * n + 1), nth(2 * n + 2));
        talk.sack(100 * MS, 0, &[sacked]);
    }
    let found = talk.end();
    assert_eq!(found.response().metrics.lost_packets, 0);
}

/// Retransmissions go in the order of the stream, so the one of packet 2 was lost as well.
#[test]
fn at_the_receiver_a_retransmission_that_others_overtake_was_lost() {
    let mut talk = between(40 * MS, MS / 10);
    for n in (0..10).filter(|&n| n != 2 && n != 5) {
        let at = (100 + 2 * u64::from(n)) * MS;
        talk.full(at, n);
        talk.ack(at + 1000, nth(if n < 2 { n + 1 } else { 2 }));
    }
    talk.full(152 * MS, 5);
    talk.full(195 * MS, 2);
    talk.ack(195 * MS + 1000, nth(10));
    let found = talk.end();
    let kept = found.response();
    // Packet 2, packet 5, and the first retransmission of packet 2, before that of packet 5.
    assert_eq!(kept.lost(), [2, 5, 10]);
    assert_eq!(kept.marked(Marks::NOT_CAPTURED), [2, 5, 10]);
    assert_eq!(kept.marked(Marks::RETRANSMISSION), [10, 11, 12]);
    assert_eq!((kept.sent[2].repeated, kept.sent[10].repeats), (8, 8));
    assert_eq!((kept.sent[10].repeated, kept.sent[12].repeats), (2, 2));
    assert_eq!((kept.sent[5].repeated, kept.sent[11].repeats), (6, 6));
    assert_eq!(kept.metrics.unique_bytes, 10_000);
}

#[test]
fn at_the_receiver_a_silence_of_two_round_trips_has_lost_a_retransmission() {
    let kept = hole(|talk| talk.full(178 * MS, 2));
    assert_eq!(kept.lost(), [2, 10]);
    assert_eq!(kept.marked(Marks::RETRANSMISSION), [10, 11]);
}
