//! Quality against fairness, and one video over time: figures 7a and 9.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use tidegate_lab::experiment::Finished;
use tidegate_lab::summary::{Throughput, jain};
use tidegate_plot::{Axis, Plot};
use tidegate_studies::experiment::{Report, simulate};

use super::LIMITERS;

const SCENARIO: &str = include_str!("video.toml");
const RULES: [&str; 2] = ["throughput", "bola"];
/// Qualities in kbit/s. Netflix published its fixed ladder in 2015 ("Per-Title Encode Optimization"). The other is ours.
const NETFLIX: &[u64] = &[235, 375, 560, 750, 1050, 1750, 2350, 3000, 4300, 5800];
const YOUTUBE: &[u64] = &[110, 250, 420, 800, 1500, 2800];
/// The pictures of figure 9, by limiter.
const PICTURES: [&str; 4] = [
    "figure-9a.svg",
    "figure-9c.svg",
    "figure-9d.svg",
    "figure-9b.svg",
];

/// Who sends videos: with which congestion control, and with which parts of its ladder's rates: a video that is easier to
/// encode has lower ones.
struct Service {
    name: &'static str,
    cc: &'static str,
    ladder: &'static [u64],
    videos: &'static [f64],
}

const SERVICES: [Service; 2] = [
    Service {
        name: "BBR, 6 qualities",
        cc: "bbr",
        ladder: YOUTUBE,
        videos: &[1.0, 0.75, 1.25],
    },
    Service {
        name: "Reno, 10 qualities",
        cc: "reno",
        ladder: NETFLIX,
        videos: &[1.0, 0.75],
    },
];

/// What came of the videos of a service behind a limiter, as sums over runs.
#[derive(Default)]
struct Sums {
    runs: f64,
    quality: f64,
    stalled: f64,
    switches: f64,
    fairness: f64,
    shares: [f64; 2],
}

pub fn run(report: &mut Report) -> Result<()> {
    let text = &mut report.table;
    writeln!(
        text,
        "7a: videos of 180 s that share 3 Mbit/s with a download and web pages, means over videos and 5 runs"
    )?;
    writeln!(
        text,
        "{:<12}{:<20}{:<14}{:>14}{:>13}{:>10}{:>10}{:>17}{:>16}",
        "rule",
        "sender",
        "limiter",
        "quality kbit/s",
        "rebuffering",
        "switches",
        "fairness",
        "video Mbit/s",
        "others Mbit/s"
    )?;
    for rule in RULES {
        for service in &SERVICES {
            let mut all: [Sums; LIMITERS.len()] = Default::default();
            for (index, factor) in service.videos.iter().enumerate() {
                let rates = service.ladder.iter();
                let rates = rates.map(|&rate| format!("\"{}kbit\"", (rate as f64 * factor) as u64));
                let settings = [
                    format!("video.cc={}", service.cc),
                    format!("video.traffic.rule={rule}"),
                    format!(
                        "video.traffic.ladder=[{}]",
                        rates.collect::<Vec<_>>().join(", ")
                    ),
                ];
                simulate(
                    "bcpqp-figure7/video.toml",
                    SCENARIO,
                    &settings,
                    None,
                    |_, finished| {
                        all[finished.point].add(&finished)?;
                        let is_drawn = (rule, service.cc, index) == (RULES[0], "bbr", 0);
                        if is_drawn && finished.seed == 1 {
                            report
                                .pictures
                                .push((PICTURES[finished.point], picture(&finished)?));
                        }
                        Ok(())
                    },
                )?;
            }
            for (sums, limiter) in all.iter().zip(LIMITERS) {
                let mean = |sum: f64| sum / sums.runs;
                writeln!(
                    text,
                    "{rule:<12}{:<20}{limiter:<14}{:>14.0}{:>11.2} %{:>10.1}{:>10.3}{:>17.2}{:>16.2}",
                    service.name,
                    mean(sums.quality) / 1e3,
                    mean(sums.stalled) * 100.0,
                    mean(sums.switches),
                    mean(sums.fairness),
                    mean(sums.shares[0]) / 1e6,
                    mean(sums.shares[1]) / 1e6,
                )?;
            }
        }
    }
    text.push('\n');
    Ok(())
}

impl Sums {
    fn add(&mut self, finished: &Finished) -> Result<()> {
        let outcome = &finished.outcome;
        let [video, others @ ..] = &outcome.flows[..] else {
            anyhow::bail!("no flows");
        };
        let adaptive = video.adaptive.as_ref().context("no video")?;
        self.runs += 1.0;
        self.quality += adaptive.mean_quality().unwrap_or(0.0);
        self.switches += adaptive.switches() as f64;
        let viewing = adaptive.viewing;
        self.stalled += viewing.stalled as f64 / viewing.played.max(1) as f64;
        // Windows in which the player waits for a segment from their beginning to their end.
        let fetches = video.completions.iter().map(|one| (one.start, one.end));
        let fetches: Vec<_> = fetches.chain(video.open.map(|at| (at, u64::MAX))).collect();
        let (mut index, mut windows, mut bytes) = (0.0, 0.0, [0; 2]);
        for (window, &of_video) in video.windows.iter().enumerate() {
            let (start, end) = (
                window as u64 * outcome.window,
                (window as u64 + 1) * outcome.window,
            );
            if !fetches.iter().any(|&(from, to)| from <= start && end <= to) {
                continue;
            }
            let of_others: u64 = others.iter().map(|flow| flow.windows[window]).sum();
            index += jain(&[of_video as f64, of_others as f64]).unwrap_or(0.0);
            windows += 1.0;
            bytes[0] += of_video;
            bytes[1] += of_others;
        }
        self.fairness += index / f64::max(windows, 1.0);
        for (share, bytes) in self.shares.iter_mut().zip(bytes) {
            *share += bytes as f64 * 8e9 / outcome.window as f64 / f64::max(windows, 1.0);
        }
        Ok(())
    }
}

/// Throughput of the video and of the others, and the quality of the segments, over time.
fn picture(finished: &Finished) -> Result<String> {
    let outcome = &finished.outcome;
    let title = format!("A video beside other traffic, {}", LIMITERS[finished.point]);
    let mut plot = Plot::new(
        &title,
        Axis::new("s").from(0.0).to(200.0),
        Axis::new("Mbit/s").from(0.0).to(4.0),
    );
    let rate = |bytes: u64| {
        let time = outcome.window;
        Throughput { bytes, time }.bits_per_second() / 1e6
    };
    let at = |window: usize| window as f64 * outcome.window as f64 / 1e9;
    let [video, others @ ..] = &outcome.flows[..] else {
        anyhow::bail!("no flows");
    };
    let others = |window: usize| others.iter().map(|flow| flow.windows[window]).sum();
    let windows = 0..video.windows.len();
    plot.steps(
        "video",
        windows
            .clone()
            .map(|window| (at(window), rate(video.windows[window]))),
    );
    plot.steps(
        "other traffic",
        windows.map(|window| (at(window), rate(others(window)))),
    );
    let adaptive = video.adaptive.as_ref().context("no video")?;
    let segments = video.completions.iter().zip(&adaptive.qualities);
    plot.steps(
        "quality of the segments",
        segments.map(|(segment, &quality)| (segment.start as f64 / 1e9, quality as f64 / 1e6)),
    );
    Ok(plot.svg()?)
}
