use std::net::SocketAddr;

use tidegate_limiter::{
    Decision, LimiterConfig, Marking, PolicerConfig, Rate, SingleRateBursts, SingleRateConfig,
};
use tidegate_trace::write::{Ends, TcpFrame};

use super::super::host;
use super::super::transfer::Received;
use super::Emulator;
use crate::forward::Between;
use tidegate_lab::outcome::Outcome;
use tidegate_lab::plan::{ElementKind, ElementPlan, FlowPlan, Plan, QueueKind, Traffic};
use tidegate_lab::tcp::TcpConfig;
use tidegate_lab::{MILLISECOND, SECOND};

const RATE: Rate = Rate::from_bits_per_second(10_000_000);

fn limiter(config: impl Into<LimiterConfig>) -> ElementKind {
    ElementKind::Limiter {
        config: config.into(),
        classes: None,
        overhead: 0,
    }
}

/// One flow of 10 ms delay, with this element on its way to the client.
fn plan(kind: ElementKind) -> Plan {
    let flow = FlowPlan {
        name: "flow".into(),
        aggregate: 0,
        forward: vec![0],
        back: vec![],
        delay: 10 * MILLISECOND,
        class: None,
        queue: None,
        dscp: 0,
        address: None,
        port: 443,
        client: None,
        start: 0,
        traffic: Traffic::Bulk { bytes: None },
        tcp: TcpConfig::default(),
    };
    let name = "element".into();
    Plan {
        seed: 0,
        duration: SECOND,
        window: SECOND,
        sample: None,
        connections: None,
        aggregates: vec!["all".into()],
        elements: vec![ElementPlan { name, kind }],
        nodes: Vec::new(),
        flows: vec![flow],
    }
}

fn finish(emulator: Emulator<'_>) -> Outcome {
    let received = Received {
        bytes: 0,
        end: SECOND,
        completion: None,
    };
    emulator.finish(&[received], 0)
}

/// An IP packet of a flow, of this length.
fn data(flow: usize, length: u32) -> Vec<u8> {
    let frame = TcpFrame {
        seq: 1,
        payload: length - 40,
        ..TcpFrame::new(Ends {
            src: SocketAddr::from(([192, 0, 2, 1], host::port(flow))),
            dst: SocketAddr::from(([192, 0, 2, 2], 50_000)),
        })
    };
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    bytes.split_off(14)
}

/// When all packets under way leave.
fn departures(emulator: &mut Emulator<'_>) -> Vec<u64> {
    std::iter::from_fn(|| emulator.leave(SECOND).map(|departure| departure.due)).collect()
}

#[test]
fn a_link_sends_one_packet_after_the_other_and_drops_what_has_no_place() {
    let queue = QueueKind::DropTail {
        bytes: None,
        packets: Some(2),
    };
    let plan = plan(ElementKind::Link { rate: RATE, queue });
    let mut emulator = Emulator::new(&plan).unwrap();
    for _ in 0..4 {
        emulator.arrive(0, true, &data(0, 1500));
    }
    // Nothing leaves before its time. (1500 + 14) · 8 bits take 1.2112 ms at 10 Mbit/s. The first
    // packet is being sent, two wait, one is lost.
    assert_eq!(emulator.leave(6_211_199), None);
    assert_eq!(departures(&mut emulator), [6_211_200, 7_422_400, 8_633_600]);
    // It has been idle: no debt, no credit.
    emulator.arrive(100 * MILLISECOND, true, &data(0, 486));
    assert_eq!(departures(&mut emulator), [105_400_000]);
    let outcome = finish(emulator);
    let link = &outcome.elements[0];
    assert_eq!((link.packets, link.bytes), (5, 4 * 1514 + 500));
    assert_eq!((link.dropped, link.dropped_bytes), (1, 1514));
    assert_eq!(outcome.flows[0].dropped, 1);
    assert_eq!(outcome.flows[0].windows, [3 * 1500 + 486]);
}

#[test]
fn a_policer_passes_its_burst_and_then_its_rate() {
    let plan = plan(limiter(PolicerConfig::new(RATE, 3000).unwrap()));
    let mut emulator = Emulator::new(&plan).unwrap();
    for at in [0, 0, 0, 1_199_999, 1_200_000] {
        emulator.arrive(at, true, &data(0, 1500));
    }
    assert_eq!(
        departures(&mut emulator),
        [5 * MILLISECOND, 5 * MILLISECOND, 6_200_000]
    );
    assert_eq!(finish(emulator).flows[0].dropped, 2);
}

#[test]
fn the_way_back_has_the_other_half_of_the_delay_and_no_limit() {
    let plan = plan(limiter(PolicerConfig::new(RATE, 1).unwrap()));
    let mut emulator = Emulator::new(&plan).unwrap();
    let frame = TcpFrame::new(Ends {
        src: SocketAddr::from(([192, 0, 2, 2], 50_000)),
        dst: SocketAddr::from(([192, 0, 2, 1], host::port(0))),
    });
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    emulator.arrive(MILLISECOND, false, &bytes[14..]);
    assert_eq!(departures(&mut emulator), [6 * MILLISECOND]);
}

#[test]
fn what_is_of_no_flow_is_let_fall() {
    let queue = QueueKind::DropTail {
        bytes: None,
        packets: None,
    };
    let plan = plan(ElementKind::Link { rate: RATE, queue });
    let mut emulator = Emulator::new(&plan).unwrap();
    emulator.arrive(0, true, &data(1, 1500));
    emulator.arrive(0, true, &[0x60; 48]);
    emulator.arrive(0, true, &[]);
    assert_eq!(emulator.next(), None);
    assert_eq!(finish(emulator).packets, 0);
}

#[test]
fn a_re_marked_packet_has_the_checksum_of_its_new_header() {
    let bursts = SingleRateBursts {
        committed: 1500,
        excess: 1500,
    };
    let marking = Marking {
        green: Decision::Pass,
        yellow: Decision::Mark(34),
        red: Decision::Mark(1),
    };
    let config = SingleRateConfig::new(RATE, bursts, marking).unwrap();
    let plan = plan(limiter(config));
    let mut emulator = Emulator::new(&plan).unwrap();
    for _ in 0..3 {
        emulator.arrive(0, true, &data(0, 1500));
    }
    for dscp in [0, 34, 1] {
        let bytes = emulator.leave(SECOND).unwrap().bytes;
        assert_eq!(bytes[1], dscp << 2);
        // RFC 1071: a header with its checksum adds up to ones.
        let words = bytes[..20].chunks(2);
        let sum: u32 = words
            .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
            .sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }
    assert_eq!(finish(emulator).elements[0].marked, 2);
}
