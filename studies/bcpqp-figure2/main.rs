//! Prints what [BCPQP §3.5, figure 2] is about: a Reno flow behind phantom queues of several sizes.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Result;
use tidegate_lab::experiment::Finished;
use tidegate_lab::outcome::Outcome;
use tidegate_lab::scenario::Parameter;
use tidegate_lab::summary::{Throughput, percentile};
use tidegate_plot::{Axis, Plot};
use tidegate_studies::experiment::{self, Report};

const RENO: &str = include_str!("reno.toml");
const SIZES: &str = include_str!("sizes.toml");
const BURST: &str = include_str!("burst.toml");

const SECOND: u64 = 1_000_000_000;
/// When the steady state is taken to have begun: also the flow that met the largest queue has come
/// down from slow start by then, as the picture shows.
const STEADY: u64 = 60 * SECOND;
/// Windows in 100 ms, in which rates are counted: the round-trip time of [BCPQP §3.5].
const TENTHS: usize = 10;

fn main() -> ExitCode {
    experiment::main("bcpqp-figure2", run)
}

fn run() -> Result<Report> {
    let mut table = String::new();
    let pictures = sizes(&mut table)?;
    smallest(&mut table)?;
    burst(&mut table)?;
    Ok(Report { table, pictures })
}

/// The table of the sizes, and the pictures.
fn sizes(table: &mut String) -> Result<Vec<(&'static str, String)>> {
    // Up to the steady state once more, to separate its drops from those before.
    let mut early = Vec::new();
    experiment::simulate(
        "reno.toml",
        RENO,
        &["duration=60s".into()],
        None,
        |_, run| {
            early.push(sent_and_dropped(&run.outcome));
            Ok(())
        },
    )?;
    writeln!(
        table,
        "r = 10 Mbit/s, RTT 100 ms; steady state: 60 s to 260 s\n\
         {:<8} {:>7} {:>27} {:>7} {:>9} {:>8} {:>8}",
        "", "rate", "of r over 100 ms", "empty", "burst", "drops", "drops"
    )?;
    writeln!(
        table,
        "{:<8} {:>7} {:>6} {:>6} {:>6} {:>6} {:>7} {:>9} {:>8} {:>8}",
        "B", "of r", "min", "p5", "p95", "max", "of time", "[Mbit/s]", "to 60 s", "steady"
    )?;
    let mut cycle = None;
    let seconds = Axis::new("time [s]").from(0.0).to(40.0);
    let mut rates = Plot::new(
        "Throughput over 100 ms by size of the phantom queue",
        seconds.clone(),
        Axis::new("throughput [Mbit/s]").from(1.0).log(),
    );
    let mut queues = Plot::new(
        "Occupancy of the phantom queue",
        seconds,
        Axis::new("bytes over size").from(0.0),
    );
    experiment::simulate("reno.toml", RENO, &[], None, |scenario, run| {
        let size = last_parameter(scenario.parameters(run.point));
        let outcome = &run.outcome;
        let steady = steady(outcome);
        let mut shares: Vec<f64> = tenths(&outcome.aggregates[0].windows, STEADY)
            .map(|bytes| {
                Throughput {
                    bytes,
                    time: SECOND / 10,
                }
                .bits_per_second()
                    / 1e7
            })
            .collect();
        shares.sort_unstable_by(f64::total_cmp);
        let share = |percent| 100.0 * percentile(&shares, percent).unwrap_or(0.0);
        let (sent, dropped) = sent_and_dropped(outcome);
        let (sent_early, dropped_early) = early[run.point];
        let percent = |part: u64, of: u64| 100.0 * part as f64 / of as f64;
        writeln!(
            table,
            "{size:<8} {:>5.1} % {:>6.0} {:>6.0} {:>6.0} {:>6.0} {:>5.1} % {:>9.1} {:>6.2} % {:>6.2} %",
            steady.rate,
            share(0.0),
            share(5.0),
            share(95.0),
            share(100.0),
            steady.empty,
            burst_of(outcome),
            percent(dropped_early, sent_early),
            percent(dropped - dropped_early, sent - sent_early),
        )?;
        if size == "1000kB" {
            cycle = halving(outcome, 1_000_000);
        }
        if ["125kB", "579kB", "1000kB", "4000kB"].contains(&&*size) {
            let windows = tenths(&outcome.aggregates[0].windows, 0).enumerate();
            let points = windows.take(400).map(|(at, bytes)| {
                (
                    at as f64 / 10.0,
                    Throughput {
                        bytes,
                        time: SECOND / 10,
                    }
                    .bits_per_second()
                        / 1e6,
                )
            });
            rates.line(&size, points);
            let full: f64 = size.trim_end_matches("kB").parse::<f64>()? * 1e3;
            // Every 50 ms.
            let samples = outcome.elements[0].samples.iter().step_by(5);
            let samples = samples.take_while(|sample| sample.at <= 40 * SECOND);
            let points =
                samples.map(|sample| (sample.at as f64 / 1e9, sample.queues[0] as f64 / full));
            queues.line(&size, points);
        }
        Ok(())
    })?;
    write!(table, "\nof r over 100 ms around a halving, B = 1000 kB:")?;
    for share in cycle.into_iter().flatten() {
        write!(table, " {share:.0}")?;
    }
    writeln!(table)?;
    for (name, share) in [("2r/3", 2.0 / 3.0), ("4r/3", 4.0 / 3.0)] {
        rates.dashed(name, [(0.0, 10.0 * share), (40.0, 10.0 * share)]);
    }
    Ok(vec![
        ("throughput.svg", rates.svg()?),
        ("occupancy.svg", queues.svg()?),
    ])
}

