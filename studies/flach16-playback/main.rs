//! What limiters do to playback: tables 5 and 6 and figure 14 of \[Flach16\], with players of the lab.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Context, Result};
use tidegate_lab::summary::percentile;
use tidegate_plot::{Axis, Plot};
use tidegate_studies::experiment::{self, Report, simulate};

/// Bucket sizes of table 5 in kB, and the paper's rebuffering in seconds.
const TABLE_5: [(u64, f64); 9] = [
    (8, 3.5),
    (16, 2.0),
    (32, 1.5),
    (64, 1.6),
    (128, 1.6),
    (256, 1.6),
    (512, 2.4),
    (1000, 3.1),
    (2000, 3.1),
];
/// Sizes of table 6 in kB, with the paper's join and rebuffer times in seconds: policed, then shaped.
const TABLE_6: [(u64, [f64; 4]); 3] = [
    (8, [14.0, 2.8, 12.0, 1.7]),
    (100, [11.1, 1.6, 13.3, 1.3]),
    (2000, [0.3, 4.2, 12.6, 1.5]),
];
/// Senders, as Linux is and as it was before 4.2, like those of the paper, and round trips.
const ENDS: [(&str, &[&str]); 3] = [
    ("today, 100 ms", &[]),
    ("2015, 100 ms", &OF_2015),
    (
        "2015, 300 ms",
        &[
            OF_2015[0],
            OF_2015[1],
            OF_2015[2],
            "video.rtt=\"280ms..320ms\"",
        ],
    ),
];
const OF_2015: [&str; 3] = [
    "video.recovery=\"slow-start\"",
    "video.rack=false",
    "video.ack-compression=false",
];
const RULES: [&str; 2] = ["throughput", "bola"];

fn main() -> ExitCode {
    experiment::main("flach16-playback", || {
        let mut report = Report {
            table: String::new(),
            pictures: Vec::new(),
        };
        buckets(&mut report.table)?;
        policed_or_shaped(&mut report.table)?;
        round_trips(&mut report)?;
        Ok(report)
    })
}

/// What viewers saw, as means over runs.
struct Seen {
    join: f64,
    rebuffering: f64,
    quality: f64,
}

/// One of these means.
type Of = fn(&Seen) -> f64;

fn watch(limiter: &[String], ends: &[&str], rule: &str) -> Result<Seen> {
    let mut settings = limiter.to_vec();
    settings.extend(ends.iter().copied().map(String::from));
    settings.push(format!("video.traffic.rule={rule}"));
    let mut seen = Seen {
        join: 0.0,
        rebuffering: 0.0,
        quality: 0.0,
    };
    let mut runs = 0.0;
    let scenario = include_str!("video.toml");
    simulate(
        "flach16-playback/video.toml",
        scenario,
        &settings,
        None,
        |_, finished| {
            let adaptive = finished.outcome.flows[0]
                .adaptive
                .as_ref()
                .context("no video")?;
            let viewing = adaptive.viewing;
            seen.join += viewing.join.unwrap_or(viewing.duration) as f64 / 1e9;
            seen.rebuffering += viewing.stalled as f64 / 1e9;
            seen.quality += adaptive.mean_quality().unwrap_or(0.0) / 1e3;
            runs += 1.0;
            Ok(())
        },
    )?;
    for value in [&mut seen.join, &mut seen.rebuffering, &mut seen.quality] {
        *value /= runs;
    }
    Ok(seen)
}

fn policer(kilobytes: u64) -> Vec<String> {
    vec![format!("gate.burst={kilobytes}kB")]
}

/// A shaper without a burst, whose queue has this size.
fn shaper(kilobytes: u64) -> Vec<String> {
    vec![
        "gate.kind=shaper".to_owned(),
        "gate.policy=queue".to_owned(),
        "gate.burst=1514B".to_owned(),
        format!("gate.queue={kilobytes}kB"),
    ]
}

fn buckets(text: &mut String) -> Result<()> {
    writeln!(
        text,
        "table 5: rebuffering of a video of 30 s policed to 0.5 Mbit/s, by the bucket, in seconds; means of 50 runs"
    )?;
    write!(text, "{:<34}", "bucket, kB")?;
    for (kilobytes, _) in TABLE_5 {
        write!(text, "{kilobytes:>7}")?;
    }
    write!(text, "\n{:<26}", "the paper")?;
    for (_, paper) in TABLE_5 {
        write!(text, "{paper:>7.1}")?;
    }
    text.push('\n');
    for rule in RULES {
        for (name, ends) in ENDS {
            let seen = TABLE_5.map(|(kilobytes, _)| watch(&policer(kilobytes), ends, rule));
            let seen: Vec<Seen> = seen.into_iter().collect::<Result<_>>()?;
            let rows: [(&str, Of); 3] = [
                ("", |seen| seen.rebuffering),
                (", join s", |seen| seen.join),
                (", kbit/s", |seen| seen.quality),
            ];
            for (what, value) in rows {
                write!(text, "{:<34}", format!("{rule}, {name}{what}"))?;
                for seen in &seen {
                    match what {
                        ", kbit/s" => write!(text, "{:>7.0}", value(seen))?,
                        _ => write!(text, "{:>7.1}", value(seen))?,
                    }
                }
                text.push('\n');
            }
        }
    }
    text.push('\n');
    Ok(())
}

