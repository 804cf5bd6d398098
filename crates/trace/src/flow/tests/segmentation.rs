//! Super-packets to wire packets.

use crate::testing::*;
use crate::wire::{Flags, Timestamps};
use crate::write::TcpFrame;

/// The pieces of one server packet in a conversation whose SYNs offer these.
fn pieces(mss: [Option<u16>; 2], timestamps: Option<Timestamps>, payload: u32) -> (Vec<u32>, Kept) {
    let mut talk = Talk::new();
    let syn = TcpFrame {
        flags: Flags::SYN,
        mss: mss[0],
        timestamps,
        seq: talk.isn[0],
        ..talk.asking(0, 0)
    };
    let answer = TcpFrame {
        flags: Flags::SYN | Flags::ACK,
        mss: mss[1],
        timestamps,
        seq: talk.isn[1],
        ..talk.data(0, 0)
    };
    talk.put(0, syn);
    talk.put(MS, answer);
    talk.request(2 * MS, 0, 100);
    let data = TcpFrame {
        timestamps,
        ..talk.data(0, payload)
    };
    talk.put(3 * MS, data);
    let found = talk.end();
    let kept = found.response().clone();
    (kept.lengths(), kept)
}

#[test]
fn a_super_packet_is_split_by_the_offered_mss() {
    let (lengths, kept) = pieces([Some(1000), Some(1460)], None, 3500);
    assert_eq!(lengths, [1000, 1000, 1000, 500]);
    assert_eq!(kept.offsets(), [0, 1000, 2000, 3000]);
    assert_eq!(kept.mss, 1000);
    // As wire packets, each with headers and framing, but one packet of the capture.
    assert_eq!(kept.tally.payload_bytes, 3500);
    assert_eq!(kept.tally.ip_bytes, 3500 + 4 * 40);
    assert_eq!(kept.tally.link_bytes, 3500 + 4 * (40 + 18));
    assert_eq!(kept.metrics.data_packets, 4);
}

#[test]
fn either_sides_offer_limits() {
    let (lengths, _) = pieces([Some(1460), Some(1200)], None, 2400);
    assert_eq!(lengths, [1200, 1200]);
    let (lengths, _) = pieces([None, Some(1200)], None, 2400);
    assert_eq!(lengths, [1200, 1200]);
}

#[test]
fn timestamps_take_space_of_the_mss() {
    let (lengths, kept) = pieces(
        [Some(1460), Some(1460)],
        Some(Timestamps { value: 1, echo: 2 }),
        65_160,
    );
    assert_eq!(lengths, [1448; 45]);
    assert_eq!(kept.tally.ip_bytes, 65_160 + 45 * 52);
}

#[test]
fn an_absurd_offer_does_not_make_thousands_of_packets() {
    for mss in [0, 1, 100] {
        let (lengths, _) = pieces([Some(mss), Some(mss)], None, 53_600);
        assert!(lengths.len() <= 100, "{}", lengths.len());
    }
}

/// The pieces of server packets in a conversation without a SYN.
fn estimated(timestamps: Option<Timestamps>, payloads: &[u32]) -> Vec<u32> {
    let mut talk = Talk::new();
    let mut offset = 0;
    for (i, &payload) in payloads.iter().enumerate() {
        let data = TcpFrame {
            timestamps,
            ..talk.data(offset, payload)
        };
        talk.put(i as u64 * MS, data);
        offset += payload;
    }
    talk.end().response().lengths()
}

#[test]
fn without_a_syn_the_size_is_what_divides_the_super_packet() {
    assert_eq!(estimated(None, &[2920]), [1460; 2]);
    assert_eq!(
        estimated(Some(Timestamps { value: 1, echo: 1 }), &[4344]),
        [1448; 3]
    );
    assert_eq!(estimated(None, &[14_280]), [1428; 10]);
    assert_eq!(estimated(None, &[8948]), [8948]);
}

#[test]
fn without_a_syn_the_first_estimate_holds_for_what_does_not_divide() {
    assert_eq!(
        estimated(Some(Timestamps { value: 1, echo: 1 }), &[2896, 3000]),
        [1448, 1448, 1448, 1448, 104]
    );
}

#[test]
fn without_a_syn_what_divides_all_full_super_packets_is_found() {
    // The first alone could be anything.
    assert_eq!(estimated(None, &[2174, 3261, 2174])[2..], [1087; 5]);
    assert_eq!(estimated(None, &[5808, 4356, 1452]), [1452; 8]);
    // What is largest is known from single packets, too.
    let mut talk = Talk::new();
    talk.send(0, 0, 1087);
    talk.send(MS, 1087, 500);
    assert_eq!(talk.end().response().mss, 1087);
}

#[test]
fn without_a_syn_and_a_divisor_the_largest_single_packet_or_the_usual_counts() {
    assert_eq!(estimated(None, &[1300, 3001]), [1300, 1300, 1300, 401]);
    assert_eq!(estimated(None, &[3001]), [1460, 1460, 81]);
    assert_eq!(
        estimated(Some(Timestamps { value: 1, echo: 1 }), &[3001]),
        [1448, 1448, 105]
    );
    // What fits one frame is one packet.
    assert_eq!(estimated(None, &[1460, 900, 1]), [1460, 900, 1]);
}
