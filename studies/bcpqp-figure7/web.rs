//! Page load times: figure 7b.

use std::fmt::Write as _;

use anyhow::Result;
use tidegate_lab::summary::percentile;
use tidegate_plot::{Axis, Plot};
use tidegate_studies::experiment::{Report, simulate};

use super::LIMITERS;

const SCENARIO: &str = include_str!("web.toml");
const PERCENTILES: [f64; 3] = [10.0, 50.0, 90.0];
const BC_PQP: usize = 3;

pub fn run(report: &mut Report) -> Result<()> {
    let text = &mut report.table;
    writeln!(
        text,
        "7b: page load times of 50 pages beside a download, 3 Mbit/s, 4 : 1, in seconds"
    )?;
    writeln!(
        text,
        "{:<10}{:<10}{:<14}{:>7}{:>8}{:>8}{:>8}{:>24}",
        "download", "HTTP", "limiter", "pages", "10 %", "50 %", "90 %", "over BC-PQP"
    )?;
    // Sorted times by limiter, for each other value of the sweep in its order.
    let mut cases: Vec<(String, String, Vec<Vec<f64>>)> = Vec::new();
    simulate(
        "bcpqp-figure7/web.toml",
        SCENARIO,
        &[],
        None,
        |scenario, finished| {
            let value = |key: &str| {
                let parameters = scenario.parameters(finished.point);
                let parameter = parameters.into_iter().find(|one| one.key.ends_with(key));
                parameter.map_or(String::new(), |one| one.value)
            };
            let visits = finished.outcome.flows[0].completions.iter();
            let mut times: Vec<f64> = visits
                .map(|one| (one.end - one.start) as f64 / 1e9)
                .collect();
            times.sort_unstable_by(f64::total_cmp);
            if finished.point % LIMITERS.len() == 0 {
                cases.push((value("cc"), value("http"), Vec::new()));
            }
            if let Some((_, _, limiters)) = cases.last_mut() {
                limiters.push(times);
            }
            Ok(())
        },
    )?;
    for (cc, http, limiters) in &cases {
        for (times, limiter) in limiters.iter().zip(LIMITERS) {
            write!(text, "{cc:<10}{http:<10}{limiter:<14}{:>7}", times.len())?;
            let of = |times: &[f64]| {
                PERCENTILES.map(|percent| percentile(times, percent).unwrap_or(f64::NAN))
            };
            let ours = of(times);
            for time in ours {
                write!(text, "{time:>8.2}")?;
            }
            let ratios: Vec<String> = (ours.iter().zip(of(&limiters[BC_PQP])))
                .map(|(time, other)| format!("{:.2}", time / other))
                .collect();
            writeln!(text, "{:>24}", ratios.join("  "))?;
        }
    }
    if let Some((_, _, limiters)) = cases.first() {
        let mut plot =
            Plot::of_distributions("Page load times beside a download", Axis::new("s").log());
        for (times, limiter) in limiters.iter().zip(LIMITERS) {
            plot.distribution(limiter, times.iter().copied());
        }
        report.pictures.push(("figure-7b.svg", plot.svg()?));
    }
    Ok(())
}
