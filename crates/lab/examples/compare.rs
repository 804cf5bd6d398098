//! Runs a scenario file and prints a line for each point of its sweep:
//!
//! ```sh
//! cargo run --release --example compare -- scenario.toml
//! ```

use std::error::Error;

use tidegate_lab::experiment::{self, ExperimentError, Settings};
use tidegate_lab::rows::label;
use tidegate_lab::scenario::{Scenario, Source};
use tidegate_lab::summary::Collector;

/// Three ways to hold the same rate, run if no file is given.
const EXAMPLE: &str = r#"
duration = "10s"
[[element]]
name = "gate"
kind = "policer"
rate = "10mbit"
[[flow]]
name = "download"
count = 4
cc = ["cubic", "bbr"]
rtt = "10ms..60ms"
path = ["gate"]
[sweep]
gate.kind = ["policer", "bc-pqp", "shaper"]
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let scenario = match std::env::args().nth(1) {
        Some(file) => Scenario::parse(Source {
            file: &file,
            text: &std::fs::read_to_string(&file)?,
            settings: &[],
        })?,
        None => Scenario::parse(EXAMPLE)?,
    };
    let mut points: Vec<Collector> = Vec::new();
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let settings = Settings {
        jobs,
        ..Settings::default()
    };
    experiment::run::<ExperimentError>(&scenario, settings, |finished| {
        points.resize_with(points.len().max(finished.point + 1), Collector::default);
        points[finished.point].add(&finished);
        Ok(())
    })?;
    println!("throughput  drops   RTT       point");
    for (point, collector) in points.into_iter().enumerate() {
        let summary = collector.finish();
        println!(
            "{:7.2} M  {:5.1} %  {:6.1} ms  {}",
            summary.throughput.unwrap_or(0.0) / 1e6,
            summary.drop_rate.unwrap_or(0.0) * 100.0,
            summary.rtt_p50.unwrap_or(0) as f64 / 1e6,
            label(&scenario.parameters(point)),
        );
    }
    Ok(())
}
