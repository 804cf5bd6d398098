//! Fairness among an aggregate's flows: figure 6a.

use std::fmt::Write as _;

use anyhow::Result;
use tidegate_lab::experiment::Finished;
use tidegate_lab::summary::{fairness, jain, percentile};
use tidegate_plot::{Axis, Plot};
use tidegate_studies::bcpqp::{self, RATES, Scheme, Speed};
use tidegate_studies::experiment::Report;

const SCHEMES: [Scheme; 8] = [
    Scheme::Shaper,
    Scheme::Policer,
    Scheme::PolicerPlus,
    Scheme::FairPolicer,
    Scheme::Pqp,
    Scheme::BcPqp,
    Scheme::BcPqp200,
    Scheme::BcPqpBucket,
];

/// Half as long as for figure 4: eight schemes are to take a minute or two.
const DURATION: &str = "duration=10s";

/// Jain's index in windows of 250 ms, of a scheme at a rate.
#[derive(Default)]
struct Found {
    /// Among flows that have something to send all through the window.
    busy: Vec<f64>,
    /// Of these, in aggregates whose flows are not alike.
    mixed: Vec<f64>,
    /// Among flows that received something in the window, as the script that goes with the paper
    /// has it: 1 if there is one.
    receiving: Vec<f64>,
}

pub fn run(report: &mut Report) -> Result<()> {
    let mut found: Vec<Vec<Found>> = Vec::new();
    for scheme in SCHEMES {
        let of_scheme: Result<Vec<Found>> = RATES.iter().map(|&rate| one(scheme, rate)).collect();
        found.push(of_scheme?);
    }
    let text = &mut report.table;
    writeln!(text, "6a: Jain's index in windows of 250 ms, all rates")?;
    let percents = [1.0, 5.0, 10.0, 25.0, 50.0, 75.0];
    write!(text, "{:<20}", "percentile")?;
    for percent in percents {
        write!(text, "{percent:>7}")?;
    }
    writeln!(text, "{:>7}{:>8}{:>10}", "mean", "mixed", "receiving")?;
    let mut plot = Plot::of_distributions(
        "Fairness among flows (6a)",
        Axis::new("Jain's index in windows of 250 ms")
            .from(0.3)
            .to(1.0),
    );
    for (scheme, of_scheme) in SCHEMES.iter().zip(&found) {
        let [busy, mixed, receiving] = [
            |one: &Found| one.busy.clone(),
            |one: &Found| one.mixed.clone(),
            |one: &Found| one.receiving.clone(),
        ]
        .map(|values| sorted(of_scheme.iter().flat_map(values).collect()));
        write!(text, "{:<20}", scheme.name())?;
        for percent in percents {
            write!(text, "{:>7.3}", percentile(&busy, percent).unwrap_or(0.0))?;
        }
        let mean = busy.iter().sum::<f64>() / busy.len().max(1) as f64;
        let median = |values: &[f64]| percentile(values, 50.0).unwrap_or(0.0);
        writeln!(
            text,
            "{mean:>7.3}{:>8.3}{:>10.3}",
            median(&mixed),
            median(&receiving)
        )?;
        let count = busy.len().max(1) as f64;
        let step = busy.len().div_ceil(400).max(1);
        let points = busy.iter().enumerate().step_by(step);
        plot.line(
            scheme.name(),
            points.map(|(i, &index)| (index, (i + 1) as f64 / count)),
        );
    }
    write!(text, "\n{:<20}", "median, at Mbit/s")?;
    for rate in RATES {
        write!(text, "{:>8}", rate as f64 / 1e3)?;
    }
    text.push('\n');
    for (scheme, of_scheme) in SCHEMES.iter().zip(&found) {
        write!(text, "{:<20}", scheme.name())?;
        for one in of_scheme {
            let median = percentile(&sorted(one.busy.clone()), 50.0).unwrap_or(0.0);
            write!(text, "{median:>8.3}")?;
        }
        text.push('\n');
    }
    report.pictures.push(("figure-6a.svg", plot.svg()?));
    Ok(())
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}

fn one(scheme: Scheme, rate: u64) -> Result<Found> {
    let mut found = Found::default();
    let mut speed = Speed::default();
    bcpqp::run(scheme, rate, &[DURATION.to_owned()], &mut |finished| {
        speed.count(&finished);
        let plan = &finished.group.plan;
        let busy = fairness(plan, &finished.outcome, 0);
        let busy = busy.iter().map(|one| one.index);
        if plan.aggregates[0].starts_with("mixed") {
            found.mixed.extend(busy.clone());
        }
        found.busy.extend(busy);
        found.receiving.extend(receiving(&finished));
        Ok(())
    })?;
    speed.report(&format!(
        "{} at {} Mbit/s",
        scheme.name(),
        rate as f64 / 1e3
    ));
    Ok(found)
}

fn receiving(finished: &Finished) -> Vec<f64> {
    let outcome = &finished.outcome;
    let windows = 0..outcome.aggregates[0].windows.len();
    let index = |window: usize| {
        let bytes = outcome.flows.iter().map(|flow| flow.windows.get(window));
        let shares: Vec<f64> = bytes
            .filter_map(|bytes| bytes.filter(|&&bytes| bytes > 0))
            .map(|&bytes| bytes as f64)
            .collect();
        jain(&shares).or((shares.len() == 1).then_some(1.0))
    };
    windows.filter_map(index).collect()
}
