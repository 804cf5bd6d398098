//! A congestion control of your own beside CUBIC, from a scenario to a plot.
//! `docs/how-to/try-your-own-algorithm.md` explains it line by line.
//!
//! ```sh
//! cargo run --release -p tidegate-example
//! ```

mod gentle;

use std::error::Error;
use std::fs;

use gentle::Gentle;
use tidegate_lab::outcome::Outcome;
use tidegate_lab::plan::Plan;
use tidegate_lab::scenario::{Run, Scenario};
use tidegate_lab::summary::Throughput;
use tidegate_lab::tcp::Algorithm;
use tidegate_lab::tcp::cc::CustomAlgorithm;
use tidegate_plot::{Axis, Plot};

/// Two downloads over a link. The second one gets the new algorithm.
const SCENARIO: &str = r#"
duration = "30s"
connections = "20ms"
[[element]]
name = "link"
kind = "link"
rate = "20mbit"
[[flow]]
name = "download"
count = 2
rtt = "40ms"
path = ["link"]
"#;

/// The plan of the scenario, with the new algorithm in it.
fn plan() -> Result<Plan, Box<dyn Error>> {
    let run = Run {
        point: 0,
        seed: 1,
        taps: false,
    };
    let mut plan = Scenario::parse(SCENARIO)?.groups(run)?.remove(0).plan;
    plan.flows[1].tcp.algorithm = Algorithm::Custom(CustomAlgorithm {
        name: "gentle",
        make: |_| Box::new(Gentle::default()),
    });
    Ok(plan)
}

/// The goodput of a flow in Mbit/s.
fn goodput(outcome: &Outcome, flow: usize) -> f64 {
    let flow = &outcome.flows[flow];
    let goodput = Throughput {
        bytes: flow.delivered,
        time: flow.end - flow.start,
    };
    goodput.bits_per_second() / 1e6
}

fn main() -> Result<(), Box<dyn Error>> {
    let plan = plan()?;
    let outcome = tidegate_lab::run(&plan, &mut |_| true)?;
    let (x, y) = (
        Axis::new("time [s]"),
        Axis::new("congestion window [segments]").from(0.0),
    );
    let mut plot = Plot::new("A new algorithm beside CUBIC", x, y);
    for (index, flow) in plan.flows.iter().enumerate() {
        let name = flow.tcp.algorithm.name();
        println!("{name:6} {:5.2} Mbit/s", goodput(&outcome, index));
        let states = outcome.flows[index].states.iter();
        plot.steps(
            name,
            states.map(|state| (state.at as f64 / 1e9, f64::from(state.snapshot.cwnd))),
        );
    }
    fs::write("windows.svg", plot.svg()?)?;
    println!("wrote windows.svg");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_flows_get_something_of_the_link() {
        let plan = plan().expect("a plan");
        let outcome = tidegate_lab::run(&plan, &mut |_| true).expect("an outcome");
        let (cubic, gentle) = (goodput(&outcome, 0), goodput(&outcome, 1));
        assert!(cubic > 2.0 && gentle > 2.0, "{cubic} {gentle}");
        assert!((18.0..19.5).contains(&(cubic + gentle)), "{cubic} {gentle}");
        let phases = outcome.flows[1]
            .states
            .iter()
            .map(|state| state.snapshot.phase);
        assert!(phases.flatten().any(|phase| phase == "avoidance"));
    }
}
