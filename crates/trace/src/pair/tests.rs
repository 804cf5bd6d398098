//! Single packets between two places, written by hand.

use std::net::SocketAddr;

use super::{Between, Change, Diagnosis, Elsewhere, Fate, Gathered, Order, StreamReport};
use crate::read::{Frame, LinkType, Nanos};
use crate::testing::{MS, START, client, server};
use crate::wire::{Flags, Sacks, Timestamps};
use crate::write::{Ends, TcpFrame};

mod captured;

/// What B's clock is ahead.
const AHEAD: Nanos = 5_000 * MS;
/// The time on the way.
const WAY: Nanos = 10 * MS;
const LEN: u32 = 1000;

/// Captures at both places while a server sends from A's side to a client on B's.
struct Both {
    a: Gathered,
    b: Gathered,
    /// Changes what B sees.
    change: fn(&mut TcpFrame),
}

impl Both {
    fn new() -> Self {
        Self {
            a: Gathered::default(),
            b: Gathered::default(),
            change: |_| {},
        }
    }

    fn put(capture: &mut Gathered, at: Nanos, frame: &TcpFrame) {
        let mut bytes = Vec::new();
        let wire_len = frame.encode(&mut bytes);
        capture.frame(&Frame {
            outbound: None,
            at,
            link: LinkType::ETHERNET,
            data: &bytes,
            wire_len,
        });
    }

    fn at_a(&mut self, at: Nanos, frame: &TcpFrame) {
        Self::put(&mut self.a, START + at, frame);
    }

    fn at_b(&mut self, at: Nanos, frame: &TcpFrame) {
        let mut frame = *frame;
        (self.change)(&mut frame);
        Self::put(&mut self.b, START + AHEAD + at, &frame);
    }

    /// The server's packet, seen at both places.
    fn passes(&mut self, at: Nanos, frame: &TcpFrame) {
        self.at_a(at, frame);
        self.at_b(at + WAY, frame);
    }

    /// The client's acknowledgement, that A sees at this time.
    fn ack(&mut self, at: Nanos, number: u32) {
        let frame = TcpFrame {
            ack: number,
            ..TcpFrame::new(Ends {
                src: client(),
                dst: server(),
            })
        };
        self.at_b(at - WAY, &frame);
        self.at_a(at, &frame);
    }

    fn diagnose(self) -> Diagnosis {
        Diagnosis::new(self.a, self.b)
    }

    /// What both captures show of the server's data.
    fn data(self) -> StreamReport {
        let found = self.diagnose();
        assert_eq!(found.ways[0].streams.len(), 1);
        found.ways[0].streams[0]
    }
}

/// The server's n-th packet, without timestamps and identification.
fn nth(n: u32) -> TcpFrame {
    TcpFrame {
        seq: 1 + n * LEN,
        ack: 1,
        payload: LEN,
        ..TcpFrame::new(Ends {
            src: server(),
            dst: client(),
        })
    }
}

#[test]
fn a_retransmission_is_matched_to_its_own_arrival() {
    let mut both = Both::new();
    both.passes(0, &nth(0));
    both.at_a(MS, &nth(1));
    both.passes(2 * MS, &nth(2));
    both.ack(21 * MS, 1 + LEN);
    // Only time tells it from the packet that was lost.
    both.passes(300 * MS, &nth(1));
    both.ack(321 * MS, 1 + 3 * LEN);
    both.passes(330 * MS, &nth(3));
    both.ack(351 * MS, 1 + 4 * LEN);
    let found = both.diagnose();
    let way = &found.ways[0];
    let lost: Vec<Nanos> = way
        .passages
        .iter()
        .filter(|p| p.lost())
        .map(|p| p.at - START)
        .collect();
    assert_eq!(lost, [MS]);
    let stream = way.streams[0];
    assert_eq!(stream.order, Order::RoundTrip);
    assert_eq!(
        (
            stream.elsewhere.retransmitted,
            stream.elsewhere.lost_after()
        ),
        (1, 0)
    );
    let transit = way.transit.expect("packets");
    assert!((transit.most - WAY as f64).abs() < 1e3, "{transit:?}");
    let clocks = found.clocks.expect("shared packets");
    assert!((clocks.offset - AHEAD as f64).abs() < 1e3, "{clocks:?}");
}