/// The smallest sizes that do, by what else is different.
fn smallest(table: &mut String) -> Result<()> {
    // By variant in the order of the scenario: sizes in kB, what they come to.
    let mut variants: BTreeMap<usize, (String, Vec<(u64, Steady)>)> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    experiment::simulate("sizes.toml", SIZES, &[], None, |scenario, run: Finished| {
        let mut parameters = scenario.parameters(run.point);
        let size = last_parameter(parameters.split_off(parameters.len() - 1));
        let named: Vec<String> = parameters
            .iter()
            .map(|Parameter { key, value }| {
                format!("{} {value}", key.rsplit('.').next().unwrap_or(key))
            })
            .collect();
        let name = named.join(", ");
        if order.last() != Some(&name) {
            order.push(name.clone());
        }
        let size = size.trim_end_matches("kB").parse()?;
        let (_, sizes) = variants.entry(order.len()).or_insert((name, Vec::new()));
        sizes.push((size, steady(&run.outcome)));
        Ok(())
    })?;
    writeln!(
        table,
        "\nSmallest B, in steps of 25 kB, from which on the steady state is so\n\
         {:<30} {:>9} {:>9} {:>9} {:>12}",
        "", "1000 kB", "rate 98 %", "rate 99 %", "never empty"
    )?;
    for (name, sizes) in variants.values() {
        let at_paper = sizes.iter().find(|(size, _)| *size == 1000);
        let at_paper = at_paper.map_or(0.0, |(_, steady)| steady.rate);
        let from = |good: &dyn Fn(&Steady) -> bool| {
            let bad = sizes.iter().rposition(|(_, steady)| !good(steady));
            let first = sizes.get(bad.map_or(0, |bad| bad + 1));
            first.map_or("-".to_owned(), |(size, _)| format!("{size} kB"))
        };
        writeln!(
            table,
            "{name:<30} {at_paper:>7.1} % {:>9} {:>9} {:>12}",
            from(&|steady| steady.rate >= 98.0),
            from(&|steady| steady.rate >= 99.0),
            from(&|steady| steady.empty == 0.0),
        )?;
    }
    Ok(())
}

/// The burst of a near flow.
fn burst(table: &mut String) -> Result<()> {
    writeln!(
        table,
        "\nr = 15 Mbit/s, RTT 10 ms: most over 100 ms\n{:<8} {:>12} {:>22}",
        "B", "rate", "Theorem 1 allows"
    )?;
    experiment::simulate("burst.toml", BURST, &[], None, |scenario, run| {
        let size = last_parameter(scenario.parameters(run.point));
        let kilobytes: f64 = size.trim_end_matches("kB").parse()?;
        let allowed = 15.0 + kilobytes * 8.0 / 100.0;
        let rate = burst_of(&run.outcome);
        writeln!(table, "{size:<8} {rate:>5.1} Mbit/s {allowed:>15.1} Mbit/s")?;
        Ok(())
    })
}

/// The value of the key that runs fastest.
fn last_parameter(mut parameters: Vec<Parameter>) -> String {
    parameters.pop().map(|last| last.value).unwrap_or_default()
}

/// Throughput in percent of 10 Mbit/s over each 100 ms from 300 ms before the first time in the
/// steady state that the queue has no space for a packet.
fn halving(outcome: &Outcome, size: u64) -> Option<Vec<f64>> {
    let mut samples = outcome.elements[0].samples.iter();
    let full = samples.find(|sample| sample.at >= STEADY && sample.queues[0] + 1500 >= size)?;
    let windows = tenths(&outcome.aggregates[0].windows, full.at - 3 * SECOND / 10).take(14);
    Some(
        windows
            .map(|bytes| {
                Throughput {
                    bytes,
                    time: SECOND / 10,
                }
                .bits_per_second()
                    / 1e5
            })
            .collect(),
    )
}

/// A flow's steady state.
struct Steady {
    /// Its throughput, in percent of 10 Mbit/s.
    rate: f64,
    /// In how many percent of the samples the queue was empty.
    empty: f64,
}

fn steady(outcome: &Outcome) -> Steady {
    let windows: Vec<u64> = tenths(&outcome.aggregates[0].windows, STEADY).collect();
    let time = windows.len() as u64 * SECOND / 10;
    let samples = outcome.elements[0].samples.iter();
    let samples: Vec<u64> = samples
        .filter(|sample| sample.at >= STEADY)
        .map(|sample| sample.queues[0])
        .collect();
    let empty = samples.iter().filter(|&&bytes| bytes == 0).count();
    Steady {
        rate: Throughput {
            bytes: windows.iter().sum(),
            time,
        }
        .bits_per_second()
            / 1e5,
        empty: 100.0 * empty as f64 / samples.len() as f64,
    }
}

/// Bytes in each 100 ms from a time on.
fn tenths(windows: &[u64], from: u64) -> impl Iterator<Item = u64> + '_ {
    let from = (from / (SECOND / 100)) as usize;
    windows[from..]
        .chunks_exact(TENTHS)
        .map(|ten| ten.iter().sum())
}

/// The most in any 100 ms, to 10 ms, in Mbit/s.
fn burst_of(outcome: &Outcome) -> f64 {
    let windows = outcome.aggregates[0].windows.windows(TENTHS);
    let most = windows.map(|ten| ten.iter().sum()).max().unwrap_or(0);
    Throughput {
        bytes: most,
        time: SECOND / 10,
    }
    .bits_per_second()
        / 1e6
}

fn sent_and_dropped(outcome: &Outcome) -> (u64, u64) {
    let flow = &outcome.flows[0];
    (flow.sent_packets, flow.dropped)
}
