//! Super-packets that are divided between two interfaces, in captures of all interfaces.

use super::faults::six;
use crate::read::{Frame, LinkType, Nanos};
use crate::testing::*;
use crate::wire::Timestamps;
use crate::write::TcpFrame;

const MICROSECOND: Nanos = 1000;
/// Packets of a super-packet, and super-packets.
const PARTS: u32 = 4;
const SUPERS: u32 = 20;
/// Where super-packets are seen, and where their pieces are.
const INNER: u32 = 2;
const OUTER: u32 = 3;

/// A capture of all interfaces, with the numbers of interfaces (Linux cooked v2) or without (v1).
struct Capture {
    talk: Talk,
    numbers: bool,
    timestamps: bool,
}

impl Capture {
    fn of(talk: Talk, numbers: bool, timestamps: bool) -> Self {
        Self {
            talk,
            numbers,
            timestamps,
        }
    }

    /// Bytes of a packet, beside its options.
    fn size(&self) -> u32 {
        MSS - if self.timestamps { 12 } else { 0 }
    }

    fn times(&self, value: u32) -> Option<Timestamps> {
        self.timestamps.then_some(Timestamps { value, echo: 9 })
    }

    fn put(&mut self, interface: u32, at: Nanos, frame: TcpFrame) {
        let mut bytes = Vec::new();
        let wire_len = frame.encode(&mut bytes);
        let kind = [bytes[12], bytes[13]];
        let (link, header) = match self.numbers {
            true => {
                let [a, b, c, d] = interface.to_be_bytes();
                let header = [&kind[..], &[0, 0, a, b, c, d], &[0; 12]].concat();
                (LinkType::LINUX_SLL2, header)
            }
            false => (LinkType::LINUX_SLL, [&[0; 14], &kind[..]].concat()),
        };
        let data = [&header[..], &bytes[14..]].concat();
        let frame = Frame {
            at: START + at,
            link,
            data: &data,
            wire_len: wire_len - 14 + header.len() as u32,
            outbound: None,
        };
        self.talk.table.frame(&frame, &mut self.talk.found);
    }

    /// The n-th super-packet, with the identification of its first packet.
    fn whole(&mut self, n: u32) -> TcpFrame {
        let first = n * PARTS;
        let size = self.size();
        TcpFrame {
            ip_id: 1000 + first as u16,
            timestamps: self.times(500 + n),
            ..self.talk.data(first * size, PARTS * size)
        }
    }

    /// A download of super-packets that may be divided. The second packet of the fifth one is lost then.
    fn download(mut self, divided: bool) -> Kept {
        for n in 0..SUPERS {
            let at = 10 * MS + Nanos::from(n) * MS;
            let whole = self.whole(n);
            self.put(INNER, at, whole);
            for part in (0..PARTS).filter(|_| divided) {
                let later = Nanos::from(part) * 10 * MICROSECOND;
                self.put(OUTER, at + 3 * MICROSECOND + later, part_of(whole, part));
            }
        }
        let size = self.size();
        let lost = (4 * PARTS + 1) * size;
        self.talk
            .sack(60 * MS, lost, &[(lost + size, 5 * PARTS * size)]);
        let again = TcpFrame {
            timestamps: self.times(560),
            ip_id: 1000 + (SUPERS * PARTS) as u16,
            ..self.talk.data(lost, size)
        };
        self.put(INNER, 61 * MS, again);
        if divided {
            self.put(OUTER, 61 * MS + 3 * MICROSECOND, again);
        }
        self.talk.ack(100 * MS, SUPERS * PARTS * size);
        self.talk.end().response().clone()
    }
}

/// What the kernel makes of a super-packet.
fn part_of(whole: TcpFrame, part: u32) -> TcpFrame {
    let size = whole.payload / PARTS;
    TcpFrame {
        seq: whole.seq.wrapping_add(part * size),
        payload: size,
        ip_id: whole.ip_id + part as u16,
        // It has passed a router.
        hops: whole.hops - 1,
        ..whole
    }
}

fn is_as_if_one_interface_was_captured(talk: fn() -> Talk, numbers: bool, timestamps: bool) {
    let download = |divided| Capture::of(talk(), numbers, timestamps).download(divided);
    let (one, both) = (download(false), download(true));
    assert_eq!(one.sent.len() as u32, SUPERS * PARTS + 1);
    assert_eq!(one.lost(), [17]);
    assert_eq!(both.lengths(), one.lengths());
    assert_eq!(both.offsets(), one.offsets());
    assert_eq!(both.lost(), one.lost());
    assert_eq!(both.metrics.retransmitted_packets, 1);
    let copies = u64::from(SUPERS * PARTS + 1);
    assert_eq!((one.tally.duplicates, both.tally.duplicates), (0, copies));
}

#[test]
fn pieces_of_super_packets_are_left_out() {
    for numbers in [false, true] {
        for timestamps in [false, true] {
            is_as_if_one_interface_was_captured(Talk::begun, numbers, timestamps);
        }
    }
}

/// Without an identification, the interface and the timestamp tell.
#[test]
fn over_ipv6_pieces_are_left_out_where_interfaces_are_known() {
    is_as_if_one_interface_was_captured(six, true, true);
}

/// A packet that is sent again within a tick of the sender's clock, with this identification.
fn again(talk: Talk, numbers: bool, ip_id: u16, interface: u32) -> Kept {
    let mut capture = Capture::of(talk, numbers, true);
    let times = capture.times(5);
    for n in 0..2 {
        let whole = TcpFrame {
            ip_id: 1000 + n as u16,
            timestamps: times,
            ..capture.whole(n)
        };
        capture.put(INNER, 10 * MS + Nanos::from(n) * MICROSECOND, whole);
    }
    let whole = TcpFrame {
        timestamps: times,
        ..capture.whole(0)
    };
    let piece = TcpFrame {
        ip_id,
        ..part_of(whole, 2)
    };
    capture.put(interface, 10 * MS + 100 * MICROSECOND, piece);
    let end = 2 * PARTS * capture.size();
    capture.talk.ack(50 * MS, end);
    capture.talk.end().response().clone()
}

/// As today: an identification that counts super-packets may be that of a piece by chance.
#[test]
fn where_no_super_packet_is_divided_a_retransmission_stays_one() {
    for (talk, numbers, ip_id, interface) in [
        (Talk::begun as fn() -> Talk, false, 1002, INNER),
        (Talk::begun, true, 1002, INNER),
        (Talk::begun, true, 1002, OUTER),
        (six, true, 0, INNER),
        (six, false, 0, OUTER),
    ] {
        let found = again(talk(), numbers, ip_id, interface);
        assert_eq!(found.metrics.retransmitted_packets, 1);
        assert_eq!(found.tally.duplicates, 0);
    }
}

/// A frame of one interface says nothing of others.
#[test]
fn in_captures_of_one_interface_no_packet_is_a_piece() {
    let mut talk = Talk::begun();
    let whole = TcpFrame {
        ip_id: 1000,
        ..talk.data(0, PARTS * MSS)
    };
    talk.put(10 * MS, whole);
    for part in 0..PARTS {
        talk.put(10 * MS + 10 * MICROSECOND, part_of(whole, part));
    }
    let found = talk.end();
    assert_eq!(found.response().tally.duplicates, 0);
    assert_eq!(
        found.response().metrics.retransmitted_packets,
        u64::from(PARTS)
    );
}
