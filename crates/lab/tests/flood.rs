//! A sender that answers to drops beside a flood of many flows that do not, with many draws of the flows' hashes.

#![allow(clippy::unwrap_used)]

use tidegate_lab::experiment::{ExperimentError, Settings, run};
use tidegate_lab::scenario::Scenario;

/// Draws of the hashes for each case.
const DRAWS: usize = 40;

/// The parts of the plan that a connection of CUBIC gets from the 12th second to the 20th, one for each draw. Beside it, 256
/// flows of UDP to the same host send three times the plan.
fn parts(policy: &str, rtt: &str, [flood, tcp]: [&str; 2]) -> Vec<f64> {
    let text = format!(
        "duration = \"20s\"
        window = \"1s\"
        [[element]]
        name = \"gate\"
        kind = \"bc-pqp\"
        rate = \"20mbit\"
        policy = {policy}
        [[flow]]
        name = \"flood\"
        count = 256
        rtt = \"10ms\"
        path = [\"gate\"]
        client = \"10.128.0.1\"
        start = \"{flood}\"
        traffic = {{ kind = \"udp\", rate = \"234kbit\" }}
        [[flow]]
        name = \"tcp\"
        rtt = \"{rtt}\"
        path = [\"gate\"]
        client = \"10.128.0.1\"
        start = \"{tcp}\"
        [sweep]
        seeds = {DRAWS}"
    );
    let scenario = Scenario::parse(text.as_str()).unwrap();
    let settings = Settings {
        jobs: 1,
        ..Settings::default()
    };
    let mut parts = Vec::new();
    run::<ExperimentError>(&scenario, settings, |finished| {
        let mut flows = finished.outcome.flows.iter();
        let tcp = flows.find(|flow| flow.name.starts_with("tcp")).unwrap();
        let bytes: u64 = tcp.windows[12..20].iter().sum();
        parts.push(bytes as f64 / (8.0 * 20e6 / 8.0));
        Ok(())
    })
    .unwrap();
    parts.sort_by(f64::total_cmp);
    parts
}

#[test]
fn a_flood_leaves_a_connection_of_its_host_a_twentieth_in_each_draw() {
    for policy in ["{ fair = 16 }", "{ hosts = [4, 4] }"] {
        for rtt in ["10ms", "100ms"] {
            for starts in [["0s..50ms", "2s"], ["2s..2050ms", "0s"]] {
                let parts = parts(policy, rtt, starts);
                println!(
                    "{policy}, {rtt}, {starts:?}: least {:.3}, median {:.3}",
                    parts[0],
                    parts[DRAWS / 2]
                );
                assert!(parts[0] >= 0.05, "{policy}, {rtt}, {starts:?}: {parts:.3?}");
            }
        }
    }
}
