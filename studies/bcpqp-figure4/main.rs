//! Rate enforcement of BC-PQP and its baselines: figure 4 of \[BCPQP\].

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use tidegate_lab::plan::Traffic;
use tidegate_lab::summary::{normalised, percentile};
use tidegate_plot::{Axis, Bars, Plot};
use tidegate_studies::bcpqp::{RATES, Scheme, Speed, run};
use tidegate_studies::experiment::{self, Report};

const SCHEMES: [Scheme; 10] = [
    Scheme::Shaper,
    Scheme::Policer,
    Scheme::PolicerPlus,
    Scheme::FairPolicer,
    Scheme::Pqp,
    Scheme::BcPqp,
    Scheme::BcPqp200,
    Scheme::BcPqpBucket,
    Scheme::PolicerPlusScript,
    Scheme::FairPolicerScript,
];

/// What a scheme did at a rate.
#[derive(Default)]
struct Found {
    /// Throughput in windows with any, over the rate, in order.
    windows: Vec<f64>,
    /// The same of aggregates with backlogged flows only, all windows from 2 s on.
    steady: Vec<f64>,
    sent: u64,
    dropped: u64,
}

impl Found {
    fn drop_percent(&self) -> f64 {
        self.dropped as f64 * 100.0 / self.sent.max(1) as f64
    }

    fn percentile(&self, percent: f64) -> f64 {
        percentile(&self.windows, percent).unwrap_or(0.0)
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn main() -> ExitCode {
    experiment::main("bcpqp-figure4", || {
        let mut found: Vec<Vec<Found>> = Vec::new();
        for scheme in SCHEMES {
            let of_scheme: Result<Vec<Found>> =
                RATES.iter().map(|&rate| one(scheme, rate)).collect();
            found.push(of_scheme?);
        }
        Ok(Report {
            table: table(&found)?,
            pictures: pictures(&found)?,
        })
    })
}

fn one(scheme: Scheme, rate: u64) -> Result<Found> {
    let mut found = Found::default();
    let mut speed = Speed::default();
    run(scheme, rate, &[], &mut |finished| {
        speed.count(&finished);
        let windows = normalised(&finished, 0);
        let flows = &finished.group.plan.flows;
        if flows
            .iter()
            .all(|flow| matches!(flow.traffic, Traffic::Bulk { .. }))
        {
            // Counted from the first start, at most 1 s.
            found.steady.extend(windows.iter().skip(8));
        }
        found
            .windows
            .extend(windows.iter().filter(|&&share| share > 0.0));
        for flow in &finished.outcome.flows {
            found.sent += flow.sent_packets;
            found.dropped += flow.dropped;
        }
        Ok(())
    })?;
    speed.report(&format!(
        "{} at {} Mbit/s",
        scheme.name(),
        rate as f64 / 1e3
    ));
    found.windows.sort_unstable_by(f64::total_cmp);
    Ok(found)
}

/// A table by scheme and rate.
fn by_rate(title: &str, found: &[Vec<Found>], value: impl Fn(usize, &Found) -> f64) -> String {
    let mut text = format!("{title:<38}");
    for rate in RATES {
        let _ = write!(text, "{:>8}", rate as f64 / 1e3);
    }
    text.push('\n');
    for (scheme, of_scheme) in SCHEMES.iter().zip(found) {
        let _ = write!(text, "{:<38}", scheme.name());
        for (i, one) in of_scheme.iter().enumerate() {
            let _ = write!(text, "{:>8.3}", value(i, one));
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

/// Windows at all rates, in order.
fn all_rates(of_scheme: &[Found]) -> Found {
    let mut windows: Vec<f64> = of_scheme
        .iter()
        .flat_map(|one| one.windows.clone())
        .collect();
    windows.sort_unstable_by(f64::total_cmp);
    Found {
        windows,
        ..Found::default()
    }
}

fn table(found: &[Vec<Found>]) -> Result<String> {
    let mut text = String::new();
    writeln!(
        text,
        "4a, 4b: aggregate over rate, windows of 250 ms that are not empty, all rates"
    )?;
    let percents = [1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0, 99.9, 100.0];
    write!(text, "{:<20}", "percentile")?;
    for percent in percents {
        write!(text, "{percent:>8}")?;
    }
    writeln!(text, "{:>15}", "0.8 to 1.2")?;
    for (scheme, of_scheme) in SCHEMES.iter().zip(found) {
        let all = all_rates(of_scheme);
        write!(text, "{:<20}", scheme.name())?;
        for percent in percents {
            write!(text, "{:>8.3}", all.percentile(percent))?;
        }
        let within = all
            .windows
            .iter()
            .filter(|share| (0.8..=1.2).contains(*share));
        let share = within.count() as f64 / all.windows.len().max(1) as f64;
        writeln!(text, "{:>14.1}%", share * 100.0)?;
    }
    text.push('\n');
    text += &by_rate("4b: 99.9th percentile, at Mbit/s", found, |_, one| {
        one.percentile(99.9)
    });
    text += &by_rate("4b: largest window, at Mbit/s", found, |_, one| {
        one.percentile(100.0)
    });
    text += &by_rate("4c: mean of windows not empty", found, |_, one| {
        mean(&one.windows)
    });
    text += &by_rate("    the same over the shaper's", found, |rate, one| {
        mean(&one.windows) / mean(&found[0][rate].windows)
    });
    text += &by_rate("    backlogged only, from 2 s on", found, |_, one| {
        mean(&one.steady)
    });
    text += &by_rate("4d: data packets dropped, %", found, |_, one| {
        one.drop_percent()
    });
    let ours = &found[5];
    text += &by_rate("drops, times BC-PQP's", found, |rate, one| {
        one.drop_percent() / ours[rate].drop_percent()
    });
    text += &by_rate(
        "99.9th percentile - 1, times BC-PQP's",
        found,
        |rate, one| (one.percentile(99.9) - 1.0) / (ours[rate].percentile(99.9) - 1.0),
    );
    text += &by_rate("largest window - 1, times BC-PQP's", found, |rate, one| {
        (one.percentile(100.0) - 1.0) / (ours[rate].percentile(100.0) - 1.0)
    });
    Ok(text)
}

fn pictures(found: &[Vec<Found>]) -> Result<Vec<(&'static str, String)>> {
    let mut tail = Plot::new(
        "Its tail (4b)",
        Axis::new("aggregate over rate, in windows of 250 ms").from(0.0),
        Axis::new("share of values").from(0.95).to(1.0),
    );
    for (scheme, of_scheme) in SCHEMES.iter().zip(found) {
        let all = all_rates(of_scheme).windows;
        let count = all.len().max(1);
        // Every fortieth value, and all of the highest thousandth.
        let points = all.iter().enumerate().filter_map(|(i, &share)| {
            let at = (i + 1) as f64 / count as f64;
            (at >= 0.95 && (i % 40 == 0 || at > 0.999)).then_some((share, at))
        });
        tail.line(scheme.name(), points);
    }
    let categories = RATES.map(|rate| format!("{} Mbit/s", rate as f64 / 1e3));
    let mut drops = Bars::new(
        "Data packets dropped (4d)",
        Axis::new("%").from(0.0),
        categories,
    );
    for (scheme, of_scheme) in SCHEMES.iter().zip(found) {
        drops.series(
            scheme.name(),
            of_scheme.iter().map(|one| Some(one.drop_percent())),
        );
    }
    Ok(vec![
        ("figure-4b.svg", tail.svg()?),
        ("figure-4d.svg", drops.svg()?),
    ])
}
