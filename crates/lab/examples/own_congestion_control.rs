//! A new congestion control beside CUBIC: it adds a segment per round trip, and after a loss it keeps four
//! fifths of its window.
//!
//! ```sh
//! cargo run --release --example own_congestion_control
//! ```

use std::error::Error;

use tidegate_lab::Nanos;
use tidegate_lab::scenario::{Run, Scenario};
use tidegate_lab::summary::Throughput;
use tidegate_lab::tcp::Algorithm;
use tidegate_lab::tcp::cc::{AckSample, Controller, CustomAlgorithm, Window};

/// Additive increase; multiplicative decrease to 80 %.
#[derive(Debug, Clone, Default)]
struct Gentle {
    /// Acknowledged segments that have not enlarged the window yet.
    credit: u32,
    before: u32,
}

impl Controller for Gentle {
    fn ssthresh(&mut self, _now: Nanos, window: &Window) -> u32 {
        self.before = window.cwnd;
        (window.cwnd * 4 / 5).max(2)
    }

    fn cong_avoid(&mut self, _now: Nanos, sample: &AckSample, window: &mut Window) {
        if !sample.cwnd_limited {
            return;
        }
        if window.in_slow_start() {
            window.cwnd = window.cwnd.saturating_add(sample.acked);
            return;
        }
        self.credit += sample.acked;
        while self.credit >= window.cwnd {
            self.credit -= window.cwnd;
            window.cwnd += 1;
        }
    }

    fn undo(&mut self, window: &Window) -> u32 {
        window.cwnd.max(self.before)
    }
}

const SCENARIO: &str = r#"
duration = "30s"
[[element]]
name = "gate"
kind = "shaper"
rate = "20mbit"
[[flow]]
name = "download"
count = 2
cc = "cubic"
rtt = "40ms"
path = ["gate"]
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let scenario = Scenario::parse(SCENARIO)?;
    let mut plan = scenario
        .groups(Run {
            point: 0,
            seed: 1,
            taps: false,
        })?
        .remove(0)
        .plan;
    plan.flows[1].tcp.algorithm = Algorithm::Custom(CustomAlgorithm {
        name: "gentle",
        make: |_| Box::new(Gentle::default()),
    });
    let outcome = tidegate_lab::run(&plan, &mut |_| true)?;
    for (flow, plan) in outcome.flows.iter().zip(&plan.flows) {
        let goodput = Throughput {
            bytes: flow.delivered,
            time: flow.end - flow.start,
        };
        let (name, mbit) = (plan.tcp.algorithm.name(), goodput.bits_per_second() / 1e6);
        println!("{name:6} {mbit:5.2} Mbit/s");
        assert!(mbit > 2.0, "each flow gets something");
    }
    Ok(())
}
