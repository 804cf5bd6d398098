//! Senders and queues of today in whole simulations, by what was published of them.

use super::*;
use crate::plan::{CakePlan, Isolation, Tins};
use crate::tcp::{Algorithm, Recovery};

/// A download over 40 ms and 50 Mbit/s, with this many packets in the queue.
fn download(algorithm: Algorithm, recovery: Recovery, queue: u64) -> Outcome {
    let mut flow = bulk(None);
    flow.delay = 40 * MILLISECOND;
    flow.tcp.algorithm = algorithm;
    flow.tcp.recovery = recovery;
    outcome(&Plan {
        duration: 20 * SECOND,
        ..plan(vec![link("link", 50_000_000, queue)], vec![flow])
    })
}

/// Bits of payload per second, and the share of packets that were dropped.
fn figures(outcome: &Outcome) -> (f64, f64) {
    let flow = &outcome.flows[0];
    let rate = flow.delivered as f64 * 8.0 / 20.0;
    (rate, flow.dropped as f64 / flow.sent_packets as f64)
}

/// Behind a queue that is shorter than what the path holds, version 1 loses packets in each probe, and version 3 learns
/// from the first: Zeynali et al., "Promises and Potential of BBRv3", PAM 2024; draft-ietf-ccwg-bbr-06 §3.4.
#[test]
fn bbr_version_3_loses_less_behind_short_queues_than_version_1() {
    // A quarter of the path's 166 packets.
    let [(_, first), (rate, third)] = [Algorithm::Bbr, Algorithm::Bbr3]
        .map(|algorithm| figures(&download(algorithm, Recovery::default(), 40)));
    assert!(third < first / 2.0, "{third} of {first}");
    assert!(third < 0.02, "{third}");
    assert!(rate > 0.85 * 50e6 * 1448.0 / 1514.0, "{rate}");
}

/// A window that is halved at once is still full where the queue holds what the path does (RFC 9002 §7).
#[test]
fn quic_s_recovery_fills_a_path_whose_queue_is_as_long() {
    let quic = download(Algorithm::Reno, Recovery::Quic, 166);
    let linux = download(Algorithm::Reno, Recovery::Conservative, 166);
    let (rate, loss) = figures(&quic);
    let (other, _) = figures(&linux);
    assert!(rate > 0.9 * other, "{rate} of {other}");
    assert!(loss > 0.0 && loss < 0.02, "{loss}");
    assert_eq!(quic.flows[0].timeouts, 0);
}

/// [Cake18 §IV]: a call beside downloads waits for a packet or two, and two households share a link evenly, whatever they
/// download.
#[test]
fn cake_shares_by_host_and_keeps_a_call_s_delay() {
    let queue = QueueKind::Cake(CakePlan {
        rtt: 100 * MILLISECOND,
        tins: Tins::Diffserv3,
        isolation: Isolation::Destinations,
        limit: None,
    });
    let rate = rate(20_000_000);
    let link = element("link", ElementKind::Link { rate, queue });
    let client = |host: u8| Some(std::net::Ipv4Addr::new(10, 128, 1, host));
    let mut flows: Vec<FlowPlan> = Vec::new();
    for index in 0..7 {
        let mut flow = bulk(None);
        flow.client = client(u8::from(index > 0));
        flow.port = 443 + index;
        flows.push(flow);
    }
    let got = outcome(&Plan {
        duration: 30 * SECOND,
        ..plan(vec![link], flows)
    });
    let all: u64 = got.flows.iter().map(|flow| flow.delivered).sum();
    let first = got.flows[0].delivered as f64 / all as f64;
    assert!((first - 0.5).abs() < 0.03, "{first}");
    for flow in &got.flows[1..] {
        let share = flow.delivered as f64 / all as f64;
        assert!((share - 1.0 / 12.0).abs() < 0.01, "{share}");
    }
}
