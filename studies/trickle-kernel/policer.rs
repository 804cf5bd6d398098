//! Servers behind a policer with a small bucket, with this machine's TCP and with the lab's:
//! [Flach16 §5.2], and Trickle.

use std::fmt::Write;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use tidegate_lab::MILLISECOND;
use tidegate_lab::plan::{ElementKind, QueueKind};
use tidegate_lab::summary::{Throughput, percentile};
use tidegate_limiter::{PolicerConfig, Rate};
use tidegate_pace::Way;
use tidegate_studies::experiment::simulate;
use tidegate_testbed::link::{Ends, Link, LinkPlan};
use tidegate_testbed::namespace::Namespace;

use crate::sender::{self, Kernel, Video};
use crate::viewers::Quality;

const SCENARIO: &str = include_str!("policer.toml");
const BYTES: u64 = 4_000_000;
/// Payload of 1.425 Mbit/s of full IP packets.
const LIMIT: u64 = 1_425_000 * 1448 / 1500;
/// No limit, but packets are spread.
const SPREAD: u64 = 90_000_000_000;
/// Transfers of each kind at the same time, each through a policer of its own.
const RUNS: usize = 5;
const PORT: u16 = 8080;

/// Servers, with the paper's goodput in Mbit/s and loss in percent.
const SERVERS: [(&str, &str, &str); 5] = [
    ("plain", "0.452", "5.2"),
    ("limited to 95 %", "1.38", "~0"),
    ("paced", "1.23", "1.3"),
    ("Trickle at 95 %", "", ""),
    ("the same, headroom 1", "", ""),
];

fn server(kind: usize) -> Video {
    let trickle = |headroom| (Way::TRICKLE, headroom, None);
    let (way, headroom, spread) = match kind {
        0 => (Way::None, 1000, None),
        1 => (Way::None, 1000, Some(LIMIT)),
        2 => (Way::None, 1000, Some(SPREAD)),
        3 => trickle(1200),
        _ => trickle(1000),
    };
    Video {
        rate: LIMIT,
        bytes: BYTES,
        startup: 0,
        way,
        least_wait: Duration::ZERO,
        headroom,
        spread: spread.map(Rate::from_bits_per_second),
    }
}

/// Goodputs in Mbit/s and the share that was dropped, of some transfers.
#[derive(Default)]
struct Transfers {
    goodputs: Vec<f64>,
    packets: u64,
    dropped: u64,
}

impl Transfers {
    fn cells(&mut self) -> String {
        self.goodputs.sort_unstable_by(f64::total_cmp);
        let at = |percent| percentile(&self.goodputs, percent).unwrap_or(f64::NAN);
        let loss = 100.0 * self.dropped as f64 / self.packets.max(1) as f64;
        let (least, most) = (at(0.0), at(100.0));
        format!("{:6.3} ({least:.3}-{most:.3}) {loss:5.1} %", at(50.0))
    }
}

/// Runs both and writes the table.
///
/// # Errors
/// If rights or kernel features are missing.
pub fn run(table: &mut String) -> Result<Quality> {
    let mut lab: [Transfers; 5] = Default::default();
    simulate("policer.toml", SCENARIO, &[], None, |_, finished| {
        let flow = &finished.outcome.flows[0];
        let result = &mut lab[finished.point];
        result.packets += flow.sent_packets;
        result.dropped += flow.dropped;
        for transfer in &flow.completions {
            let goodput = Throughput {
                bytes: transfer.bytes,
                time: transfer.end - transfer.start,
            }
            .bits_per_second();
            result.goodputs.push(goodput / 1e6);
        }
        Ok(())
    })?;
    let (mut kernel, quality) = in_kernel()?;
    writeln!(
        table,
        "4 MB through a policer of 1.5 Mbit/s and 8 kB, RTT 100 ms: goodput in Mbit/s, least and most, and loss\n\
         {:21} {:>14}  {:29} {:29}",
        "", "paper", "kernel", "lab"
    )?;
    for (kind, (name, goodput, loss)) in SERVERS.into_iter().enumerate() {
        let paper = match goodput {
            "" => "-".to_owned(),
            _ => format!("{goodput} {loss:>4} %"),
        };
        writeln!(
            table,
            "{name:21} {paper:>14}  {} {}",
            kernel[kind].cells(),
            lab[kind].cells()
        )?;
    }
    Ok(quality)
}

