//! The gate, and what the kernel has to limit with, on the same scenario: see README.md.

mod cost;

use std::fs::File;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use tidegate_lab::summary::jain;
use tidegate_lab::{MILLISECOND, SECOND};
use tidegate_studies::schemes::{MEANS, Means, Settings};
use tidegate_testbed::iperf::{self, Bulk};
use tidegate_testbed::link::LinkPlan;
use tidegate_testbed::site::{LinkPosition, Site};
use tidegate_trace::read::Capture;

/// Limit, bit/s.
const RATE: u64 = 30_000_000;
/// The longest round trip's worth of bytes: a policer's bucket, a shaper's queue.
const BYTES: u64 = RATE / 8 / 20;
/// Last bytes of the client's addresses: the first three at 20 ms, the others at 50 ms.
const HOSTS: [u8; 6] = [129, 130, 131, 193, 194, 195];
/// One of each at either round trip.
const ALGORITHMS: [&str; 3] = ["reno", "cubic", "bbr"];
/// What senders take to come to their share.
const START_UP: u64 = 5;
/// What is looked at.
const MEASURED: u64 = 10;
/// A rate that is never reached, to see what passing costs.
const FAST: u64 = 20_000_000_000;
/// One that nearly all is beyond.
const SLOW: u64 = 100_000;
/// Lateness of the link at the 99th percentile from which a run is repeated.
const LATE: u64 = tidegate_testbed::compare::LATE;

/// Options.
#[derive(Parser)]
struct Args {
    /// The program to be measured [default: beside this one]
    #[arg(long, value_name = "FILE")]
    tidegate: Option<PathBuf>,
    /// Runs of each scheme; the table shows the median of each figure
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Only schemes whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gate-beside-the-kernel: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    ensure!(
        iperf::is_installed(),
        "iperf3 is missing: packaging/setup test installs it"
    );
    let beside = std::env::current_exe()?.with_file_name("tidegate");
    let tidegate = args.tidegate.as_deref().unwrap_or(&beside);
    println!(
        "{:<18} {:>7} {:>9} {:>6} {:>6} {:>7} {:>8} {:>8} {:>8}",
        "", "Mbit/s", "burst, kB", "Jain", "worst", "drops", "RTT, ms", "pass, ns", "drop, ns"
    );
    let cost = |means, rate| cost::of(means, &settings(rate, tidegate));
    let mut alone = Vec::new();
    for (name, means) in MEANS
        .into_iter()
        .filter(|(name, _)| name.contains(&args.only))
    {
        let figures = (0..args.runs)
            .map(|_| in_time(means, tidegate))
            .collect::<Result<Vec<_>>>()?;
        let median = |of: fn(&Figures) -> f64| {
            let mut values: Vec<f64> = figures.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let pass = cost(means, FAST)?;
        // Nothing passes in the time of a batch but the bucket, which the warm-up took.
        let drop = cost(means, SLOW)?;
        alone.extend([pass.plain, drop.plain]);
        println!(
            "{name:<18} {:>7.2} {:>9.1} {:>6.3} {:>6.3} {:>6.2}% {:>8.1} {:>8.0} {:>8.0}",
            median(|it| it.rate) / 1e6,
            median(|it| it.burst) / 1e3,
            median(|it| it.jain),
            median(|it| it.worst),
            median(|it| it.drops) * 100.0,
            median(|it| it.rtt) * 1e3,
            pass.limited - pass.plain,
            drop.limited,
        );
    }
    let [least, most] = [f64::min, f64::max].map(|of| alone.iter().copied().reduce(of));
    println!(
        "the bridge alone: {:.0} to {:.0} ns a packet; pass: what comes on top; drop: the whole",
        least.unwrap_or_default(),
        most.unwrap_or_default(),
    );
    Ok(())
}

fn settings(rate: u64, tidegate: &Path) -> Settings<'_> {
    Settings {
        rate,
        bytes: BYTES,
        hosts: &HOSTS,
        tidegate,
    }
}

/// What came of a run.
struct Figures {
    /// At the client's device in the time that is looked at, bit/s.
    rate: f64,
    /// The depth of the smallest token bucket at the limit's rate that all that came would pass.
    burst: f64,
    /// Jain's index over windows of a second, of goodput: median and least.
    jain: f64,
    worst: f64,
    /// Packets that did not come out, of those that went in.
    drops: f64,
    /// Median round trip of datagrams beside the flows, at 20 ms without a queue, seconds.
    rtt: f64,
}

/// A run on a machine that was not too late for it.
fn in_time(means: Means, tidegate: &Path) -> Result<Figures> {
    let mut tries = 0;
    loop {
        let (figures, late) = measure(means, tidegate)?;
        if late < LATE || tries == 3 {
            if late >= LATE {
                eprintln!(
                    "the link was {} µs late (99 %): this machine is too busy",
                    late / 1000
                );
            }
            return Ok(figures);
        }
        tries += 1;
    }
}

