//! A hundred aggregates in real time, under this kernel's TCP, behind the gate: see README.md.

mod traffic;

use std::fs::File;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, ValueEnum};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::Value;
use tidegate_lab::MILLISECOND;
use tidegate_lab::summary::{jain, percentile};
use tidegate_limiter::Rate;
use tidegate_studies::schemes::gate_up;
use tidegate_testbed::compare::LATE;
use tidegate_testbed::link::LinkPlan;
use tidegate_testbed::namespace::{Namespace, Process};
use tidegate_testbed::site::{LinkPosition, Site};
use traffic::{Flow, Received, WINDOW};

/// Of each kind in an aggregate.
const FLOWS: usize = 4;
/// The kernel of this study has no Vegas.
const ALGORITHMS: [&str; 3] = ["reno", "cubic", "bbr"];
const ROUND_TRIPS_MS: [u64; 7] = [2, 10, 18, 26, 34, 42, 50];
/// Addresses of the client are 2001:db8::r.a.k, with 4 bits for the round trip, 8 for the aggregate, 4 for the flow.
const BY_ROUND_TRIP: u16 = 1 << 12;
const BY_AGGREGATE: u16 = 1 << 4;
/// Bytes of a short transfer, mean for a rate of 7.5 Mbit/s, and the mean pause behind it, seconds.
const SHORT: f64 = 300e3;
const PAUSE: f64 = 3.0;
/// A full frame, over its payload in TCP over IPv6 with timestamps.
const FRAME_OVER_PAYLOAD: f64 = 1514.0 / 1428.0;
/// Nothing is counted before.
const START_UP: Duration = Duration::from_secs(3);

/// The data path of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DataPath {
    /// DPDK's packet sockets
    Dpdk,
    /// The kernel's programs
    Kernel,
}

/// Options.
#[derive(Parser)]
struct Args {
    /// The program to be measured, built with the feature `dpdk` [default: beside this one]
    #[arg(long, value_name = "FILE")]
    tidegate: Option<PathBuf>,
    /// Data paths
    #[arg(long = "path", value_enum, default_values_t = [DataPath::Dpdk, DataPath::Kernel])]
    paths: Vec<DataPath>,
    /// Schemes
    #[arg(long = "scheme", default_values = ["bc-pqp", "policer"])]
    schemes: Vec<String>,
    /// Seconds that are measured
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Number of aggregates: a small machine carries about 200 Mbit/s in time
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=250))]
    aggregates: u16,
    /// Rates of an aggregate
    #[arg(default_values = ["1.5mbit"])]
    rates: Vec<Rate>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hundred-aggregates: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let beside = std::env::current_exe()?.with_file_name("tidegate");
    let tidegate = args.tidegate.as_deref().unwrap_or(&beside);
    println!(
        "{:<28} {:>7} {:>10} {:>7} {:>7} {:>6} {:>6} {:>7} {:>9}",
        "", "steady", "0.8 to 1.2", "99.9 %", "largest", "Jain", "least", "drops", "late, µs"
    );
    for &rate in &args.rates {
        for scheme in &args.schemes {
            for &path in &args.paths {
                let (seen, drops, late) = measure(tidegate, path, scheme, rate, args)
                    .with_context(|| format!("{scheme} at {rate}, {path:?}"))?;
                println!(
                    "{:<28} {:>7.3} {:>9.1}% {:>7.2} {:>7.2} {:>6.3} {:>6.3} {:>6.2}% {:>9.0}{}",
                    format!("{rate}, {scheme}, {path:?}"),
                    seen.steady,
                    seen.near * 100.0,
                    seen.tail,
                    seen.largest,
                    seen.jain,
                    seen.least,
                    drops * 100.0,
                    late as f64 / 1e3,
                    if late < LATE {
                        ""
                    } else {
                        "  this machine is too busy"
                    },
                );
            }
        }
    }
    Ok(())
}

/// What the client saw of a run. Throughput is in windows of 250 ms, over the rate.
struct Seen {
    /// Mean of aggregates with backlogged flows only.
    steady: f64,
    /// Windows within 0.8 and 1.2, of those with any.
    near: f64,
    tail: f64,
    largest: f64,
    /// Jain's index of the flows of each aggregate with backlogged flows only: median and least.
    jain: f64,
    least: f64,
}

/// An address of the client.
fn address(host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host)
}

