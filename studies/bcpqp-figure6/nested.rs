//! Weighted shares within a priority: figure 6d.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use tidegate_lab::experiment::Finished;
use tidegate_lab::summary::Throughput;
use tidegate_plot::{Axis, Plot};
use tidegate_studies::experiment::{Report, simulate};

const SCENARIO: &str = include_str!("nested.toml");
const RATE: f64 = 50e6;
/// By class; the last is of the lower priority.
const CLASSES: [&str; 4] = ["p1 weight 3", "p1 weight 2", "p1 weight 1", "p2"];
const CCS: [&str; 4] = ["cubic", "reno", "bbr", "vegas"];

pub fn run(report: &mut Report) -> Result<()> {
    let text = &mut report.table;
    writeln!(
        text,
        "6d: percent of the rate in windows with the same flows of p1 active throughout; by weight"
    )?;
    for cc in CCS {
        let mut settings = vec![];
        for flow in ["p1-weight-3", "p1-weight-2", "p1-weight-1", "p2"] {
            settings.push(format!("{flow}.cc={cc}"));
        }
        let name = "bcpqp-figure6/nested.toml";
        simulate(name, SCENARIO, &settings, None, |_, finished| {
            write!(text, "{cc:<7}{:<17}{:>8}", "weights active", "windows")?;
            for class in CLASSES {
                write!(text, "{class:>13}")?;
            }
            writeln!(text, "{:>10}", "by weight")?;
            for (active, windows) in cases(&finished) {
                let of_class = |class| {
                    let bytes: u64 = windows.iter().map(|&at| bytes(&finished, class, at)).sum();
                    let time = finished.outcome.window * windows.len() as u64;
                    Throughput { bytes, time }.bits_per_second() * 100.0 / RATE
                };
                let weights: Vec<String> = (0..3)
                    .filter(|class| active & 1 << class != 0)
                    .map(|class| (3 - class).to_string())
                    .collect();
                let weights = if weights.is_empty() {
                    "none".to_owned()
                } else {
                    weights.join(" ")
                };
                write!(text, "{:<7}{weights:<17}{:>8}", "", windows.len())?;
                for class in 0..4 {
                    write!(text, "{:>13.1}", of_class(class))?;
                }
                writeln!(text, "   {}", fair(active))?;
            }
            if cc == CCS[0] {
                report.pictures.push(("figure-6d.svg", plot(&finished)?));
            }
            Ok(())
        })?;
    }
    text.push('\n');
    Ok(())
}

/// What weights would give.
fn fair(active: u8) -> String {
    let total: u32 = (0..3).filter(|i| active & 1 << i != 0).map(|i| 3 - i).sum();
    let shares = (0..4u32).map(|class| {
        let share = match class {
            3 if active == 0 => 100.0,
            0..3 if active & 1 << class != 0 => f64::from(3 - class) * 100.0 / f64::from(total),
            _ => 0.0,
        };
        format!("{share:.1}")
    });
    shares.collect::<Vec<_>>().join(" ")
}

/// Windows by the classes of p1 that are active all through them, as bits; others are left out.
fn cases(finished: &Finished) -> BTreeMap<u8, Vec<usize>> {
    let outcome = &finished.outcome;
    let mut cases: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
    'window: for window in 0..outcome.aggregates[0].windows.len() {
        let (from, to) = (
            window as u64 * outcome.window,
            (window as u64 + 1) * outcome.window,
        );
        let mut active = 0;
        for (plan, flow) in finished.group.plan.flows.iter().zip(&outcome.flows) {
            let class = plan.class.unwrap_or(0);
            if class == 3 || flow.end <= from || flow.start >= to {
                continue;
            }
            if flow.start > from || flow.end < to {
                continue 'window;
            }
            active |= 1 << class;
        }
        cases.entry(active).or_default().push(window);
    }
    cases
}

fn bytes(finished: &Finished, class: u16, window: usize) -> u64 {
    let flows = finished
        .group
        .plan
        .flows
        .iter()
        .zip(&finished.outcome.flows);
    flows
        .filter(|(plan, _)| plan.class.unwrap_or(0) == class)
        .filter_map(|(_, flow)| flow.windows.get(window))
        .sum()
}

fn plot(finished: &Finished) -> Result<String> {
    let mut plot = Plot::new(
        "Weights within a priority, BC-PQP (6d)",
        Axis::new("s"),
        Axis::new("Mbit/s"),
    );
    let window = finished.outcome.window;
    for (class, name) in CLASSES.iter().enumerate() {
        let point = |at| {
            let bytes = bytes(finished, class as u16, at);
            (
                at as f64 * window as f64 / 1e9,
                Throughput {
                    bytes,
                    time: window,
                }
                .bits_per_second()
                    / 1e6,
            )
        };
        let windows = 0..finished.outcome.aggregates[0].windows.len();
        plot.line(name, windows.map(point).collect::<Vec<_>>());
    }
    Ok(plot.svg()?)
}
