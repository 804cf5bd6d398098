//! What a scheme does in a cell.

use anyhow::{Context, Result};
use tidegate_lab::experiment::Finished;
use tidegate_lab::outcome::FlowOutcome;
use tidegate_lab::plan::{Plan, Traffic};
use tidegate_lab::summary::{jain, percentile};
use tidegate_studies::experiment;

use crate::cells::Cell;

/// The first windows do not count: 10 s.
pub const SETTLED: usize = 40;

/// What a scheme did in a cell.
#[derive(Debug, Clone, Copy, Default)]
pub struct Measures {
    /// Mean rate over the plan's, from 10 s on.
    pub mean: f64,
    /// 99th percentile of the windows of 250 ms from 10 s on, over the plan.
    pub p99: f64,
    /// The first 250 ms, over the plan.
    pub first: f64,
    /// Data packets dropped over data packets sent.
    pub drops: f64,
    /// Jain's index of backlogged senders alike; none if there are fewer than two.
    pub jain: Option<f64>,
}

/// Runs a cell for this number of seconds under each scheme of `kinds`.
///
/// # Errors
/// If a simulation fails.
pub fn measure(cell: Cell, seconds: u64, kinds: &[&str]) -> Result<Vec<Measures>> {
    Ok(measure_plan(cell, seconds, kinds)?.1)
}

/// The same, and the plan, which is the same under each scheme but for the limiter.
///
/// # Errors
/// If a simulation fails.
pub fn measure_plan(cell: Cell, seconds: u64, kinds: &[&str]) -> Result<(Plan, Vec<Measures>)> {
    let (mut plan, mut all) = (None, Vec::new());
    experiment::simulate(
        "burst-control",
        &cell.scenario(seconds, kinds),
        &[],
        None,
        |_, finished| {
            all.push(of(&finished));
            plan = Some(finished.group.plan);
            Ok(())
        },
    )?;
    Ok((plan.context("there is no scheme")?, all))
}

fn of(finished: &Finished) -> Measures {
    let rate = finished.group.limits[0].map_or(1, |rate| rate.bits_per_second()) as f64;
    let windows = finished.outcome.aggregates[0].windows.iter();
    let flows = &finished.outcome.flows;
    let (sent, dropped) = flows.iter().fold((0, 0), |(sent, dropped), flow| {
        (sent + flow.sent_packets, dropped + flow.dropped)
    });
    let got = |flow: &FlowOutcome| flow.windows.iter().skip(SETTLED).sum::<u64>() as f64;
    let got: Vec<f64> = flows.iter().map(got).collect();
    Measures {
        drops: dropped as f64 / sent.max(1) as f64,
        jain: fairness(&finished.group.plan, &got),
        ..Measures::of_windows(windows.map(|&bytes| bytes as f64 * 32.0 / rate).collect())
    }
}

impl Measures {
    /// Jain's index as a table has it.
    pub fn jain_text(&self) -> String {
        self.jain.map_or("-".into(), |jain| format!("{jain:.3}"))
    }

    /// Those of the throughput of windows of 250 ms, over the plan's rate.
    pub fn of_windows(windows: Vec<f64>) -> Self {
        let mut settled = windows[SETTLED.min(windows.len())..].to_vec();
        let mean = settled.iter().sum::<f64>() / settled.len().max(1) as f64;
        settled.sort_unstable_by(f64::total_cmp);
        Self {
            mean,
            p99: percentile(&settled, 99.0).unwrap_or(0.0),
            first: windows.first().copied().unwrap_or(0.0),
            ..Self::default()
        }
    }
}

/// The least index of any class, where flows got these bytes.
pub fn fairness(plan: &Plan, got: &[f64]) -> Option<f64> {
    let classes = 0..3;
    let index = |class| {
        let shares: Vec<f64> = (plan.flows.iter().zip(got))
            .filter(|(flow, _)| flow.class.unwrap_or(0) == class)
            .filter(|(flow, _)| matches!(flow.traffic, Traffic::Bulk { .. }))
            .map(|(_, &got)| got)
            .collect();
        jain(&shares)
    };
    classes.filter_map(index).min_by(f64::total_cmp)
}

/// The throughput in Mbit/s of four streams with windows of 64 kB through 20 Mbit/s, with Reno and with
/// CUBIC, as in `policer-or-shaper`.
///
/// # Errors
/// If a simulation fails.
pub fn streams(kind: &str) -> Result<[f64; 2]> {
    let mut sums = [(0.0, 0u32); 2];
    experiment::simulate(
        "policer-or-shaper/tcp.toml",
        include_str!("../policer-or-shaper/tcp.toml"),
        &[format!("gate.kind={kind}")],
        None,
        |_, finished| {
            let time = finished.group.plan.duration as f64;
            let flows = &finished.outcome.flows;
            let bytes: u64 = flows.iter().map(|flow| flow.delivered).sum();
            let (sum, count) = &mut sums[finished.point];
            *sum += bytes as f64 * 8e3 / time;
            *count += 1;
            Ok(())
        },
    )?;
    Ok(sums.map(|(sum, count)| sum / f64::from(count.max(1))))
}

/// The throughput, in percent of the rate, while one flow of the first priority is active alone, as in
/// `bcpqp-figure6`: that flow's, and that of the flow behind it.
///
/// # Errors
/// If the simulation fails.
pub fn alone(kind: &str, control: &str) -> Result<[f64; 2]> {
    let mut settings = vec![format!("gate.kind={kind}")];
    for flow in ["p1-weight-3", "p1-weight-2", "p1-weight-1", "p2"] {
        settings.push(format!("{flow}.cc={control}"));
    }
    let text = include_str!("../bcpqp-figure6/nested.toml");
    let mut found = [0.0; 2];
    experiment::simulate(
        "bcpqp-figure6/nested.toml",
        text,
        &settings,
        None,
        |_, f| {
            let outcome = &f.outcome;
            let rate = f.group.limits[0].map_or(1, |rate| rate.bits_per_second()) as f64;
            let (behind, first): (Vec<_>, Vec<_>) = (f.group.plan.flows.iter().zip(&outcome.flows))
                .partition(|(plan, _)| plan.class == Some(3));
            let mut windows = 0;
            let mut sums = [0; 2];
            for at in 0..outcome.aggregates[0].windows.len() {
                let (from, to) = (at as u64 * outcome.window, (at as u64 + 1) * outcome.window);
                let mut active = first
                    .iter()
                    .filter(|(_, flow)| flow.end > from && flow.start < to);
                let (Some((_, one)), None) = (active.next(), active.next()) else {
                    continue;
                };
                if one.start <= from && one.end >= to {
                    windows += 1;
                    sums[0] += one.windows[at];
                    sums[1] += behind.iter().map(|(_, flow)| flow.windows[at]).sum::<u64>();
                }
            }
            let time = (windows * outcome.window) as f64;
            found = sums.map(|bytes| bytes as f64 * 8e11 / time / rate);
            Ok(())
        },
    )?;
    Ok(found)
}