/// The flows of the experiment. In half of the aggregates they are alike in congestion control and round trip; in each half
/// some aggregates have backlogged flows, some short ones, some both.
fn draw(rate: Rate, aggregates: usize) -> Vec<Flow> {
    let random = &mut Pcg64::seed_from_u64(1);
    let mut flows = Vec::new();
    let mean = SHORT * rate.bits_per_second() as f64 / 7.5e6;
    for aggregate in 0..aggregates {
        let (alike, third) = (aggregate < aggregates / 2, aggregate % 3);
        for number in 0..2 * FLOWS {
            let backlogged = number < FLOWS;
            if third == usize::from(backlogged) {
                continue;
            }
            let (algorithm, trip) = if alike {
                (aggregate % 3, aggregate % ROUND_TRIPS_MS.len())
            } else {
                (number % 3, random.random_range(0..ROUND_TRIPS_MS.len()))
            };
            let mut exponential = |mean: f64| -mean * (1.0 - random.random::<f64>()).ln();
            let transfers = (0..64).map(|_| {
                let bytes = exponential(mean).max(10e3) as u64;
                (bytes, Duration::from_secs_f64(exponential(PAUSE)))
            });
            let transfers = if backlogged {
                Vec::new()
            } else {
                transfers.collect()
            };
            let starts = Duration::from_secs_f64(random.random());
            let host =
                (trip as u16 + 1) * BY_ROUND_TRIP + aggregate as u16 * BY_AGGREGATE + number as u16;
            let flow = Flow {
                aggregate,
                address: address(host),
                algorithm: algorithm as u8,
                transfers,
                starts,
            };
            flows.push(flow);
        }
    }
    flows
}

/// The gate's file: each aggregate is a subscriber, and shares its rate fairly.
fn configuration(rate: Rate, scheme: &str, aggregates: usize, flows: &[Flow]) -> String {
    let subscribers = (0..aggregates).map(|aggregate| {
        let own = flows.iter().filter(|flow| flow.aggregate == aggregate);
        let addresses: Vec<_> = own.map(|flow| format!("\"{}\"", flow.address)).collect();
        let addresses = addresses.join(", ");
        format!(
            "[[subscriber]]\nname = \"a{aggregate}\"\nplan = \"it\"\naddresses = [{addresses}]\n"
        )
    });
    format!(
        "[[interface]]\nname = \"wan\"\nside = \"core\"\n[[interface]]\nname = \"lan\"\nside = \"access\"\n\
         [plan.it]\ndown = \"{}bit\"\nscheme = \"{scheme}\"\nrtt = \"50ms\"\n{}",
        rate.bits_per_second(),
        subscribers.collect::<String>()
    )
}

/// What the client saw, the part of the packets that the gate dropped, and the lateness of the link (99th percentile, ns).
fn measure(
    tidegate: &Path,
    path: DataPath,
    scheme: &str,
    rate: Rate,
    args: &Args,
) -> Result<(Seen, f64, u64)> {
    let aggregates = usize::from(args.aggregates);
    let flows = draw(rate, aggregates);
    let round_trips = (1..).zip(ROUND_TRIPS_MS).map(|(trip, ms)| {
        let prefix = format!("{}/116", address(trip * BY_ROUND_TRIP));
        Ok((prefix.parse()?, ms * MILLISECOND))
    });
    let plan = LinkPlan {
        round_trips: round_trips.collect::<Result<_>>()?,
        ..LinkPlan::default()
    };
    let site = Site::new(&plan, LinkPosition::Core)?;
    for flow in &flows {
        site.client.address("eth0", flow.address.into(), 64)?;
    }
    let text = configuration(rate, scheme, aggregates, &flows);
    let gate = match path {
        DataPath::Kernel => Gate {
            _folder: gate_up(&site.middle, tidegate, &text)?,
            daemon: None,
        },
        DataPath::Dpdk => Gate::on_dpdk(&site, tidegate, &text)?,
    };
    let lasting = START_UP + Duration::from_secs(args.seconds);
    let (received, counted) = traffic::run(&site, &ALGORITHMS, &flows, lasting, |origin| {
        thread::sleep((origin + START_UP).saturating_duration_since(Instant::now()));
        let before = counted(&site.middle, tidegate)?;
        thread::sleep((origin + lasting).saturating_duration_since(Instant::now()));
        let after = counted(&site.middle, tidegate)?;
        Ok([0, 1].map(|at| after[at] - before[at]))
    })?;
    let report = site.link.finish()?;
    ensure!(
        report.strays == 0,
        "{} packets were lost beside the gate",
        report.strays
    );
    gate.end()?;
    let seen = seen(&flows, &received, aggregates, rate);
    let [passed, dropped] = counted;
    let drops = dropped as f64 / (passed + dropped).max(1) as f64;
    Ok((seen, drops, report.lateness.p99))
}