fn measure(means: Means, tidegate: &Path) -> Result<(Figures, u64)> {
    let round_trip =
        |prefix: &str, ms: u64| Ok::<_, anyhow::Error>((prefix.parse()?, ms * MILLISECOND));
    let plan = LinkPlan {
        round_trips: vec![
            round_trip("192.0.2.128/26", 20)?,
            round_trip("192.0.2.192/26", 50)?,
        ],
        ..LinkPlan::default()
    };
    let site = Site::new(&plan, LinkPosition::Core)?;
    let _kept = means.install(&site.middle, &settings(RATE, tidegate))?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("client.pcap");
    let mut tcpdump = Command::new("tcpdump");
    tcpdump.args([
        "-i",
        "eth0",
        "-Q",
        "in",
        "-s",
        "64",
        "-B",
        "16384",
        "--immediate-mode",
        "-w",
    ]);
    tcpdump
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut tcpdump = site.client.start(&mut tcpdump)?;
    let lasting = Duration::from_secs(START_UP + MEASURED + 2);
    let bulks = (HOSTS.into_iter().zip(ALGORITHMS.into_iter().cycle()))
        .map(|(host, algorithm)| Ok(Bulk::new(site.client_address(host)?, algorithm, lasting)))
        .collect::<Result<Vec<_>>>()?;
    let transfers = iperf::start(&site, &bulks)?;
    thread::sleep(Duration::from_secs(START_UP));
    let count =
        || Ok::<_, anyhow::Error>((site.middle.counters("wan")?, site.client.counters("eth0")?));
    let (began, before) = (Instant::now(), count()?);
    let rtt = round_trips(&site, began + Duration::from_secs(MEASURED))?;
    let (elapsed, after) = (began.elapsed(), count()?);
    let received = transfers.finish()?;
    let report = site.link.finish()?;
    ensure!(
        report.strays == 0,
        "{} packets were lost beside the limiter",
        report.strays
    );
    // It writes what it has.
    tcpdump.interrupt()?;
    let _ = tcpdump.child().wait()?;
    let bytes = after.1.received_bytes - before.1.received_bytes;
    let went_in = after.0.received_packets - before.0.received_packets;
    let came_out = after.1.received_packets - before.1.received_packets;
    let mut indices: Vec<f64> = (START_UP..START_UP + MEASURED)
        .filter_map(|second| {
            let shares = received.iter().map(|one| one.seconds[second as usize]);
            jain(&shares.collect::<Vec<_>>())
        })
        .collect();
    indices.sort_by(f64::total_cmp);
    let figures = Figures {
        rate: bytes as f64 * 8.0 / elapsed.as_secs_f64(),
        burst: burst(&file)?,
        jain: indices.get(indices.len() / 2).copied().unwrap_or_default(),
        worst: indices.first().copied().unwrap_or_default(),
        drops: went_in.saturating_sub(came_out) as f64 / went_in as f64,
        rtt,
    };
    Ok((figures, report.lateness.p99))
}

/// The most that a bucket of the limit's rate would have had to hold for all that came, from start
/// to end.
fn burst(file: &Path) -> Result<f64> {
    let mut capture = Capture::new(File::open(file).context("tcpdump wrote nothing")?)?;
    let (mut level, mut most, mut last) = (0.0_f64, 0.0_f64, None);
    while let Some(frame) = capture.frame()? {
        let passed = frame.at.saturating_sub(last.unwrap_or(frame.at));
        last = Some(frame.at);
        let drained = passed as f64 / SECOND as f64 * RATE as f64 / 8.0;
        level = (level - drained).max(0.0) + f64::from(frame.wire_len);
        most = most.max(level);
    }
    Ok(most)
}

/// The median round trip of a datagram now and then, in seconds; those that are lost do not count.
fn round_trips(site: &Site, end: Instant) -> Result<f64> {
    // One of the flows' addresses, so it meets the queue that they meet.
    let (near, far) = (
        site.server.enter(|| UdpSocket::bind("192.0.2.1:0"))??,
        site.client.enter(|| UdpSocket::bind("192.0.2.129:7"))??,
    );
    near.connect("192.0.2.129:7")?;
    for socket in [&near, &far] {
        socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    }
    let mut times = Vec::new();
    while Instant::now() < end {
        let began = Instant::now();
        near.send(&[0])?;
        if let Ok((_, from)) = far.recv_from(&mut [0]) {
            far.send_to(&[0], from)?;
            if near.recv(&mut [0]).is_ok() {
                times.push(began.elapsed().as_secs_f64());
            }
        }
        thread::sleep(Duration::from_millis(50));
    }
    times.sort_by(f64::total_cmp);
    (times.get(times.len() / 2).copied()).context("no datagram came back")
}