#[test]
fn what_was_sent_again_in_vain_was_lost_behind_or_not_at_all() {
    let mut both = Both::new();
    both.passes(0, &nth(0));
    both.passes(MS, &nth(1));
    both.passes(2 * MS, &nth(2));
    both.ack(21 * MS, 1 + LEN);
    both.passes(50 * MS, &nth(1));
    both.passes(51 * MS, &nth(2));
    both.ack(71 * MS, 1 + 3 * LEN);
    // The second one had arrived before.
    let report = TcpFrame {
        ack: 1 + 3 * LEN,
        sacks: Sacks::new(std::iter::once(1 + 2 * LEN..1 + 3 * LEN)),
        ..TcpFrame::new(Ends {
            src: client(),
            dst: server(),
        })
    };
    both.at_b(62 * MS, &report);
    both.at_a(72 * MS, &report);
    both.passes(80 * MS, &nth(3));
    both.ack(101 * MS, 1 + 4 * LEN);
    let stream = both.data();
    assert_eq!((stream.lost, stream.elsewhere.retransmitted), (0, 2));
    assert_eq!(stream.elsewhere.lost_after(), 1);
}

#[test]
fn a_repetition_in_vain_that_is_lost_on_its_way_is_a_loss_between() {
    // Before the acknowledgement of what arrived is heard, and after.
    for again in [4, 24] {
        let mut both = Both::new();
        for n in 0..50u32 {
            let at = Nanos::from(n) * 50 * MS;
            let [first, second] = [0, again].map(|later| TcpFrame {
                timestamps: Some(Timestamps {
                    value: 1 + 50 * n + later as u32,
                    echo: 1,
                }),
                ..nth(n)
            });
            both.passes(at, &first);
            if again < 21 {
                both.at_a(at + again * MS, &second);
            }
            both.ack(at + 21 * MS, 1 + (n + 1) * LEN);
            if again > 21 {
                both.at_a(at + again * MS, &second);
            }
        }
        // Both captures go on behind the last loss.
        both.passes(3_000 * MS, &nth(50));
        let stream = both.data();
        assert_eq!((stream.lost, stream.missed), (50, 0), "{stream:?}");
        assert_eq!(stream.elsewhere.retransmitted, 50);
        assert_eq!(stream.elsewhere.lost_after(), 0, "{stream:?}");
    }
}

#[test]
fn ports_that_are_used_again_are_another_connection() {
    let mut both = Both::new();
    for n in 0..10 {
        both.passes(Nanos::from(n) * MS, &nth(1_000_000 + n));
    }
    let syn = TcpFrame {
        seq: 0,
        flags: Flags::SYN | Flags::ACK,
        payload: 0,
        ..nth(0)
    };
    both.passes(100 * MS, &syn);
    for n in 0..10 {
        both.passes((101 + Nanos::from(n)) * MS, &nth(n));
    }
    let found = both.diagnose();
    let streams = &found.ways[0].streams;
    assert_eq!(streams.len(), 2);
    for stream in streams {
        assert_eq!(stream.elsewhere, Elsewhere::default());
        assert_eq!(stream.lost, 0);
    }
}

#[test]
fn what_a_capture_missed_is_not_lost() {
    let mut both = Both::new();
    both.passes(0, &nth(0));
    both.at_a(MS, &nth(1));
    both.at_b(2 * MS + WAY, &nth(2));
    both.passes(3 * MS, &nth(3));
    both.ack(23 * MS, 1 + 4 * LEN);
    both.passes(30 * MS, &nth(4));
    both.ack(51 * MS, 1 + 5 * LEN);
    let stream = both.data();
    assert_eq!((stream.lost, stream.missed, stream.unseen), (0, 1, 1));
}

#[test]
fn overtaken_and_duplicated_packets_are_counted() {
    let mut both = Both::new();
    let numbered = |n: u32| TcpFrame {
        ip_id: 100 + n as u16,
        ..nth(n)
    };
    both.passes(0, &numbered(0));
    both.at_a(MS, &numbered(1));
    both.at_a(2 * MS, &numbered(2));
    both.at_b(2 * MS + WAY, &numbered(2));
    both.at_b(3 * MS + WAY, &numbered(1));
    both.at_b(3 * MS + WAY, &numbered(1));
    both.ack(30 * MS, 1 + 3 * LEN);
    for n in 3..40 {
        both.passes(u64::from(n) * 20 * MS, &numbered(n));
        both.ack(u64::from(n) * 20 * MS + 30 * MS, 1 + (n + 1) * LEN);
    }
    let stream = both.data();
    assert_eq!(
        (stream.overtaken, stream.duplicated, stream.unseen),
        (1, 1, 0)
    );
    assert_eq!(stream.lost, 0);
}

/// The memory of what copies are found by is given back when there are none.
#[test]
fn paths_of_different_lengths_are_no_copies() {
    let mut both = Both::new();
    for n in 0..1200 {
        let hops = 64 - (n % 2) as u8;
        let at = u64::from(n) * MS / 10;
        both.passes(at, &TcpFrame { hops, ..nth(n) });
        both.ack(at + 30 * MS, 1 + (n + 1) * LEN);
    }
    let stream = both.data();
    assert_eq!((stream.lost, stream.duplicated), (0, 0));
}

