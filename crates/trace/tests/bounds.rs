//! Memory is bounded by the settings, whatever a capture holds: captures made to get around it.

use std::net::SocketAddr;

use tidegate_trace::annotate::{Metrics, Transfer};
use tidegate_trace::flow::{FlowSink, FlowTable, Settings};
use tidegate_trace::read::{Frame, LinkType};
use tidegate_trace::wire::{self, Flags, Packet};

const MAX_PACKETS: usize = 10_000;
/// Packets between two sweeps of the table.
const BETWEEN: usize = 1024;

struct Nothing;

impl FlowSink for Nothing {
    fn transfer(&mut self, _: &Transfer<'_>, _: &Metrics) {}
}

fn table() -> FlowTable {
    FlowTable::new(Settings {
        max_packets: MAX_PACKETS,
        ..Settings::default()
    })
}

/// A packet of the flow with that client port.
fn packet(at: u64, port: u16, from_client: bool, seq: u32, ack: u32, payload: u32) -> Packet {
    let client: SocketAddr = ([10, 0, 0, 1], port).into();
    let server: SocketAddr = ([10, 0, 0, 2], 443).into();
    let (src, dst) = if from_client {
        (client, server)
    } else {
        (server, client)
    };
    Packet {
        outbound: None,
        at,
        src: src.into(),
        dst: dst.into(),
        seq,
        ack,
        flags: Flags(Flags::ACK),
        window: 500,
        payload,
        headers: 40,
        framing: 18,
        ip_id: 0,
        hops: 64,
        sliced: false,
        options: wire::Options::default(),
    }
}

/// A flow that repeats the same bytes for ever never ends a segment, and others
/// that come and go in between are always quieter.
#[test]
fn a_busy_flow_cannot_hide_behind_quiet_ones() {
    let mut table = table();
    let mut most = 0;
    for i in 0..200_000u64 {
        let at = i * 1_000_000;
        if i % 8 == 0 {
            let port = 40_000 + (i / 8 % 20_000) as u16;
            table.packet(&packet(at, port, true, 1, 1, 100), &mut Nothing);
        } else {
            table.packet(&packet(at, 39_999, false, 1000, 1, 1000), &mut Nothing);
        }
        if i % 500 == 0 {
            most = most.max(table.kept());
        }
    }
    assert!(most <= MAX_PACKETS + 5 * BETWEEN, "{most} kept");
}

/// What was acknowledged is remembered for a while, longer than the segment that it belongs to.
#[test]
fn flows_that_are_only_remembered_count() {
    let mut table = table();
    let mut most = 0;
    let mut at = 0;
    for port in 20_000..22_000 {
        for i in 0..200 {
            at += 1_000_000;
            let data = packet(at, port, false, 1 + i * 1000, 1, 1000);
            table.packet(&data, &mut Nothing);
        }
        // All acknowledged; requests that end the segment and the one behind it.
        for i in 0..4 {
            at += 1_000_000;
            let ask = packet(at, port, true, 1 + i * 10, 200_001 + i * 10, 10);
            table.packet(&ask, &mut Nothing);
            let answer = packet(at + 1, port, false, 200_001 + i * 10, 11 + i * 10, 10);
            table.packet(&answer, &mut Nothing);
        }
        most = most.max(table.kept());
    }
    assert!(table.counters().evicted > 0);
    assert!(most <= MAX_PACKETS + 5 * BETWEEN, "{most} kept");
}

/// A receiver that acknowledges every other byte of a long stretch leaves a range for each.
#[test]
fn ranges_of_selective_acknowledgements_count() {
    let mut table = table();
    // Two bytes far apart, and all between them missed by the capture.
    table.packet(&packet(0, 40_000, false, 1, 1, 1), &mut Nothing);
    table.packet(&packet(1, 40_000, false, 900_000_000, 1, 1), &mut Nothing);
    let mut most = 0;
    for i in 0..100_000u32 {
        let frame = sack(2 + i * 8);
        let frame = Frame {
            outbound: None,
            at: 2 + u64::from(i) * 1000,
            link: LinkType::RAW,
            data: &frame,
            wire_len: frame.len() as u32,
        };
        table.frame(&frame, &mut Nothing);
        if i % 100 == 0 {
            most = most.max(table.kept());
        }
    }
    assert_eq!(table.counters().tcp, 100_002);
    assert!(most <= MAX_PACKETS + 5 * BETWEEN, "{most} kept");
}

/// A bare acknowledgement of the byte before 2, and of four bytes from `start`.
fn sack(start: u32) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 76, 0, 0, 0x40, 0, 64, 6, 0, 0];
    packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend(40_000u16.to_be_bytes());
    packet.extend(443u16.to_be_bytes());
    packet.extend(1u32.to_be_bytes());
    packet.extend(2u32.to_be_bytes());
    packet.extend([14 << 4, Flags::ACK, 1, 0, 0, 0, 0, 0]);
    packet.extend([1, 1, 5, 34]);
    for i in 0..4 {
        packet.extend((start + 2 * i).to_be_bytes());
        packet.extend((start + 2 * i + 1).to_be_bytes());
    }
    packet
}

/// Every acknowledgement echoes another link of one long chain of retransmissions. If each walked
/// the chain again, this would take minutes.
#[test]
fn a_chain_of_retransmissions_is_walked_once() {
    const LINKS: u32 = 100_000;
    let mut table = FlowTable::new(Settings::default());
    let mut at = 0;
    let mut next = |packet: Packet, [value, echo]: [u32; 2]| {
        at += 1_000_000;
        let options = wire::Options {
            timestamps: Some(wire::Timestamps { value, echo }),
            ..wire::Options::default()
        };
        table.packet(
            &Packet {
                at,
                options,
                ..packet
            },
            &mut Nothing,
        );
    };
    next(packet(0, 40_000, true, 1, 1, 10), [1, 1]);
    next(packet(0, 40_000, false, 1, 11, 2 * LINKS + 4), [1, 1]);
    for k in 0..LINKS {
        next(packet(0, 40_000, false, 1 + 2 * k, 11, 3), [2 + k, 1]);
    }
    for k in 0..LINKS {
        next(packet(0, 40_000, true, 11, 4 + 2 * k, 0), [1, 2 + k]);
    }
    assert!(table.kept() > LINKS as usize);
}
