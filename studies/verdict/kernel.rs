//! What the verdicts say of the kernel's own TCP behind limiters of the kernel and of the gate.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tidegate_lab::MILLISECOND;
use tidegate_limiter::Scheme;
use tidegate_testbed::iperf::{self, Bulk};
use tidegate_testbed::link::LinkPlan;
use tidegate_testbed::site::{LinkPosition, Site};
use tidegate_trace::annotate::TransferSummary;
use tidegate_trace::detect::{Basis, Cause, Judgement, Tidegate};
use tidegate_trace::flow::Settings as Flows;
use tidegate_trace::{Options, Sink, analyse};

use crate::schemes::{Means, Settings};

/// Limiters, and the verdict that is right.
const MEANS: [(&str, Means, Cause); 4] = [
    ("nft policer", Means::Nft, Cause::Policer),
    (
        "gate, policer",
        Means::Gate(Scheme::Policer),
        Cause::Policer,
    ),
    ("tbf", Means::Tbf, Cause::Queue),
    ("htb", Means::Htb, Cause::Queue),
];
/// Rates in bit/s, and bytes that a bucket or a queue holds.
const LIMITS: [(u64, u64); 5] = [
    (5_000_000, 40_000),
    (10_000_000, 100_000),
    (20_000_000, 60_000),
    (30_000_000, 200_000),
    (40_000_000, 400_000),
];
/// Last bytes of the client's addresses, and what the server sends to each with.
const FLOWS: [(u8, &str); 3] = [(129, "reno"), (130, "cubic"), (131, "bbr")];
/// How long each transfer lasts, one after the other, and the time in which it ends.
const LASTING: Duration = Duration::from_secs(5);
const ROOM: Duration = Duration::from_secs(1);
/// Fewer data packets are iperf3's messages, not the transfer.
const LEAST_PACKETS: u64 = 500;

/// Sends through every limiter, prints a line for each transfer, and at last how many are right. Keeps what the server
/// sent in a folder, if one is given.
///
/// # Errors
/// Rights or programs are missing, or a limiter cannot be set.
pub fn print(tidegate: &Path, captures: Option<&Path>) -> Result<()> {
    ensure!(iperf::is_installed(), "iperf3 is missing");
    let (mut right, mut unclear, mut all) = (0, 0, 0);
    for (name, means, truth) in MEANS {
        for (rate, bytes) in LIMITS {
            let kept = captures.map(|folder| {
                let name = name.replace(", ", "-").replace(' ', "-");
                folder.join(format!("{name}-{rate}-{bytes}.pcap"))
            });
            for (transfer, judgement) in transfers(means, rate, bytes, tidegate, kept.as_deref())? {
                let host = match transfer.receiver.ip() {
                    std::net::IpAddr::V4(address) => address.octets()[3],
                    std::net::IpAddr::V6(_) => 0,
                };
                let flow = FLOWS.iter().find(|flow| flow.0 == host);
                println!(
                    "{name:<14} {:>3} Mbit/s {:>4} kB {:<6} {:>6} lost of {:>6}  {} {:.2} ({})",
                    rate / 1_000_000,
                    bytes / 1000,
                    flow.map_or("", |flow| flow.1),
                    transfer.metrics.lost_packets,
                    transfer.metrics.data_packets,
                    judgement.cause,
                    judgement.confidence.unwrap_or(0.0),
                    judgement.reason,
                );
                all += 1;
                right += usize::from(judgement.cause == truth);
                unclear += usize::from(judgement.cause == Cause::Unclear);
            }
        }
    }
    println!("\n{right} of {all} right, {unclear} unclear");
    Ok(())
}

/// One transfer after the other through a limiter, 40 ms away, as the server sees it.
fn transfers(
    means: Means,
    rate: u64,
    bytes: u64,
    tidegate: &Path,
    kept: Option<&Path>,
) -> Result<Vec<(TransferSummary, Judgement)>> {
    let plan = LinkPlan {
        round_trips: vec![("192.0.2.128/25".parse()?, 40 * MILLISECOND)],
        ..LinkPlan::default()
    };
    let site = Site::new(&plan, LinkPosition::Core)?;
    let hosts = FLOWS.map(|flow| flow.0);
    let settings = Settings {
        rate,
        bytes,
        hosts: &hosts,
        tidegate,
    };
    let _kept = means.install(&site.middle, &settings)?;
    let folder = tempfile::tempdir()?;
    let file = kept.map_or_else(|| folder.path().join("server.pcap"), Path::to_path_buf);
    let mut tcpdump = Command::new("tcpdump");
    tcpdump
        .args([
            "-i",
            "eth0",
            "-s",
            "128",
            "-B",
            "16384",
            "--immediate-mode",
            "-w",
        ])
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut tcpdump = site.server.start(&mut tcpdump)?;
    let bulks = FLOWS.into_iter().zip(0..).map(|((host, algorithm), turn)| {
        Ok(Bulk {
            after: (LASTING + ROOM) * turn,
            ..Bulk::new(site.client_address(host)?, algorithm, LASTING)
        })
    });
    let bulks = bulks.collect::<Result<Vec<_>>>()?;
    iperf::run(&site, &bulks)?;
    // It writes what it has, as after Ctrl-C.
    tcpdump.interrupt()?;
    let _ = tcpdump.child().wait()?;
    let options = Options {
        detector: Some(Box::new(Tidegate::new(Basis::Client))),
        ..Options::measuring(Flows::default())
    };
    let mut verdicts = Verdicts::default();
    let capture = File::open(&file).context("tcpdump wrote nothing")?;
    analyse(capture, options, &mut verdicts).whole()?;
    verdicts.0.retain(|(transfer, _)| {
        transfer.sender.ip() == Site::SERVER && transfer.metrics.data_packets >= LEAST_PACKETS
    });
    Ok(verdicts.0)
}

#[derive(Default)]
struct Verdicts(Vec<(TransferSummary, Judgement)>);

impl Sink for Verdicts {
    fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
        self.0.push((*transfer, judgement));
    }
}
