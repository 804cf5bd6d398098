use tidegate_limiter::Rate;

use super::*;
use crate::outcome::{AggregateOutcome, Completion, Distribution, FlowOutcome};
use crate::scenario::{Group, Run, Scenario};
use crate::{MILLISECOND, SECOND};

/// The one simulation of a scenario.
fn group(text: &str) -> Group {
    let run = Run {
        point: 0,
        seed: 1,
        taps: false,
    };
    let scenario = Scenario::parse(text).expect("sound");
    scenario.groups(run).expect("sound").remove(0)
}

#[test]
fn jain_by_hand() {
    assert_eq!(jain(&[1.0, 1.0, 1.0]), Some(1.0));
    assert_eq!(jain(&[3.0, 0.0, 0.0]), Some(1.0 / 3.0));
    // (1 + 3)² / (2 · (1 + 9))
    assert_eq!(jain(&[1.0, 3.0]), Some(0.8));
    assert_eq!(jain(&[1.0]), None);
    assert_eq!(jain(&[0.0, 0.0]), None);
}

#[test]
fn percentiles_by_nearest_rank() {
    let values = [15, 20, 35, 40, 50];
    assert_eq!(percentile(&values, 0.0), Some(15));
    assert_eq!(percentile(&values, 30.0), Some(20));
    assert_eq!(percentile(&values, 40.0), Some(20));
    assert_eq!(percentile(&values, 50.0), Some(35));
    assert_eq!(percentile(&values, 100.0), Some(50));
    assert_eq!(percentile::<u64>(&[], 50.0), None);
}

/// Two bulk flows and one with pauses behind 1 Mbit/s. First half of the rate is used, then all of
/// it.
fn finished() -> Finished {
    let text = r#"
        duration = "1s"
        [[element]]
        name = "gate"
        kind = "policer"
        rate = "1mbit"
        [[flow]]
        name = "bulk"
        count = 2
        path = ["gate"]
        rtt = "10ms"
        [[flow]]
        name = "short"
        path = ["gate"]
        rtt = "30ms"
        traffic = "on-off"
    "#;
    let group = group(text);
    assert_eq!(group.limits, [Some(Rate::from_bits_per_second(1_000_000))]);
    let rtt = |p50, p95| Distribution {
        count: 1,
        p50,
        p95,
        ..Distribution::default()
    };
    let flow = |start, windows: [u64; 4], rtt| FlowOutcome {
        start,
        end: SECOND,
        sent_packets: 100,
        dropped: 5,
        rtt,
        windows: windows.to_vec(),
        ..FlowOutcome::default()
    };
    let mut short = flow(0, [9_999, 0, 0, 6_250], rtt(3, 30));
    // Busy in the last window, but only for a part of the second one.
    short.completions = [(260, 490), (750, 1000)]
        .map(|(start, end)| Completion {
            start: start * MILLISECOND,
            end: end * MILLISECOND,
            bytes: 1,
        })
        .to_vec();
    let outcome = Outcome {
        packets: 300,
        window: 250 * MILLISECOND,
        flows: vec![
            flow(100, [9_999, 15_625, 12_500, 12_500], rtt(1, 10)),
            flow(240 * MILLISECOND, [0, 0, 12_500, 12_500], rtt(2, 20)),
            short,
        ],
        aggregates: vec![AggregateOutcome {
            name: "all".into(),
            windows: vec![19_998, 15_625, 25_000, 31_250],
        }],
        elements: Vec::new(),
    };
    Finished {
        point: 0,
        seed: 1,
        group,
        outcome,
        captures: Vec::new(),
    }
}

#[test]
fn a_summary_by_hand() {
    let mut finished = finished();
    let plan = finished.group.plan.clone();
    // The third flow sends only in the last window: 12.5, 12.5 and 6.25 kB.
    let last = 31.25f64.powi(2) / (3.0 * (2.0 * 12.5f64.powi(2) + 6.25f64.powi(2)));
    assert_eq!(
        fairness(&plan, &finished.outcome, 0),
        [(1, 0.5), (2, 1.0), (3, last)].map(|(window, index)| Fairness { window, index })
    );
    // All flows began later than the first window did.
    finished.outcome.flows[2].start = 200;
    assert_eq!(windows_of_aggregate(&finished.outcome, 0), 1..4);
    assert_eq!(normalised(&finished, 0), [0.5, 0.8, 1.0]);

    let mut collector = Collector::default();
    collector.add(&finished);
    let summary = collector.finish();
    let throughput = (15_625.0 + 25_000.0 + 31_250.0) * 8.0 / 0.75;
    assert_eq!(summary.throughput, Some(throughput));
    assert!((summary.normalised_mean.expect("a limit") - 2.3 / 3.0).abs() < 1e-12);
    assert_eq!(summary.normalised_p99, Some(1.0));
    assert_eq!(summary.drop_rate, Some(0.05));
    assert_eq!(summary.jain, Some(last));
    assert_eq!((summary.rtt_p50, summary.rtt_p95), (Some(2), Some(20)));
    assert_eq!(summary.completions, 2);
    assert_eq!(summary.completion_p50, Some(230 * MILLISECOND));
    assert_eq!(summary.completion_p95, Some(250 * MILLISECOND));
}

