//! Prints what [BCPQP §3.5 and §4, figure 3] is about: how flows share a limiter's rate if a link
//! that is hardly faster follows.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Result;
use tidegate_lab::experiment::Finished;
use tidegate_lab::summary::{Throughput, fairness, percentile};
use tidegate_plot::{Axis, Plot};
use tidegate_studies::experiment::{self, Report};

const SHARING: &str = include_str!("sharing.toml");
/// The round trip and the queue of the table and the pictures; the others are for comparison.
const MAIN: [&str; 2] = ["50ms", "100kB"];
/// In seconds: the burst's beginning, its rest while the small queues fill, when all are full.
const PERIODS: [(u64, u64); 3] = [(0, 10), (10, 60), (120, 180)];
const SECOND: u64 = 1_000_000_000;

fn main() -> ExitCode {
    experiment::main("bcpqp-figure3", run)
}

/// What the seeds of a point come to.
#[derive(Default)]
struct Point {
    gate: String,
    rtt: String,
    queue: String,
    seeds: f64,
    /// Throughput of each flow in each period, in Mbit/s, summed over seeds.
    throughput: [[f64; 4]; PERIODS.len()],
    /// Jain's index of each window, by period.
    jain: [Vec<f64>; PERIODS.len()],
    /// Packets that came to the limiter and to the link, and those dropped.
    packets: [u64; 2],
    dropped: [u64; 2],
    /// As `dropped`, in the first period.
    early: [u64; 2],
    early_packets: u64,
    /// Seconds until the aggregate no longer gets what the link carries, summed over seeds.
    until: u64,
}

fn run() -> Result<Report> {
    let mut points: Vec<Point> = Vec::new();
    let mut pictures = Vec::new();
    experiment::simulate("sharing.toml", SHARING, &[], None, |scenario, run| {
        if points.len() == run.point {
            let parameters: Vec<String> = scenario
                .parameters(run.point)
                .into_iter()
                .map(|one| one.value)
                .collect();
            let [gate @ .., rtt, queue] = &parameters[..] else {
                anyhow::bail!("the scenario varies the gate, the round trip and the queue");
            };
            points.push(Point {
                // The paper's form is the only one here.
                gate: gate.join(" ").replace("bc-pqp-paper", "bc-pqp"),
                rtt: rtt.clone(),
                queue: queue.clone(),
                ..Point::default()
            });
            let point = &points[run.point];
            if [&*point.rtt, &*point.queue] == MAIN {
                let name = match &*point.gate {
                    "pqp 3255kB" => "pqp-large.svg",
                    "bc-pqp 3255kB" => "bc-pqp.svg",
                    _ => "",
                };
                if !name.is_empty() {
                    pictures.push((name, picture(&point.gate, &run)?));
                }
            }
        }
        points[run.point].add(&run);
        Ok(())
    })?;
    let first = &[format!("duration={}s", PERIODS[0].1)];
    experiment::simulate("sharing.toml", SHARING, first, None, |_, run| {
        let point = &mut points[run.point];
        for (dropped, element) in point.early.iter_mut().zip(&run.outcome.elements) {
            *dropped += element.dropped;
        }
        point.early_packets += run.outcome.elements[0].packets;
        Ok(())
    })?;
    Ok(Report {
        table: table(&points)?,
        pictures,
    })
}

impl Point {
    fn add(&mut self, run: &Finished) {
        let outcome = &run.outcome;
        self.seeds += 1.0;
        let indices = fairness(&run.group.plan, outcome, 0);
        for (period, &(from, to)) in PERIODS.iter().enumerate() {
            let window = |second: u64| (second * SECOND / outcome.window) as usize;
            let windows = window(from)..window(to);
            for (sum, flow) in self.throughput[period].iter_mut().zip(&outcome.flows) {
                let bytes = flow.windows[windows.clone()].iter().sum();
                *sum += Throughput {
                    bytes,
                    time: (to - from) * SECOND,
                }
                .bits_per_second()
                    / 1e6;
            }
            let within = indices.iter().filter(|one| windows.contains(&one.window));
            self.jain[period].extend(within.map(|one| one.index));
        }
        // The last five seconds with a mean that is nearer to the link's 8.42 Mbit/s of IP packets
        // than to the limiter's 7.5.
        let per = (5 * SECOND / outcome.window) as usize;
        let fives = outcome.aggregates[0].windows.chunks(per);
        let over = |five: &[u64]| {
            Throughput {
                bytes: five.iter().sum(),
                time: 5 * SECOND,
            }
            .bits_per_second()
                > 7.96e6
        };
        let last = fives
            .map(over)
            .collect::<Vec<_>>()
            .iter()
            .rposition(|&over| over);
        self.until += last.map_or(0, |last| 5 * (last as u64 + 1));
        for (at, element) in outcome.elements.iter().enumerate() {
            self.packets[at] += element.packets;
            self.dropped[at] += element.dropped;
        }
    }

