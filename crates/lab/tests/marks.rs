//! Marks in place of drops with TCP: senders that answer to them lose next to nothing, and who ignores them gains nothing.

#![allow(clippy::unwrap_used)]

use tidegate_lab::experiment::{ExperimentError, Settings, run};
use tidegate_lab::outcome::FlowOutcome;
use tidegate_lab::rows::label;
use tidegate_lab::scenario::Scenario;
use tidegate_lab::summary::jain;

/// The plan of each case, in bits a second.
const RATE: f64 = 20e6;
/// What is measured begins after this many windows of a second.
const SETTLED: usize = 5;

/// The flows of each point of a scenario by its label. The scenario has queues of their own for up to 16 flows.
fn flows(duration: &str, rest: &str) -> Vec<(String, Vec<FlowOutcome>)> {
    let text = format!(
        "duration = \"{duration}\"
        window = \"1s\"
        [[element]]
        name = \"gate\"
        kind = \"bc-pqp\"
        rate = \"20mbit\"
        {rest}"
    );
    let scenario = Scenario::parse(text.as_str()).unwrap();
    let settings = Settings {
        jobs: 1,
        ..Settings::default()
    };
    let mut points = Vec::new();
    run::<ExperimentError>(&scenario, settings, |finished| {
        let name = label(&scenario.parameters(finished.point)).to_string();
        points.push((name, finished.outcome.flows));
        Ok(())
    })
    .unwrap();
    points
}

/// Bytes that a flow got once all had settled.
fn got(flow: &FlowOutcome) -> f64 {
    flow.windows.iter().skip(SETTLED).sum::<u64>() as f64
}

/// After 5 s at most 0.1 % of their packets are dropped, at the rate and with equal shares.
#[test]
fn marks_replace_drops() {
    let rest = "
        [[flow]]
        name = \"f\"
        count = 4
        ecn = true
        queue = \"own\"
        path = [\"gate\"]
        [sweep]
        \"f.cc\" = [\"reno\", \"cubic\", \"dctcp\"]
        \"f.rtt\" = [\"10ms\", \"20ms\", \"50ms\"]
        \"f.count\" = [4, 8]";
    let packets = |flows: &[FlowOutcome]| {
        let sum = |of: fn(&FlowOutcome) -> u64| flows.iter().map(of).sum::<u64>() as f64;
        (sum(|flow| flow.sent_packets), sum(|flow| flow.dropped))
    };
    // The same seed: the first 5 s are the same.
    let begun = flows("5s", rest);
    for ((name, flows), (_, before)) in flows("30s", rest).iter().zip(&begun) {
        let ((sent, dropped), (sent_before, dropped_before)) = (packets(flows), packets(before));
        let drops = (dropped - dropped_before) / (sent - sent_before);
        let got: Vec<f64> = flows.iter().map(got).collect();
        let rate = got.iter().sum::<f64>() * 8.0 / 25.0 / RATE;
        let shares = jain(&got).unwrap();
        println!("{name}: {drops:.4} dropped, rate {rate:.4}, Jain's index {shares:.4}");
        assert!(drops <= 0.001, "{name}: {drops}");
        assert!((0.99..1.01).contains(&rate), "{name}: {rate}");
        assert!(shares >= 0.985, "{name}: {shares}");
    }
}

/// BBR version 1 ignores marks, as in Linux. Beside senders that answer to them it gets its share, as it does without ECN.
#[test]
fn who_ignores_marks_gains_nothing() {
    for rtt in ["10ms", "20ms", "50ms"] {
        let rest = format!(
            "[[flow]]
            name = \"answers\"
            count = 2
            rtt = \"{rtt}\"
            ecn = true
            queue = \"own\"
            path = [\"gate\"]
            [[flow]]
            name = \"ignores\"
            count = 2
            rtt = \"{rtt}\"
            cc = \"bbr\"
            queue = \"own\"
            path = [\"gate\"]
            [sweep]
            \"answers.cc\" = [\"cubic\", \"dctcp\"]
            \"ignores.ecn\" = [false, true]"
        );
        let shares: Vec<_> = flows("30s", &rest)
            .into_iter()
            .map(|(name, flows)| {
                let sum = |of: &str| -> f64 {
                    let flows = flows.iter().filter(|flow| flow.name.starts_with(of));
                    flows.map(got).sum()
                };
                let (answers, ignores) = (sum("answers"), sum("ignores"));
                let share = ignores / (answers + ignores);
                println!("{rtt}, {name}: those that ignore marks got {share:.4}");
                share
            })
            .collect();
        for pair in shares.chunks(2) {
            let (without, with) = (pair[0], pair[1]);
            assert!(with <= 0.51, "{rtt}: {with}");
            assert!(with - without <= 0.01, "{rtt}: {with}, {without} without");
        }
    }
}