#[test]
fn the_last_window_ends_with_the_simulation() {
    let mut plan = finished().group.plan;
    (plan.window, plan.duration) = (400, 1_000);
    assert_eq!(
        [0, 1, 2, 3].map(|window| width(&plan, window)),
        [400, 400, 200, 0]
    );
}

#[test]
fn a_transfer_without_an_end_is_not_silence() {
    let mut finished = finished();
    let short = &mut finished.outcome.flows[2];
    short.completions.truncate(1);
    // It does not send during the whole second window, and is starved in the third.
    (short.open, short.windows) = (Some(490 * MILLISECOND), vec![9_999, 0, 0, 6_250]);
    let plan = finished.group.plan.clone();
    let last = 31.25f64.powi(2) / (3.0 * (2.0 * 12.5f64.powi(2) + 6.25f64.powi(2)));
    assert_eq!(
        fairness(&plan, &finished.outcome, 0),
        [(1, 0.5), (2, 2.0 / 3.0), (3, last)].map(|(window, index)| Fairness { window, index })
    );
}

/// Median of Jain's index over the windows of a scenario.
fn jain_of(text: &str) -> Option<f64> {
    let group = group(text);
    let outcome = crate::run(&group.plan, &mut |_| true).expect("runs");
    let mut collector = Collector::default();
    collector.add(&Finished {
        point: 0,
        seed: 1,
        group,
        outcome,
        captures: Vec::new(),
    });
    collector.finish().jain
}

/// A flow that gets all that it wants is no sign of unfairness, and one that does not is.
#[test]
fn flows_count_while_they_want_more_than_they_get() {
    let beside = |kind: &str, downloads: u32, other: &str| {
        jain_of(&format!(
            r#"
            duration = "20s"
            [[element]]
            name = "gate"
            kind = "{kind}"
            rate = "20mbit"
            policy = {{ fair = 16 }}
            [[flow]]
            name = "bulk"
            count = {downloads}
            queue = 0
            rtt = "20ms"
            path = ["gate"]
            [[flow]]
            name = "other"
            queue = 1
            rtt = "20ms"
            path = ["gate"]
            traffic = {other}
            "#
        ))
    };
    for kind in ["shaper", "bc-pqp"] {
        // A download alone has nobody to share with.
        let call = r#"{ kind = "udp", rate = "1mbit" }"#;
        assert_eq!(beside(kind, 1, call), None, "{kind}");
        let flood = r#"{ kind = "udp", rate = "40mbit" }"#;
        let fair = beside(kind, 1, flood).expect("two flows");
        assert!(fair > 0.98, "{kind}: {fair}");
        for pace in ["application-64k", "max-pacing-rate", "trickle"] {
            let video = format!(
                r#"{{ kind = "stream", rate = "1mbit", length = "60s", startup = "2s", pace = "{pace}" }}"#
            );
            let index = beside(kind, 1, &video);
            assert!(
                index.is_none_or(|index| index > 0.9),
                "{kind}, {pace}: {index:?}"
            );
        }
    }
}

/// A starved flow counts until its end, also if its traffic has no end.
#[test]
fn starved_transfers_are_as_unfair_as_starved_downloads() {
    let jain = |traffic: &str| {
        let text = r#"
            duration = "10s"
            [[element]]
            name = "gate"
            kind = "policer"
            rate = "5mbit"
            [[flow]]
            name = "f"
            count = 8
            cc = ["bbr", "bbr", "reno", "reno", "reno", "reno", "reno", "reno"]
            rtt = "10ms..50ms"
            path = ["gate"]
        "#;
        jain_of(&format!("{text}traffic = {traffic}")).expect("several")
    };
    let bulk = jain("\"bulk\"");
    assert!(bulk < 0.5, "{bulk}");
    for traffic in [
        r#"{ kind = "video", chunk = "20MB" }"#,
        r#"{ kind = "on-off", mean = "20MB", max = "40MB" }"#,
        r#"{ kind = "stream", rate = "10mbit", length = "20s", pace = "none" }"#,
    ] {
        let other = jain(traffic);
        assert!(
            (other - bulk).abs() < 0.05,
            "{traffic}: {other}, bulk {bulk}"
        );
    }
}

#[test]
fn nothing_comes_to_nothing() {
    assert_eq!(Collector::default().finish(), Summary::default());
}
