//! The states of connections over time.

use super::*;
use crate::outcome::{FlowOutcome, State};
use crate::tcp::cc::LossState;
use crate::tcp::{Algorithm, SlowStart};

/// Two senders behind a short queue, noted in this way.
fn noted(connections: Option<Noting>) -> Plan {
    let mut flows = vec![bulk(None), bulk(None)];
    flows[1].tcp.algorithm = Algorithm::Bbr;
    Plan {
        connections,
        ..plan(vec![link("link", 10_000_000, 10)], flows)
    }
}

#[test]
fn noting_states_changes_nothing_else() {
    let plain = outcome(&noted(None));
    for noting in [Noting::Changes, Noting::Every(10 * MILLISECOND)] {
        let mut got = outcome(&noted(Some(noting)));
        for flow in &mut got.flows {
            assert!(!std::mem::take(&mut flow.states).is_empty(), "{noting:?}");
        }
        assert_eq!(got, plain);
    }
}

#[test]
fn changes_add_up_to_what_was_sent() {
    let got = outcome(&noted(Some(Noting::Changes)));
    for flow in &got.flows {
        let (first, last) = (flow.states[0], flow.states[flow.states.len() - 1]);
        assert_eq!(first.snapshot.cwnd, 10);
        assert_eq!(first.snapshot.ssthresh, u32::MAX);
        let counts = last.snapshot.counts;
        assert_eq!(counts.sent, flow.sent_packets);
        assert_eq!(counts.retransmitted, flow.retransmitted);
        assert_eq!(counts.timeouts, flow.timeouts);
        for pair in flow.states.windows(2) {
            assert!(pair[0].at <= pair[1].at);
            assert_ne!(pair[0].snapshot, pair[1].snapshot);
        }
        // The delay of the path is the least round trip, but for the time on the link.
        let least = last.snapshot.min_rtt.unwrap();
        assert!((20 * MILLISECOND..24 * MILLISECOND).contains(&least));
    }
    let recovers = |state: &State| state.snapshot.state == LossState::Recovery;
    assert!(got.flows[0].states.iter().any(recovers));
    assert!(
        got.flows[0]
            .states
            .iter()
            .all(|state| state.snapshot.phase.is_none())
    );
    let mut phases: Vec<_> = got.flows[1]
        .states
        .iter()
        .filter_map(|state| state.snapshot.phase)
        .collect();
    phases.dedup();
    assert_eq!(phases[..3], ["startup", "drain", "probe-bw"]);
    assert!(
        got.flows[1]
            .states
            .iter()
            .any(|state| state.snapshot.pacing_rate.is_some())
    );
}

#[test]
fn intervals_are_kept_and_bounded() {
    let got = outcome(&noted(Some(Noting::Every(10 * MILLISECOND))));
    for state in &got.flows[0].states {
        assert_eq!(state.at % (10 * MILLISECOND), 0);
    }
    // All but those before the connection was open.
    assert!((990..1000).contains(&got.flows[0].states.len()));
    let error = run(&noted(Some(Noting::Every(1000))), &mut |_| true);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("10000000 states of 2 flows"), "{error}");
}

/// RFC 9406 §1: less is lost at the end of slow start than without it, and as much arrives.
#[test]
fn hystart_plus_loses_less_in_slow_start() {
    let run = |slow_start| {
        let mut flow = bulk(None);
        flow.delay = 100 * MILLISECOND;
        (flow.tcp.algorithm, flow.tcp.slow_start) = (Algorithm::Reno, slow_start);
        let got = outcome(&Plan {
            duration: 4 * SECOND,
            ..plan(vec![link("link", 50_000_000, 400)], vec![flow])
        });
        (got.flows[0].dropped, got.flows[0].delivered)
    };
    let ((lost, delivered), (lost_plus, delivered_plus)) =
        (run(SlowStart::Linux), run(SlowStart::HyStartPlusPlus));
    assert!(lost_plus * 2 < lost, "{lost_plus} of {lost}");
    assert!(
        delivered_plus >= delivered,
        "{delivered_plus} of {delivered}"
    );
}

