//! Figure 13 and Table 7 of [Flach16 §5.2]: what servers can do behind a policer.

#[path = "chunks.rs"]
mod chunks;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use chunks::Chunk;
use tidegate_lab::summary::{Throughput, percentile};
use tidegate_plot::{Axis, Plot};
use tidegate_studies::experiment::{Report, main as study, simulate};
use tidegate_trace::detect::pd::Code;

const FIGURE: &str = include_str!("figure13.toml");
/// The points of the scenario, and the pictures of the first chunk's beginning.
const TREATMENTS: [(&str, &str); 3] = [
    ("plain", "plain.svg"),
    ("limited to 95 %", "limited.svg"),
    ("paced", "paced.svg"),
];

/// Servers and clients: how Linux was before 4.2, as in the paper, and how it is.
const ENDS: [(&str, &[&str]); 4] = [
    ("2015", &[]),
    ("2015, every packet acked", &["video.delayed-ack=0s"]),
    (
        "today",
        &["video.recovery=\"conservative\"", "video.rack=true"],
    ),
    (
        "today, every packet acked",
        &[
            "video.recovery=\"conservative\"",
            "video.rack=true",
            "video.delayed-ack=0s",
        ],
    ),
];

fn main() -> ExitCode {
    study("flach16-figure13", run)
}

fn run() -> Result<Report> {
    let mut table = String::new();
    let mut pictures = Vec::new();
    writeln!(
        table,
        "chunks of 2 MB through 1.5 Mbit/s, 8 kB; RTT 100 ms, 10 runs of 5\n\
         {:45} goodput, Mbit/s\n\
         ends                      server           median   least    most  first 5 s    loss  policed  else",
        ""
    )?;
    for (index, (ends, settings)) in ENDS.into_iter().enumerate() {
        let folder = tempfile::tempdir()?;
        let points = captured(settings, folder.path())?;
        for (point, ((treatment, file), chunks)) in TREATMENTS.into_iter().zip(&points).enumerate()
        {
            let mut first = Vec::new();
            for seed in 1..=chunks.len() / 5 {
                let (_, acknowledged) =
                    chunks::sequence(&capture(folder.path(), point, seed), 5.0)?;
                let kilobytes = acknowledged.last().map_or(0.0, |&(_, kilobytes)| kilobytes);
                first.push(kilobytes * 8.0 / 5.0 / 1e3);
            }
            line(&mut table, ends, treatment, mean(&first), chunks)?;
            if index == 0 {
                let svg = picture(treatment, &capture(folder.path(), point, 1))?;
                pictures.push((file, svg));
            }
        }
    }
    vary(&mut table, "RTT", "video.rtt", &RTTS)?;
    vary(&mut table, "bucket", "policer.burst", &BUCKETS)?;
    vary(
        &mut table,
        "senders",
        "video.cc",
        &["\"cubic\"", "\"reno\""],
    )?;
    recovery(&mut table)?;
    Ok(Report { table, pictures })
}

const RTTS: [&str; 8] = [
    "2ms", "5ms", "10ms", "20ms", "50ms", "100ms", "150ms", "200ms",
];
const BUCKETS: [&str; 6] = ["6kB", "7kB", "8kB", "9kB", "12kB", "16kB"];

/// Where the capture of a run is.
fn capture(folder: &Path, point: usize, seed: usize) -> PathBuf {
    folder.join(format!("server.point-{point}.seed-{seed}.pcap"))
}

fn owned(settings: &[&str]) -> Vec<String> {
    settings.iter().copied().map(String::from).collect()
}

