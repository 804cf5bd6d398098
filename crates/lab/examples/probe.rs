//! Sends a train of packets through the elements of a plan, at twice the rate of a policer, to show
//! how its bucket runs empty.

use std::error::Error;

use tidegate_lab::MILLISECOND;
use tidegate_lab::path::{Entering, Path};
use tidegate_lab::scenario::{Run, Scenario};

const SCENARIO: &str = r#"
duration = "1s"
[[element]]
name = "gate"
kind = "policer"
rate = "12mbit"
burst = "15kB"
[[flow]]
name = "probe"
rtt = "10ms"
path = ["gate"]
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let scenario = Scenario::parse(SCENARIO)?;
    let plan = scenario
        .groups(Run {
            point: 0,
            seed: 1,
            taps: false,
        })?
        .remove(0)
        .plan;
    let mut path = Path::new(&plan, |_| None)?;
    let packet = [0; 1500];
    for number in 0..40 {
        // 1500 bytes each half millisecond are 24 Mbit/s.
        let at = number * MILLISECOND / 2;
        let entering = Entering {
            flow: 0,
            forward: true,
            length: 1500,
            payload: 1460,
            hash: path.hash(0),
            dscp: 0,
            key: None,
        };
        path.enter(at, entering, &packet);
    }
    while let Some(leaving) = path.leave(1000 * MILLISECOND) {
        println!("{:7.3} ms: a packet leaves", leaving.due as f64 / 1e6);
    }
    let gate = &path.counts(&plan)[0];
    println!(
        "{} packets came, {} were dropped",
        gate.packets, gate.dropped
    );
    Ok(())
}