fn policed_or_shaped(text: &mut String) -> Result<()> {
    writeln!(
        text,
        "table 6: the same, policed or shaped: join and rebuffer times in seconds"
    )?;
    writeln!(
        text,
        "{:<24}{:>22}{:>22}{:>24}",
        "bucket or queue", "policed", "shaped", "rebuffering shaped"
    )?;
    let row = |text: &mut String,
               name: &str,
               kilobytes: u64,
               [join_p, rebuf_p, join_s, rebuf_s]: [f64; 4]| {
        let change = match rebuf_p > 0.0 {
            true => format!("{:+.0} %", (rebuf_s / rebuf_p - 1.0) * 100.0),
            false => "-".to_owned(),
        };
        writeln!(
            text,
            "{name:<16}{kilobytes:>5} kB{join_p:>14.1}{rebuf_p:>8.1}{join_s:>14.1}{rebuf_s:>8.1}{change:>24}"
        )
    };
    for (kilobytes, paper) in TABLE_6 {
        row(text, "the paper", kilobytes, paper)?;
    }
    for rule in RULES {
        for (kilobytes, _) in TABLE_6 {
            let policed = watch(&policer(kilobytes), &[], rule)?;
            let shaped = watch(&shaper(kilobytes), &[], rule)?;
            let found = [
                policed.join,
                policed.rebuffering,
                shaped.join,
                shaped.rebuffering,
            ];
            row(text, rule, kilobytes, found)?;
        }
    }
    text.push('\n');
    Ok(())
}

/// The 90th over the 10th percentile of each segment's round trips.
fn ratios(settings: &[String]) -> Result<BTreeMap<String, Vec<f64>>> {
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let scenario = include_str!("shaped.toml");
    simulate(
        "flach16-playback/shaped.toml",
        scenario,
        settings,
        None,
        |scenario, finished| {
            let parameters = scenario.parameters(finished.point);
            let queue = parameters.into_iter().find(|one| one.key == "gate.queue");
            let queue = queue.map_or(String::new(), |one| one.value);
            let flows = finished
                .outcome
                .flows
                .iter()
                .filter(|flow| flow.rtt.count > 0);
            let ratios = flows.map(|flow| flow.rtt.p90 as f64 / flow.rtt.p10.max(1) as f64);
            all.entry(queue).or_default().extend(ratios);
            Ok(())
        },
    )?;
    Ok(all)
}

fn round_trips(report: &mut Report) -> Result<()> {
    let text = &mut report.table;
    writeln!(
        text,
        "figure 14: 90th over 10th percentile of a segment's round trips"
    )?;
    writeln!(
        text,
        "{:<28}{:>9}{:>9}{:>14}",
        "", "segments", "median", "10 and more"
    )?;
    writeln!(
        text,
        "{:<28}{:>9}{:>9}{:>12} %",
        "the paper, shaped", "", 4, 20
    )?;
    writeln!(
        text,
        "{:<28}{:>9}{:>9}{:>12} %",
        "the paper, others", "", "", 1
    )?;
    let mut row = |name: &str, ratios: &[f64]| -> Result<()> {
        let mut sorted = ratios.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let many = sorted.iter().filter(|&&ratio| ratio >= 10.0).count();
        writeln!(
            text,
            "{name:<28}{:>9}{:>9.1}{:>12.1} %",
            sorted.len(),
            percentile(&sorted, 50.0).unwrap_or(f64::NAN),
            many as f64 * 100.0 / sorted.len().max(1) as f64
        )?;
        Ok(())
    };
    let by_queue = ratios(&[])?;
    let shaped: Vec<f64> = by_queue.values().flatten().copied().collect();
    row("shaped", &shaped)?;
    for (queue, ratios) in &by_queue {
        row(&format!("  with a queue of {queue}"), ratios)?;
    }
    // The line alone: the limiter has its rate.
    let line = [
        "gate.rate=100mbit",
        "gate.queue=\"1000 packets\"",
        "gate.burst=1514B",
    ];
    let plain = ratios(&line.map(String::from))?;
    let plain: Vec<f64> = plain.into_values().flatten().collect();
    row("not shaped", &plain)?;
    let mut plot = Plot::of_distributions(
        "90th over 10th percentile of a segment's round trips",
        Axis::new("ratio").from(1.0).to(100.0).log(),
    );
    plot.distribution("shaped", shaped);
    plot.distribution("not shaped", plain);
    report.pictures.push(("figure-14.svg", plot.svg()?));
    Ok(())
}