fn in_kernel() -> Result<([Transfers; 5], Quality)> {
    let kernel = Kernel::new()?;
    let (near, far) = (Namespace::new()?, Namespace::new()?);
    near.run("sysctl", "-qw net.ipv4.tcp_notsent_lowat=131072")?;
    let kinds: Vec<usize> = (0..SERVERS.len() * RUNS)
        .map(|number| number % SERVERS.len())
        .collect();
    let links = (0..kinds.len()).map(|number| line(&near, &far, number));
    let links: Vec<Link> = links.collect::<Result<_>>()?;
    let times: Vec<Result<Duration>> = thread::scope(|scope| {
        let (kernel, near, far) = (&kernel, &near, &far);
        let transfers: Vec<_> = kinds
            .iter()
            .enumerate()
            .map(|(number, &kind)| {
                scope.spawn(move || {
                    thread::sleep(Duration::from_millis(37 * number as u64));
                    transfer(kernel, near, far, number, &server(kind))
                })
            })
            .collect();
        transfers
            .into_iter()
            .map(|one| {
                one.join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    });
    let mut results: [Transfers; 5] = Default::default();
    let mut quality = Quality {
        real_time: true,
        ..Quality::default()
    };
    for ((kind, link), time) in kinds.into_iter().zip(links).zip(times) {
        let report = link.finish()?;
        quality.add(&report);
        let policer = &report.elements[1];
        results[kind].packets += policer.packets;
        results[kind].dropped += policer.dropped;
        let goodput = BYTES as f64 * 8.0 / time?.as_secs_f64() / 1e6;
        results[kind].goodputs.push(goodput);
    }
    Ok((results, quality))
}

fn address(number: usize, host: u8) -> String {
    format!("10.2.{number}.{host}")
}

fn line(near: &Namespace, far: &Namespace, number: usize) -> Result<Link> {
    let (s, c) = (format!("s{number}"), format!("c{number}"));
    let plan = LinkPlan {
        forward: vec![
            ElementKind::Link {
                rate: Rate::from_bits_per_second(100_000_000),
                queue: QueueKind::DropTail {
                    bytes: None,
                    packets: Some(1000),
                },
            },
            ElementKind::Limiter {
                config: PolicerConfig::new(Rate::from_bits_per_second(1_500_000), 8000)?.into(),
                classes: None,
                overhead: 18,
            },
        ],
        round_trips: vec![(address(number, 2).parse()?, 100 * MILLISECOND)],
        seed: number as u64,
        ..LinkPlan::default()
    };
    let link = Link::new(
        Ends {
            near: near.port(&s)?,
            far: far.port(&c)?,
        },
        &plan,
    )?;
    near.ip(&format!("address add {}/24 dev {s}", address(number, 1)))?;
    far.ip(&format!("address add {}/24 dev {c}", address(number, 2)))?;
    Ok(link)
}

/// From the request to the last byte.
fn transfer(
    kernel: &Kernel,
    near: &Namespace,
    far: &Namespace,
    number: usize,
    video: &Video,
) -> Result<Duration> {
    let host = address(number, 1);
    let listener = sender::listen(near, &host, PORT)?;
    thread::scope(|scope| {
        let serve = || sender::send(kernel, sender::accept(&listener)?, video, Instant::now());
        let server = scope.spawn(serve);
        let fetch = || -> Result<Duration> {
            let start = Instant::now();
            let mut socket = TcpStream::connect((host.as_str(), PORT))?;
            socket.write_all(&[0])?;
            let mut left = video.bytes;
            let mut buffer = vec![0; 1 << 16];
            while left > 0 {
                let got = socket.read(&mut buffer)? as u64;
                anyhow::ensure!(got > 0, "the server closed early");
                left -= got;
            }
            Ok(start.elapsed())
        };
        let time = far.enter(fetch)?;
        server
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        time
    })
}
