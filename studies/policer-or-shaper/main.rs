//! Policer, shaper and phantom queues for four TCP streams, and UDP beside them.

#[path = "rtt.rs"]
mod rtt;

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use tidegate_lab::experiment::Finished;
use tidegate_lab::outcome::FlowOutcome;
use tidegate_lab::summary::{Throughput, percentile};
use tidegate_plot::{Axis, Bars, Plot};
use tidegate_studies::experiment::{Report, main as study, simulate};

const STREAMS: usize = 4;

/// A limiter of 20 Mbit/s: what it is called, and what is set to have it.
const LIMITERS: [(&str, &[&str]); 7] = [
    ("policer", &[]),
    (
        "FIFO shaper, 83 packets",
        &[
            "gate.kind=shaper",
            "gate.policy=\"queue\"",
            "stream.queue=hash",
            "gate.burst=20kB",
            "gate.queue=\"83 packets\"",
        ],
    ),
    (
        "FIFO shaper, 200 packets",
        &[
            "gate.kind=shaper",
            "gate.policy=\"queue\"",
            "stream.queue=hash",
            "gate.burst=20kB",
            "gate.queue=\"200 packets\"",
        ],
    ),
    (
        "fair shaper, 200 packets",
        &[
            "gate.kind=shaper",
            "gate.policy={ fair = 16 }",
            "gate.burst=20kB",
            "gate.queue=\"200 packets\"",
        ],
    ),
    (
        "FairPolicer",
        &["gate.kind=fair-policer", "gate.burst=625kB"],
    ),
    ("PQP, no burst control", &["gate.kind=pqp"]),
    ("BC-PQP", &["gate.kind=bc-pqp-paper"]),
];

/// What else the senders could be, or the path, behind a limiter.
const VARIANTS: [(&str, &[&str]); 10] = [
    ("as above", &[]),
    ("no SACK", &["stream.sack=false"]),
    ("RACK and tail loss probes", &["stream.rack=true"]),
    (
        "slow start in recovery",
        &["stream.recovery=\"slow-start\""],
    ),
    ("RTO at least 200 ms", &["stream.min-rto=200ms"]),
    ("RTO at least 1 s", &["stream.min-rto=1s"]),
    (
        "no SACK, RTO at least 500 ms",
        &["stream.sack=false", "stream.min-rto=500ms"],
    ),
    ("RTT 2 ms", &["stream.rtt=2ms"]),
    ("RTT 20 ms", &["stream.rtt=20ms"]),
    ("BC-PQP, T = 500 ms", &["gate.period=500ms"]),
];

fn main() -> ExitCode {
    study("policer-or-shaper", run)
}

fn run() -> Result<Report> {
    let mut table = String::new();
    let mut pictures = Vec::new();
    streams(&mut table)?;
    round_trips(&mut table)?;
    variants(&mut table)?;
    pictures.push(("udp.svg", udp(&mut table)?));
    for (file, limiter) in [("policer.svg", 0), ("shaper.svg", 2)] {
        pictures.push((file, over_time(limiter)?));
    }
    Ok(Report { table, pictures })
}

/// What the streams got, all seeds together.
#[derive(Default)]
struct Streams {
    /// Goodput in Mbit/s: of a run's streams together, its slowest and its fastest.
    sums: Vec<f64>,
    slowest: Vec<f64>,
    fastest: Vec<f64>,
    sent: u64,
    dropped: u64,
    timeouts: u64,
    rtt_p50_ms: Vec<f64>,
    rtt_p95_ms: Vec<f64>,
    /// Samples of the limiter in which nothing was missing or queued, and all.
    idle: u64,
    samples: u64,
    /// Goodput of datagrams beside, in Mbit/s, and their packets.
    udp: Vec<f64>,
    udp_sent: u64,
    udp_dropped: u64,
}