/// What the client saw.
fn seen(flows: &[Flow], received: &Received, aggregates: usize, rate: Rate) -> Seen {
    let from = (START_UP.as_nanos() / WINDOW.as_nanos()) as usize;
    let full = rate.bits_per_second() as f64 / 8.0 * WINDOW.as_secs_f64() / FRAME_OVER_PAYLOAD;
    let (mut all, mut steady, mut indices) = (Vec::new(), Vec::new(), Vec::new());
    for aggregate in 0..aggregates {
        let own = flows.iter().enumerate();
        let own: Vec<(usize, &Flow)> = own.filter(|(_, f)| f.aggregate == aggregate).collect();
        let mut windows = vec![0; received.windows() - from];
        for &(number, _) in &own {
            for (sum, bytes) in windows.iter_mut().zip(received.of(number, from)) {
                *sum += bytes;
            }
        }
        let shares = windows.iter().map(|&bytes| bytes as f64 / full);
        if own.iter().all(|(_, flow)| flow.transfers.is_empty()) {
            steady.extend(shares.clone());
            let each = own
                .iter()
                .map(|&(number, _)| received.of(number, from).sum::<u64>() as f64);
            indices.extend(jain(&each.collect::<Vec<_>>()));
        }
        all.extend(shares.filter(|&share| share > 0.0));
    }
    all.sort_by(f64::total_cmp);
    indices.sort_by(f64::total_cmp);
    let near = all.iter().filter(|share| (0.8..=1.2).contains(*share));
    Seen {
        steady: steady.iter().sum::<f64>() / steady.len() as f64,
        near: near.count() as f64 / all.len() as f64,
        tail: percentile(&all, 99.9).unwrap_or_default(),
        largest: percentile(&all, 100.0).unwrap_or_default(),
        jain: indices.get(indices.len() / 2).copied().unwrap_or_default(),
        least: indices.first().copied().unwrap_or_default(),
    }
}

/// A gate that is up.
struct Gate {
    /// Its file; it is gone afterwards.
    _folder: tempfile::TempDir,
    /// On DPDK, packets pass through it.
    daemon: Option<Process>,
}

impl Gate {
    /// Starts the daemon on DPDK, between two devices of the middle.
    fn on_dpdk(site: &Site, tidegate: &Path, text: &str) -> Result<Self> {
        site.leave_to_dpdk()?;
        let folder = tempfile::tempdir()?;
        let (file, log) = (folder.path().join("gate.toml"), folder.path().join("log"));
        std::fs::write(&file, text)?;
        let mut command = Command::new(tidegate);
        command.args(["gate", "run"]).arg(&file).args(Site::ON_DPDK);
        command.stdout(Stdio::null()).stderr(File::create(&log)?);
        let mut daemon = site.middle.start(&mut command)?;
        let end = Instant::now() + Duration::from_secs(20);
        while counted(&site.middle, tidegate).is_err() {
            if daemon.child().try_wait()?.is_some() || Instant::now() > end {
                bail!("the gate is not up: {}", std::fs::read_to_string(&log)?);
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(Self {
            _folder: folder,
            daemon: Some(daemon),
        })
    }

    /// Ends the daemon.
    fn end(self) -> Result<()> {
        let Some(mut daemon) = self.daemon else {
            return Ok(());
        };
        daemon.interrupt()?;
        let status = daemon.child().wait()?;
        ensure!(status.success(), "the daemon on DPDK: {status}");
        Ok(())
    }
}

/// Packets toward the client that passed, and that were dropped, of all aggregates.
fn counted(middle: &Namespace, tidegate: &Path) -> Result<[u64; 2]> {
    let mut command = Command::new(tidegate);
    let output = middle.output(command.args(["gate", "status", "--all", "--json"]))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "tidegate gate status: {said}");
    let status: Value = serde_json::from_slice(&output.stdout)?;
    let all = status["subscribers"].as_array().context("no subscribers")?;
    let sum = |counter: &str| {
        let counts = all.iter().map(|one| one["down"][counter].as_u64());
        counts.sum::<Option<u64>>().context("no such counter")
    };
    Ok([sum("passed_packets")?, sum("excess_packets")?])
}