#[test]
fn changes_on_the_way_are_named() {
    let mut both = Both::new();
    both.change = |frame| {
        frame.dscp = 0;
        frame.mss = frame.mss.map(|mss| mss.min(1360));
        frame.ip_id = frame.ip_id.wrapping_add(7);
        for end in [&mut frame.src, &mut frame.dst] {
            if *end == server() {
                *end = SocketAddr::from(([203, 0, 113, 5], 8443));
            }
        }
    };
    let syn = TcpFrame {
        seq: 0,
        ack: 1,
        flags: Flags::SYN | Flags::ACK,
        mss: Some(1460),
        dscp: 46,
        ip_id: 1,
        ..TcpFrame::new(Ends {
            src: server(),
            dst: client(),
        })
    };
    both.passes(0, &syn);
    both.ack(21 * MS, 1);
    for n in 0..4 {
        let frame = TcpFrame {
            dscp: 46,
            ip_id: 2,
            ..nth(n)
        };
        both.passes(u64::from(n) * MS + 30 * MS, &frame);
    }
    both.ack(60 * MS, 1 + 4 * LEN);
    let found = both.diagnose();
    let changes = &found.ways[0].changes;
    assert_eq!(changes.packets, 5);
    assert_eq!(
        changes.dscp.get(&Change {
            before: 46,
            after: 0
        }),
        Some(&5)
    );
    assert_eq!(
        changes.mss.get(&Change {
            before: Some(1460),
            after: Some(1360)
        }),
        Some(&1)
    );
    assert_eq!(changes.identification, 5);
    assert_eq!((changes.payload, changes.usual_hops()), (0, Some(0)));
    let Change { before, after } = changes.translated.keys().next().expect("a translation");
    assert_eq!(
        (before.to_string(), after.to_string()),
        (server().to_string(), "203.0.113.5:8443".into())
    );
    assert_eq!(found.main_way().verdict, Between::Nothing);
}

#[test]
fn packets_of_one_direction_give_no_offset() {
    let mut both = Both::new();
    for n in 0..10 {
        let frame = nth(n);
        both.at_a(u64::from(n) * MS, &frame);
        if n != 4 {
            both.at_b(u64::from(n) * MS + WAY, &frame);
        }
    }
    let found = both.diagnose();
    let clocks = found.clocks.expect("shared packets");
    assert_eq!(clocks.offset_error, None);
    let stream = found.ways[0].streams[0];
    assert_eq!((stream.order, stream.lost), (Order::Losses, 1));
    assert_eq!(stream.transit.expect("packets").least, 0.0);
}

#[test]
fn what_the_other_capture_did_not_cover_is_not_judged() {
    let mut both = Both::new();
    for n in 0..40 {
        let (at, frame) = (u64::from(n) * MS, nth(n));
        both.at_a(at, &frame);
        if (10..30).contains(&n) {
            both.at_b(at + WAY, &frame);
        }
        if n == 20 {
            both.ack(at + 2 * WAY, 1 + 10 * LEN);
        }
    }
    let found = both.diagnose();
    let uncovered = |p: &&super::Passage| p.fate == Fate::Uncovered;
    assert_eq!(found.ways[0].streams[0].lost, 0);
    assert_eq!(found.ways[0].passages.iter().filter(uncovered).count(), 20);
}

/// One clock was never set and shows 1970, and gains a hundred parts in a million: that is days since then,
/// by which no packet of the other place may be moved.
#[test]
fn a_clock_that_was_never_set_does_not_hide_losses() {
    const SINCE_1970: Nanos = 1_700_000_000_000 * MS;
    let by_a = |at: Nanos| at;
    let by_b = |at: Nanos| SINCE_1970 + at + at / 10_000;
    let mut at_a = Vec::new();
    let mut at_b = Vec::new();
    for n in 0..400u32 {
        let at = 1_000 * MS + u64::from(n) * 10 * MS;
        // The data pass B first: the server is on its side. Each hundredth is lost, and repeated
        // after ten more.
        at_b.push((at, nth(n)));
        let lost = n / 100 * 100 + 50;
        if n != lost {
            at_a.push((at + WAY, nth(n)));
        }
        if n == lost + 10 {
            at_b.push((at + MS, nth(lost)));
            at_a.push((at + MS + WAY, nth(lost)));
        }
        let next = match n {
            n if (lost..lost + 10).contains(&n) => lost,
            n => n + 1,
        };
        let ack = TcpFrame {
            ack: 1 + next * LEN,
            ..TcpFrame::new(Ends {
                src: client(),
                dst: server(),
            })
        };
        at_a.push((at + 2 * MS + WAY, ack));
        at_b.push((at + 2 * MS + 2 * WAY, ack));
        if n == 200 {
            // Of half a packet, which A missed.
            let ack = TcpFrame {
                ack: ack.ack + LEN / 2,
                ..ack
            };
            at_b.push((at + 3 * MS + 2 * WAY, ack));
        }
    }
    let mut both = Both::new();
    for (packets, capture, clock) in [
        (&mut at_a, &mut both.a, by_a as fn(Nanos) -> Nanos),
        (&mut at_b, &mut both.b, by_b),
    ] {
        packets.sort_by_key(|&(at, _)| at);
        for (at, frame) in packets {
            Both::put(capture, clock(*at), frame);
        }
    }
    let found = both.diagnose();
    let clocks = found.clocks.expect("shared packets");
    assert!((clocks.drift - 1e-4).abs() < 1e-6, "{clocks:?}");
    let streams = found.ways.iter().flat_map(|way| &way.streams);
    let (to_b, to_a): (Vec<&StreamReport>, Vec<_>) = streams.partition(|stream| stream.to_b);
    let counts = |stream: &StreamReport| (stream.packets, stream.lost, stream.unseen);
    assert_eq!(
        to_a.into_iter().map(counts).collect::<Vec<_>>(),
        [(404, 4, 0)]
    );
    assert_eq!(
        to_b.into_iter().map(counts).collect::<Vec<_>>(),
        [(400, 0, 1)]
    );
}