impl Streams {
    fn add(&mut self, finished: &Finished) {
        let duration = finished.group.plan.duration;
        let goodput = |flow: &FlowOutcome| {
            Throughput {
                bytes: flow.delivered,
                time: duration,
            }
            .bits_per_second()
                / 1e6
        };
        let (streams, others) = finished.outcome.flows.split_at(STREAMS);
        let mut each: Vec<f64> = streams.iter().map(goodput).collect();
        each.sort_unstable_by(f64::total_cmp);
        self.sums.push(each.iter().sum());
        self.slowest.extend(each.first());
        self.fastest.extend(each.last());
        for flow in streams {
            self.sent += flow.sent_packets;
            self.dropped += flow.dropped;
            self.timeouts += flow.timeouts;
            self.rtt_p50_ms.push(flow.rtt.p50 as f64 / 1e6);
            self.rtt_p95_ms.push(flow.rtt.p95 as f64 / 1e6);
        }
        for element in &finished.outcome.elements {
            self.samples += element.samples.len() as u64;
            let idle = |queues: &Vec<u64>| queues.iter().all(|&bytes| bytes == 0);
            let idle = element.samples.iter().filter(|at| idle(&at.queues));
            self.idle += idle.count() as u64;
        }
        for flow in others {
            self.udp.push(goodput(flow));
            self.udp_sent += flow.sent_packets;
            self.udp_dropped += flow.dropped;
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn owned(settings: &[&[&str]]) -> Vec<String> {
    settings.concat().into_iter().map(String::from).collect()
}

/// Runs a scenario with a limiter, and sums up each point over its seeds.
fn sums(file: &str, scenario: &str, settings: &[&[&str]]) -> Result<Vec<(String, Streams)>> {
    let mut points: Vec<(String, Streams)> = Vec::new();
    simulate(
        file,
        scenario,
        &owned(settings),
        None,
        |scenario, finished| {
            if finished.point == points.len() {
                let values = scenario.parameters(finished.point);
                let values: Vec<String> = values.into_iter().map(|one| one.value).collect();
                points.push((values.join(" "), Streams::default()));
            }
            if let Some((_, streams)) = points.get_mut(finished.point) {
                streams.add(&finished);
            }
            Ok(())
        },
    )?;
    Ok(points)
}

fn streams(table: &mut String) -> Result<()> {
    writeln!(
        table,
        "four streams, 20 s, means of 10 seeds\n\
         limiter                   senders     sum  slowest  fastest    loss  RTT p50   p95  RTOs   idle\n\
         {:34} Mbit/s   Mbit/s   Mbit/s                ms    ms",
        ""
    )?;
    for (name, settings) in LIMITERS {
        for (senders, sum) in sums("tcp.toml", include_str!("tcp.toml"), &[settings])? {
            writeln!(
                table,
                "{name:25} {senders:7} {:7.2} {:8.2} {:8.2} {:6.1} % {:8.1} {:5.0} {:5.0} {:4.1} %",
                mean(&sum.sums),
                mean(&sum.slowest),
                mean(&sum.fastest),
                percent(sum.dropped, sum.sent),
                mean(&sum.rtt_p50_ms),
                mean(&sum.rtt_p95_ms),
                sum.timeouts as f64 / sum.sums.len().max(1) as f64,
                percent(sum.idle, sum.samples),
            )?;
        }
    }
    Ok(())
}

fn round_trips(table: &mut String) -> Result<()> {
    writeln!(
        table,
        "\nround-trip times as Wireshark counts them, Reno, first seed\n\
         limiter                       p50     p95     p99     max  within 10 ms\n\
         {:29} ms      ms      ms      ms",
        ""
    )?;
    for (name, settings) in LIMITERS {
        let folder = tempfile::tempdir()?;
        let one: &[&str] = &["stream.cc=reno", "seed=1", "sample=20s"];
        let settings = owned(&[settings, one]);
        let tcp = include_str!("tcp.toml");
        simulate("tcp.toml", tcp, &settings, Some(folder.path()), |_, _| {
            Ok(())
        })?;
        let times = rtt::wireshark(&folder.path().join("sender.pcap"))?;
        let ms = |percent| percentile(&times, percent).unwrap_or(0) as f64 / 1e6;
        let short = times.iter().filter(|&&time| time <= 10_000_000).count();
        writeln!(
            table,
            "{name:25} {:7.1} {:7.1} {:7.1} {:7.1} {:11.1} %",
            ms(50.0),
            ms(95.0),
            ms(99.0),
            ms(100.0),
            percent(short as u64, times.len() as u64),
        )?;
    }
    Ok(())
}

fn variants(table: &mut String) -> Result<()> {
    for (name, limiter) in [LIMITERS[0], LIMITERS[6]] {
        writeln!(
            table,
            "\n{name}, other senders                 Reno                          CUBIC\n\
             {:30} Mbit/s    loss   RTOs   idle   Mbit/s    loss   RTOs   idle",
            ""
        )?;
        for (variant, settings) in VARIANTS {
            if variant.contains("T =") && name == LIMITERS[0].0 {
                continue;
            }
            write!(table, "{variant:30}")?;
            let tcp = include_str!("tcp.toml");
            for (_, sum) in sums("tcp.toml", tcp, &[limiter, settings])? {
                write!(
                    table,
                    " {:6.2} {:5.1} % {:6.0} {:4.1} %  ",
                    mean(&sum.sums),
                    percent(sum.dropped, sum.sent),
                    sum.timeouts as f64 / sum.sums.len().max(1) as f64,
                    percent(sum.idle, sum.samples),
                )?;
            }
            table.truncate(table.trim_end().len());
            writeln!(table)?;
        }
    }
    Ok(())
}

/// The table of UDP beside the streams, and the picture of what is left to them.
fn udp(table: &mut String) -> Result<String> {
    writeln!(
        table,
        "\nUDP beside the four streams, means of 5 seeds\n\
         {:38} TCP                 UDP\n\
         limiter                       UDP senders  Mbit/s    loss   Mbit/s    loss",
        ""
    )?;
    let mut series: Vec<(String, Vec<Option<f64>>)> = Vec::new();
    for (name, settings) in LIMITERS {
        // A FIFO has no queue of one's own.
        let fifo: &[&str] = &["udp.queue=hash"];
        let fifo = if settings.contains(&"stream.queue=hash") {
            fifo
        } else {
            &[]
        };
        let points = sums("udp.toml", include_str!("udp.toml"), &[settings, fifo])?;
        for (point, sum) in points {
            let (rate, senders) = point.split_once(' ').context("two parameters")?;
            writeln!(
                table,
                "{name:25} {rate:>8} {senders:7} {:7.2} {:5.1} % {:8.2} {:5.1} %",
                mean(&sum.sums),
                percent(sum.dropped, sum.sent),
                mean(&sum.udp),
                percent(sum.udp_dropped, sum.udp_sent),
            )?;
            if senders == "reno" {
                let label = format!("UDP {rate}");
                let known = series.iter().position(|(name, _)| *name == label);
                let index = known.unwrap_or_else(|| {
                    series.push((label, Vec::new()));
                    series.len() - 1
                });
                series[index].1.push(Some(mean(&sum.sums)));
            }
        }
    }
    let names = [
        "policer",
        "FIFO 83",
        "FIFO 200",
        "fair",
        "FairPolicer",
        "PQP",
        "BC-PQP",
    ];
    let mut bars = Bars::new(
        "What UDP leaves to four TCP streams at 20 Mbit/s (Reno)",
        Axis::new("TCP goodput, Mbit/s"),
        names.map(String::from),
    );
    for (name, values) in series {
        bars.series(&name, values);
    }
    Ok(bars.svg()?)
}

/// The picture of each stream's throughput over time, Reno, first seed.
fn over_time(limiter: usize) -> Result<String> {
    let (name, settings) = LIMITERS[limiter];
    let one: &[&str] = &["stream.cc=reno", "seed=1", "sample=20s", "window=200ms"];
    let mut plot = Plot::new(
        &format!("Four streams through 20 Mbit/s: {name}"),
        Axis::new("time, s").from(0.0).to(20.0),
        Axis::new("Mbit/s at the IP layer").from(0.0).to(45.0),
    );
    let tcp = include_str!("tcp.toml");
    simulate(
        "tcp.toml",
        tcp,
        &owned(&[settings, one]),
        None,
        |_, finished| {
            let outcome = &finished.outcome;
            let points = |windows: &[u64]| -> Vec<(f64, f64)> {
                let rate = |bytes| {
                    Throughput {
                        bytes,
                        time: outcome.window,
                    }
                    .bits_per_second()
                        / 1e6
                };
                let at = |(i, &bytes): (usize, &u64)| (i as f64 * 0.2, rate(bytes));
                windows.iter().take(100).enumerate().map(at).collect()
            };
            for (number, flow) in outcome.flows.iter().enumerate() {
                plot.steps(&format!("stream {number}"), points(&flow.windows));
            }
            for aggregate in &outcome.aggregates {
                plot.dashed("all", points(&aggregate.windows));
            }
            Ok(())
        },
    )?;
    Ok(plot.svg()?)
}