    fn jain(&self, period: usize) -> f64 {
        let mut indices = self.jain[period].clone();
        indices.sort_unstable_by(f64::total_cmp);
        percentile(&indices, 50.0).unwrap_or(0.0)
    }
}

fn table(points: &[Point]) -> Result<String> {
    let mut text = String::new();
    let [rtt, queue] = MAIN;
    writeln!(
        text,
        "RTT {rtt}, {queue} before 8.5 Mbit/s; means of {} seeds, Jain: median of 250 ms\n\
         {:<14} {:<10} {:>28} {:>6} {:>6} {:>15}",
        points[0].seeds, "", "", "Mbit/s", "", "", "dropped by"
    )?;
    writeln!(
        text,
        "{:<14} {:<10} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>7} {:>7}",
        "gate", "period", "reno", "cubic", "bbr", "vegas", "sum", "Jain", "gate", "link"
    )?;
    let main = |point: &&Point| [&*point.rtt, &*point.queue] == MAIN;
    for point in points.iter().filter(main) {
        for (period, (from, to)) in PERIODS.iter().enumerate() {
            let name = if period == 0 { &*point.gate } else { "" };
            let flows = point.throughput[period].map(|sum| sum / point.seeds);
            write!(text, "{name:<14} {:<10}", format!("{from}-{to} s"))?;
            for flow in flows {
                write!(text, " {flow:>6.2}")?;
            }
            write!(
                text,
                " {:>6.2} {:>6.3}",
                flows.iter().sum::<f64>(),
                point.jain(period)
            )?;
            let drops = match period {
                0 => Some((point.early, point.early_packets)),
                2 => Some((point.dropped, point.packets[0])),
                _ => None,
            };
            if let Some(([gate, link], packets)) = drops {
                let percent = |dropped: u64| 100.0 * dropped as f64 / packets as f64;
                write!(text, " {:>5.1} % {:>5.1} %", percent(gate), percent(link))?;
            }
            writeln!(text, "{}", if period == 2 { "  (0-180 s)" } else { "" })?;
        }
    }
    writeln!(
        text,
        "\nseconds, in fives, until the link no longer decides"
    )?;
    for point in points.iter().filter(main) {
        writeln!(
            text,
            "{:<14} {:>4.0}",
            point.gate,
            point.until as f64 / point.seeds
        )?;
    }
    writeln!(
        text,
        "\nJain in 0-10 s and 120-180 s, by RTT and by the queue before 8.5 Mbit/s\n{:<14} {:<6}{:>14} {:>14} {:>14}",
        "gate", "RTT", "30kB", "100kB", "300kB"
    )?;
    for row in points.chunks(3) {
        write!(text, "{:<14} {:<6}", row[0].gate, row[0].rtt)?;
        for point in row {
            write!(text, "   {:.3} {:.3} ", point.jain(0), point.jain(2))?;
        }
        text.truncate(text.trim_end().len());
        writeln!(text)?;
    }
    Ok(text)
}

/// The throughput of the flows in the first minute.
fn picture(gate: &str, run: &Finished) -> Result<String> {
    let (x, y) = (
        Axis::new("time [s]").from(0.0).to(60.0),
        Axis::new("throughput [Mbit/s]").from(0.0).to(8.5),
    );
    let title = format!("7.5 Mbit/s by {gate}, then 8.5 Mbit/s");
    let mut plot = Plot::new(&title, x, y);
    let outcome = &run.outcome;
    // Over half a second.
    let per = (SECOND / 2 / outcome.window) as usize;
    for (name, flow) in ["Reno", "CUBIC", "BBR", "Vegas"].iter().zip(&outcome.flows) {
        let windows = flow.windows.chunks_exact(per).take(120).enumerate();
        plot.line(
            name,
            windows.map(|(at, bytes)| {
                let rate = Throughput {
                    bytes: bytes.iter().sum(),
                    time: SECOND / 2,
                }
                .bits_per_second();
                (at as f64 / 2.0, rate / 1e6)
            }),
        );
    }
    plot.dashed("fair share", [(0.0, 7.5 / 4.0), (60.0, 7.5 / 4.0)]);
    Ok(plot.svg()?)
}