/// RFC 9332 §2.1: behind DualPI2 a sender of L4S and CUBIC have the same window, and packets of L4S hardly wait.
#[test]
fn prague_and_cubic_have_the_same_window_behind_dualpi2() {
    let flow = |algorithm| {
        let mut flow = bulk(None);
        flow.tcp.algorithm = algorithm;
        flow
    };
    let queue = QueueKind::DualPi2 {
        target: 15 * MILLISECOND,
        update: 16 * MILLISECOND,
        threshold: 800_000,
        packets: 10_000,
    };
    let rate = rate(40_000_000);
    let link = element("link", ElementKind::Link { rate, queue });
    let flows = vec![flow(Algorithm::Prague), flow(Algorithm::Cubic)];
    let got = outcome(&Plan {
        duration: 30 * SECOND,
        ..plan(vec![link], flows)
    });
    let [prague, cubic] = &got.flows[..] else {
        panic!("two flows");
    };
    // Equal windows, so rates are as the inverse of round trips.
    let window = |flow: &FlowOutcome| flow.delivered as f64 * flow.rtt.mean as f64;
    let ratio = window(prague) / window(cubic);
    assert!((0.8..1.25).contains(&ratio), "{ratio}");
    assert!(prague.delivered + cubic.delivered > 130_000_000);
    assert!(prague.marked > 0 && prague.dropped == 0 && cubic.dropped > 0);
    // 20 ms of delay, and the queues: about 1 ms, and 15 ms.
    assert!(prague.rtt.p50 < 22 * MILLISECOND, "{:?}", prague.rtt);
    assert!(cubic.rtt.p50 > 28 * MILLISECOND, "{:?}", cubic.rtt);
}

/// RFC 3168 §5: queues that manage their delay mark instead of dropping where sender and receiver know ECN, and
/// as much is delivered.
#[test]
fn managed_queues_mark_packets_of_senders_that_know_ecn() {
    let (target, ms) = (5 * MILLISECOND, MILLISECOND);
    let queues = |ecn| {
        [
            QueueKind::CoDel {
                target,
                interval: 100 * ms,
                packets: 1000,
                ecn,
            },
            QueueKind::FqCoDel {
                flows: 64,
                quantum: 1514,
                target,
                interval: 100 * ms,
                packets: 1000,
                ecn,
            },
            QueueKind::Pie {
                target: 15 * ms,
                update: 15 * ms,
                packets: 1000,
                ecn,
            },
            QueueKind::Red {
                min: 20_000,
                max: 60_000,
                probability: 0.1,
                limit: 2_000_000,
                ecn,
            },
        ]
    };
    let rate = rate(10_000_000);
    let run = |queue: &QueueKind, knows_ecn| {
        let mut flow = bulk(None);
        flow.tcp.ecn = knows_ecn;
        let queue = queue.clone();
        let link = element("link", ElementKind::Link { rate, queue });
        let got = outcome(&Plan {
            duration: 20 * SECOND,
            ..plan(vec![link], vec![flow])
        });
        let flow = &got.flows[0];
        (
            flow.delivered,
            flow.dropped,
            flow.marked,
            got.elements[0].marked,
        )
    };
    for (drops, marks) in queues(false).iter().zip(&queues(true)) {
        let (most, dropped, none, _) = run(drops, true);
        assert!(dropped > 0 && none == 0, "{drops:?}: {dropped} {none}");
        let (delivered, lost, marked, by_queue) = run(marks, true);
        assert!(
            marked > 0 && marked == by_queue,
            "{marks:?}: {marked} {by_queue}"
        );
        assert!(lost * 10 <= dropped, "{marks:?}: {lost} of {dropped}");
        assert!(
            delivered * 100 >= most * 98,
            "{marks:?}: {delivered} {most}"
        );
        // A sender that does not know ECN gets what it got.
        assert_eq!(run(marks, false), run(drops, false), "{marks:?}");
    }
}