/// The chunks of each point, from captures in the folder.
fn captured(settings: &[&str], folder: &Path) -> Result<Vec<Vec<Chunk>>> {
    let mut points: Vec<Vec<Chunk>> = Vec::new();
    let settings = owned(settings);
    simulate(
        "figure13.toml",
        FIGURE,
        &settings,
        Some(folder),
        |_, finished| {
            let (point, seed) = (finished.point, finished.seed);
            points.resize_with(points.len().max(point + 1), Vec::new);
            let capture = folder.join(format!("server.point-{point}.seed-{seed}.pcap"));
            points[point].extend(chunks::read(&capture)?);
            Ok(())
        },
    )?;
    Ok(points)
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn line(
    table: &mut String,
    ends: &str,
    treatment: &str,
    first: f64,
    chunks: &[Chunk],
) -> Result<()> {
    let goodputs = sorted(chunks.iter().map(|chunk| chunk.goodput));
    let at = |percent| percentile(&goodputs, percent).unwrap_or(f64::NAN);
    let losses: Vec<f64> = chunks.iter().map(|chunk| chunk.loss).collect();
    let mut codes = BTreeMap::new();
    for chunk in chunks {
        *codes.entry(chunk.code).or_insert(0) += 1;
    }
    let policed = codes.remove(&Code::Policed).unwrap_or(0);
    let other = codes.into_iter().max_by_key(|&(_, count)| count);
    let other = other.map_or(String::new(), |(code, count)| {
        format!("{count} {}", code.reason())
    });
    let line = format!(
        "{ends:25} {treatment:15} {:7.3} {:7.3} {:7.3} {first:10.3} {:5.1} % {policed:4}/{}  {other}",
        at(50.0),
        at(0.0),
        at(100.0),
        100.0 * mean(&losses),
        chunks.len(),
    );
    writeln!(table, "{}", line.trim_end())?;
    Ok(())
}

/// The beginning of a run, as Figure 13 shows it.
fn picture(treatment: &str, capture: &Path) -> Result<String> {
    let (sent, acknowledged) = chunks::sequence(capture, 6.0)?;
    let mut plot = Plot::new(
        &format!("Through 1.5 Mbit/s and 8 kB: {treatment}"),
        Axis::new("time, s").from(0.0).to(6.0),
        Axis::new("sequence number, kB").from(0.0).to(1150.0),
    );
    plot.line("sent", sent);
    plot.steps("acknowledged", acknowledged);
    // 1.5 Mbit/s of frames that carry 1448 bytes in 1518.
    let rate = 1.5e3 / 8.0 * 1448.0 / 1518.0;
    plot.dashed("policing rate", [(0.0, 0.0), (6.0, 6.0 * rate)]);
    Ok(plot.svg()?)
}

/// The three treatments with a setting of the scenario varied.
fn vary(table: &mut String, title: &str, key: &str, values: &[&str]) -> Result<()> {
    writeln!(
        table,
        "\n{title:10}     plain              limited            paced\n\
         {:10}    Mbit/s    loss      Mbit/s    loss     Mbit/s    loss",
        ""
    )?;
    for &value in values {
        write!(table, "{:10}", value.trim_matches('"'))?;
        // Goodputs and packets, sent and dropped, of each treatment.
        let mut points: [(Vec<f64>, u64, u64); 3] = Default::default();
        let settings = [format!("{key}={value}")];
        simulate("figure13.toml", FIGURE, &settings, None, |_, finished| {
            let (goodputs, sent, dropped) = &mut points[finished.point];
            for flow in &finished.outcome.flows {
                for chunk in &flow.completions {
                    goodputs.push(
                        Throughput {
                            bytes: chunk.bytes,
                            time: chunk.end - chunk.start,
                        }
                        .bits_per_second()
                            / 1e6,
                    );
                }
                *sent += flow.sent_packets;
                *dropped += flow.dropped;
            }
            Ok(())
        })?;
        for (goodputs, sent, dropped) in points {
            let goodputs = sorted(goodputs.into_iter());
            let loss = 100.0 * dropped as f64 / sent.max(1) as f64;
            let median = percentile(&goodputs, 50.0).unwrap_or(f64::NAN);
            write!(table, "    {median:6.3} {loss:6.1} %")?;
        }
        writeln!(table)?;
    }
    Ok(())
}

/// Table 7: loss rates of servers as they were, paced, and with packet conservation in recovery.
fn recovery(table: &mut String) -> Result<()> {
    writeln!(
        table,
        "\nloss rates behind 16 policers, RTT 20 to 200 ms, 20 runs each\n\
         {:14}      base                  paced                 rec. fixed\n\
         policers       median    95th   mean  median    95th   mean  median    95th   mean",
        ""
    )?;
    // By what the policers have in common; loss rates of each server.
    let mut groups: BTreeMap<(usize, String), [Vec<f64>; 3]> = BTreeMap::new();
    let text = include_str!("recovery.toml");
    simulate("recovery.toml", text, &[], None, |scenario, finished| {
        let values = scenario.parameters(finished.point);
        let value = |i: usize| values.get(i).map_or("", |one| &one.value).to_owned();
        let server = finished.point % 3;
        for flow in &finished.outcome.flows {
            let loss = 100.0 * flow.dropped as f64 / flow.sent_packets.max(1) as f64;
            let order = finished.point / 3;
            let all = [
                (0, "all".to_owned()),
                (1 + order % 4, value(1)),
                (10 + order / 4, value(0)),
            ];
            for group in all {
                groups.entry(group).or_default()[server].push(loss);
            }
        }
        Ok(())
    })?;
    for ((_, name), servers) in groups {
        write!(table, "{name:12}")?;
        for losses in servers {
            let losses = sorted(losses.into_iter());
            let at = |percent| percentile(&losses, percent).unwrap_or(f64::NAN);
            write!(
                table,
                " {:6.1} % {:5.1} % {:4.1} %",
                at(50.0),
                at(95.0),
                mean(&losses)
            )?;
        }
        writeln!(table)?;
    }
    Ok(())
}
