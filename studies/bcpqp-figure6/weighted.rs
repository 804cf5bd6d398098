//! Seven flows of weights 1 to 7 and sizes to match: figures 6b and 6c.

use std::fmt::Write as _;

use anyhow::Result;
use tidegate_lab::experiment::Finished;
use tidegate_lab::summary::Throughput;
use tidegate_plot::{Axis, Plot};
use tidegate_studies::bcpqp::Scheme;
use tidegate_studies::experiment::{Report, simulate};

const SCENARIO: &str = include_str!("weighted.toml");
const SCHEMES: [Scheme; 5] = [
    Scheme::Shaper,
    Scheme::FairPolicer,
    Scheme::FairPolicerScript,
    Scheme::Pqp,
    Scheme::BcPqp,
];
/// What the paper leaves open, the first as drawn: congestion control, and round trips.
const CASES: [(&str, &str); 7] = [
    (r#""cubic""#, "20ms"),
    (r#""cubic""#, "50ms"),
    (r#""reno""#, "20ms"),
    (r#""reno""#, "50ms"),
    (r#""bbr""#, "20ms"),
    (r#""vegas""#, "20ms"),
    (r#"["reno", "cubic", "bbr", "vegas"]"#, "20ms"),
];

pub fn run(report: &mut Report) -> Result<()> {
    let text = &mut report.table;
    writeln!(
        text,
        "6b, 6c: seconds until the flows of weights 1 to 7 are done, 22.4 or more if shared by weight"
    )?;
    writeln!(
        text,
        "{:<20}{:<18}{:>5}{:>7}{:>7}{:>7}{:>7}{:>7}{:>7}{:>7}{:>16}",
        "", "", "", 1, 2, 3, 4, 5, 6, 7, "first to last"
    )?;
    for (cc, rtt) in CASES {
        for scheme in SCHEMES {
            let mut settings = scheme.settings("50mbit".parse()?);
            settings.push(format!("weight.cc={cc}"));
            settings.push(format!("weight.rtt={rtt}"));
            if matches!(scheme, Scheme::FairPolicer | Scheme::FairPolicerScript) {
                settings.push("gate.weights=[1, 2, 3, 4, 5, 6, 7]".to_owned());
            }
            let name = "bcpqp-figure6/weighted.toml";
            simulate(name, SCENARIO, &settings, None, |_, finished| {
                let flows = &finished.outcome.flows;
                let ends: Vec<f64> = flows.iter().map(|flow| flow.end as f64 / 1e9).collect();
                let short = match cc.split('"').count() {
                    3 => cc.trim_matches('"'),
                    _ => "all four",
                };
                write!(text, "{:<20}{short:<18}{rtt:>5}", scheme.name())?;
                for end in &ends {
                    write!(text, "{end:>7.2}")?;
                }
                let first = ends.iter().copied().fold(f64::INFINITY, f64::min);
                let last = ends.iter().copied().fold(0.0, f64::max);
                writeln!(text, "{:>14.1} %", (last - first) * 100.0 / last)?;
                let drawn = (cc, rtt) == CASES[0];
                if let Some((file, title)) = picture(scheme).filter(|_| drawn) {
                    report.pictures.push((file, plot(title, &finished)?));
                }
                Ok(())
            })?;
        }
    }
    text.push('\n');
    Ok(())
}

fn picture(scheme: Scheme) -> Option<(&'static str, &'static str)> {
    match scheme {
        Scheme::FairPolicer => Some(("figure-6b.svg", "FairPolicer with weights (6b)")),
        Scheme::BcPqp => Some(("figure-6c.svg", "BC-PQP with weights (6c)")),
        _ => None,
    }
}

fn plot(title: &str, finished: &Finished) -> Result<String> {
    let outcome = &finished.outcome;
    let mut plot = Plot::new(title, Axis::new("s").to(26.0), Axis::new("Mbit/s").to(80.0));
    let window = outcome.window;
    let line = |bytes: &[u64]| {
        let point = |(i, &bytes): (usize, &u64)| {
            let at = i as f64 * window as f64 / 1e9;
            (
                at,
                Throughput {
                    bytes,
                    time: window,
                }
                .bits_per_second()
                    / 1e6,
            )
        };
        let until = (26_000_000_000 / window) as usize;
        let points = bytes.iter().take(until).enumerate().map(point);
        points.collect::<Vec<_>>()
    };
    for (i, flow) in outcome.flows.iter().enumerate() {
        plot.line(&format!("weight {}", i + 1), line(&flow.windows));
    }
    plot.line("all", line(&outcome.aggregates[0].windows));
    Ok(plot.svg()?)
}