#[test]
fn memory_is_bounded() {
    let mut gathered = Gathered::new(100);
    for n in 0..1000 {
        Both::put(&mut gathered, START, &nth(n));
    }
    let counts = gathered.counts();
    assert_eq!(counts.tcp, 1000);
    assert!(counts.not_kept >= 900);
}

/// A firewall that hides how a server chooses its first number: what the client sends keeps its numbers, but
/// acknowledges others.
#[test]
fn rewritten_sequence_numbers_are_another_connection() {
    let mut both = Both::new();
    both.change = |frame| match frame.src == server() {
        true => frame.seq += 77_777,
        false => frame.ack += 77_777,
    };
    let request = TcpFrame {
        seq: 1,
        ack: 1,
        payload: 300,
        ..TcpFrame::new(Ends {
            src: client(),
            dst: server(),
        })
    };
    both.at_b(0, &request);
    both.at_a(WAY, &request);
    for n in 0..40u32 {
        let at = (30 + 30 * Nanos::from(n)) * MS;
        both.passes(at, &nth(n));
        if n % 10 == 5 {
            both.passes(at + MS, &nth(n));
        }
        both.ack(at + 21 * MS, 1 + (n + 1) * LEN);
    }
    let found = both.diagnose();
    assert_eq!((found.unlike, found.unshared), (2, [2, 2]));
    assert_eq!(found.clocks, None);
    assert_eq!(found.main_way().verdict, Between::Unclear);
}

/// Full packets are lost where they do not fit, and what is sent again in small ones passes: the other capture does not
/// show what is full.
#[test]
fn a_full_packet_stays_whole_beside_smaller_ones() {
    for small in [200, 600] {
        let mut both = Both::new();
        both.ack(25 * MS, 1);
        for n in 0..16 {
            both.at_a((30 + Nanos::from(n)) * MS, &nth(n));
        }
        for n in 0..5u32 {
            let at = (300 + 30 * Nanos::from(n)) * MS;
            let frame = TcpFrame {
                seq: 1 + n * small,
                payload: small,
                ..nth(0)
            };
            both.passes(at, &frame);
            both.ack(at + 21 * MS, 1 + (n + 1) * small);
        }
        let stream = both.data();
        assert_eq!((stream.data_packets, stream.lost), (21, 16), "{stream:?}");
    }
}

/// B's clock is set two seconds on in the middle, and B begins a little later than A.
#[test]
fn a_clock_that_was_set_tells_of_losses_only() {
    let mut both = Both::new();
    for n in 0..100u32 {
        let at = Nanos::from(n) * 50 * MS;
        let set = if n < 50 { 0 } else { 2_000 * MS };
        let ack = TcpFrame {
            ack: 1 + (n + 1) * LEN,
            ..TcpFrame::new(Ends {
                src: client(),
                dst: server(),
            })
        };
        both.at_a(at, &nth(n));
        if n >= 3 {
            if n != 60 {
                both.at_b(at + WAY + set, &nth(n));
            }
            both.at_b(at + WAY + MS + set, &ack);
        }
        both.at_a(at + 2 * WAY + MS, &ack);
    }
    let found = both.diagnose();
    assert!(found.clocks.is_some_and(|clocks| clocks.uneven));
    for way in &found.ways {
        assert_eq!((way.transit, way.verdict), (None, Between::Unclear));
        assert_eq!(way.streams[0].transit, None);
    }
    let stream = found.ways[0].streams[0];
    assert_eq!(
        (stream.packets, stream.lost + stream.missed),
        (97, 1),
        "{stream:?}"
    );
}
