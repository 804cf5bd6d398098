use super::*;
use crate::tcp::TcpConfig;
use crate::testing::*;

fn complaint(plan: &Plan) -> String {
    check(plan).unwrap_err().to_string()
}

fn sound() -> Plan {
    plan(vec![link("link", 1_000_000, 10)], vec![bulk(None)])
}

#[test]
fn what_cannot_be_run_is_rejected_with_its_name() {
    assert!(check(&sound()).is_ok());
    type Change = fn(&mut Plan);
    let changes: [(Change, &str); 17] = [
        (|plan| plan.duration = 0, "duration"),
        (|plan| plan.window = 0, "window"),
        (|plan| plan.window = 100, "windows"),
        (|plan| plan.sample = Some(0), "sample"),
        (|plan| plan.sample = Some(100), "samples"),
        (
            |plan| plan.aggregates.clear(),
            "flow 'flow': there is no aggregate 0",
        ),
        (|plan| plan.flows[0].back = vec![1], "there is no element 1"),
        (|plan| plan.flows[0].back = vec![0; 1001], "1000"),
        (|plan| plan.flows[0].dscp = 64, "64"),
        (|plan| plan.flows[0].tcp.mss = 0, "segment size"),
        (|plan| plan.flows[0].tcp.receive_window = 1, "window"),
        (
            |plan| plan.elements.push(plan.elements[0].clone()),
            "'link'",
        ),
        (
            |plan| plan.elements[0] = link("slow", 0, 1),
            "element 'slow'",
        ),
        (
            |plan| plan.flows[0].traffic = datagrams(1, 27).traffic,
            "a datagram cannot have",
        ),
        (
            |plan| plan.flows[0].traffic = datagrams(0, 100).traffic,
            "rate",
        ),
        (
            |plan| plan.flows[0].traffic = datagrams(224_000_000_001, 28).traffic,
            "more than once in a nanosecond",
        ),
        (
            |plan| {
                plan.flows[0].delay = 999;
                plan.flows[0].forward.clear();
            },
            "round trip",
        ),
    ];
    for (change, expected) in changes {
        let mut plan = sound();
        change(&mut plan);
        let got = complaint(&plan);
        assert!(
            got.contains(expected),
            "'{got}' does not tell of {expected}"
        );
    }
}

#[test]
fn numbers_that_are_none_are_refused() {
    for probability in [f64::NAN, -0.1, 1.1, f64::INFINITY] {
        let kind = ElementKind::Loss {
            probability,
            burst: 1.0,
        };
        complaint(&plan(vec![element("loss", kind)], vec![]));
    }
    for (mean, shape, max) in [
        (f64::NAN, 1.0, 10.0),
        (5.0, f64::NAN, 10.0),
        (5.0, 0.0, 10.0),
        (5.0, 1.0, f64::INFINITY),
        (10.0, 1.0, 10.0),
        (0.0, 1.0, 10.0),
    ] {
        let traffic = Traffic::OnOff {
            mean,
            shape,
            max,
            pause: 0,
            reconnect: false,
        };
        let flow = FlowPlan {
            tcp: TcpConfig::default(),
            ..flow(traffic)
        };
        complaint(&plan(vec![link("link", 1, 1)], vec![flow]));
    }
}
