//! A hundred viewers at once, four ways, each behind a line of their own in real time.

use std::net::TcpListener;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tidegate_lab::MILLISECOND;
use tidegate_lab::kernel::link::{Link, LinkPlan, LinkReport};
use tidegate_lab::kernel::namespace::Namespace;
use tidegate_lab::plan::{ElementKind, QueueKind};
use tidegate_lab::playback::Viewing;
use tidegate_limiter::Rate;
use tidegate_pace::Way;

use crate::capture::{self, Seen};
use crate::sender::{self, Kernel, Video};

/// The groups of [Trickle §3].
pub const GROUPS: [(&str, Way); 4] = [
    ("baseline1", Way::APPLICATION_64K),
    ("baseline2", Way::APPLICATION_64K),
    ("Trickle", Way::TRICKLE),
    ("shrunk-block", Way::APPLICATION_16K),
];
/// Classes of bandwidth as Table 1 has them, and the line of ours.
pub const BANDWIDTHS: [(&str, u64); 6] = [
    ("< 0.5", 400_000),
    ("0.5-1", 750_000),
    ("1-2", 1_500_000),
    ("2-4", 3_000_000),
    ("4-8", 6_000_000),
    (">= 8", 16_000_000),
];
/// Viewers of each group at each bandwidth: their encoding rates in bit/s and round trips in ms.
const VIEWERS: [(u64, u64); 4] = [(300_000, 100), (450_000, 30), (600_000, 70), (800_000, 50)];
/// Start-up and length of each video in s.
const STARTUP: u64 = 30;
const LENGTH: u64 = 90;
const QUEUE: u64 = 40;
/// From a viewer to the next.
const APART: Duration = Duration::from_millis(400);
/// What the viewer fetches beside the video, in turn: 100 kB in the mean, each 5 s.
const PAGES: [u64; 6] = [10_000, 20_000, 40_000, 80_000, 160_000, 290_000];
const PAUSES: [u64; 5] = [1, 9, 3, 7, 5];
const VIDEO: u16 = 8080;
const WEB: u16 = 8081;

/// A viewer, and what became of the connection.
pub struct Viewer {
    pub group: usize,
    pub bandwidth: usize,
    pub seen: Seen,
    pub viewing: Viewing,
    /// Streaming rate over the target rate.
    pub rate: f64,
}

/// How well the machine kept up.
#[derive(Default)]
pub struct Quality {
    /// Largest 99th percentile of lateness of all lines, ms.
    pub late: f64,
    pub real_time: bool,
    pub strays: u64,
}

impl Quality {
    /// Adds a line's.
    pub fn add(&mut self, report: &LinkReport) {
        self.late = self.late.max(report.lateness.p99 as f64 / 1e6);
        self.real_time &= report.real_time;
        self.strays += report.strays;
    }
}

struct Seat {
    group: usize,
    bandwidth: usize,
    video: Video,
    rtt: u64,
}

fn seats() -> Vec<Seat> {
    let mut seats = Vec::new();
    for (rate, rtt) in VIEWERS {
        for bandwidth in 0..BANDWIDTHS.len() {
            for (group, &(_, way)) in GROUPS.iter().enumerate() {
                let video = Video {
                    rate,
                    bytes: rate / 8 * LENGTH,
                    startup: rate / 8 * STARTUP,
                    way,
                    least_wait: Duration::from_millis(100),
                    headroom: 1200,
                    spread: None,
                };
                seats.push(Seat {
                    group,
                    bandwidth,
                    video,
                    rtt,
                });
            }
        }
    }
    seats
}

/// Plays all, with `tcp_slow_start_after_idle` as told.
///
/// # Errors
/// If rights or kernel features are missing.
pub fn run(forget: bool) -> Result<(Vec<Viewer>, Quality)> {
    let kernel = Kernel::new()?;
    let folder = tempfile::tempdir()?;
    let (server, client) = (Namespace::new()?, Namespace::new()?);
    for (setting, value) in [
        ("tcp_slow_start_after_idle", if forget { "1" } else { "0" }),
        // A writer that TCP holds back shall not fill a buffer for minutes.
        ("tcp_notsent_lowat", "131072"),
    ] {
        server.run("sysctl", &format!("-qw net.ipv4.{setting}={value}"))?;
    }
    let seats = seats();
    let mut links = Vec::new();
    for (number, seat) in seats.iter().enumerate() {
        links.push(line(&server, &client, number, seat, folder.path())?);
    }
    let origin = Instant::now() + Duration::from_millis(200);
    let outcomes: Vec<Result<Viewing>> = thread::scope(|scope| {
        let (kernel, server, client) = (&kernel, &server, &client);
        let viewers: Vec<_> = seats
            .iter()
            .enumerate()
            .map(|(number, seat)| {
                scope.spawn(move || {
                    let begin = origin + APART * number as u32;
                    thread::sleep(begin.saturating_duration_since(Instant::now()));
                    play(kernel, server, client, number, &seat.video, origin)
                })
            })
            .collect();
        viewers
            .into_iter()
            .map(|viewer| {
                viewer
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    });
    let mut quality = Quality {
        real_time: true,
        ..Quality::default()
    };
    for link in links {
        let report = link.finish()?;
        quality.add(&report);
    }
    let mut viewers = Vec::new();
    for (number, (seat, viewing)) in seats.iter().zip(outcomes).enumerate() {
        let name = |way: &str| folder.path().join(format!("{number}.{way}.pcap"));
        let seen = capture::read(&name("there"), &name("back"), VIDEO, seat.video.startup)?;
        let target = seat.video.rate as f64 * 1.25 / 8.0;
        viewers.push(Viewer {
            group: seat.group,
            bandwidth: seat.bandwidth,
            rate: seen.delivered as f64 / seen.seconds / target,
            seen,
            viewing: viewing.with_context(|| format!("viewer {number}"))?,
        });
    }
    Ok((viewers, quality))
}

fn address(number: usize, host: u8) -> String {
    format!("10.1.{number}.{host}")
}

/// A viewer's line, with captures beside the server.
fn line(
    server: &Namespace,
    client: &Namespace,
    number: usize,
    seat: &Seat,
    folder: &Path,
) -> Result<Link> {
    let (near, far) = (format!("s{number}"), format!("c{number}"));
    let tap = |way: &str| ElementKind::Tap {
        file: folder.join(format!("{number}.{way}.pcap")),
        snaplen: 96,
    };
    let plan = LinkPlan {
        forward: vec![
            tap("there"),
            ElementKind::Link {
                rate: Rate::from_bits_per_second(BANDWIDTHS[seat.bandwidth].1),
                queue: QueueKind::DropTail {
                    bytes: None,
                    packets: Some(QUEUE),
                },
            },
        ],
        back: vec![tap("back")],
        round_trips: vec![(address(number, 2).parse()?, seat.rtt * MILLISECOND)],
        seed: number as u64,
    };
    let link = Link::new(server.port(&near)?, client.port(&far)?, &plan)?;
    server.ip(&format!("address add {}/24 dev {near}", address(number, 1)))?;
    client.ip(&format!("address add {}/24 dev {far}", address(number, 2)))?;
    Ok(link)
}

/// A viewer and the servers of its line, to the end of the video.
fn play(
    kernel: &Kernel,
    server: &Namespace,
    client: &Namespace,
    number: usize,
    video: &Video,
    origin: Instant,
) -> Result<Viewing> {
    let host = address(number, 1);
    let videos = sender::listen(server, &host, VIDEO)?;
    let pages = sender::listen(server, &host, WEB)?;
    pages.set_nonblocking(true)?;
    let over = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let serve = || sender::send(kernel, sender::accept(&videos)?, video, origin);
            if let Err(error) = serve() {
                eprintln!("viewer {number}: {error:#}");
            }
        });
        scope.spawn(|| web(client, &pages, &host, number, &over));
        let viewing = client.enter(|| sender::watch((&host, VIDEO), video, origin))?;
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        viewing
    })
}

/// Fetches pages beside the video until it is over: both ends.
fn web(
    client: &Namespace,
    pages: &TcpListener,
    host: &str,
    number: usize,
    over: &std::sync::atomic::AtomicBool,
) {
    use std::io::{Read, Write};
    use std::sync::atomic::Ordering;
    let is_over = || over.load(Ordering::Relaxed);
    let mut turn = number;
    let fetch = || -> Result<()> {
        while !is_over() {
            for _ in 0..PAUSES[turn % PAUSES.len()] * 20 {
                if is_over() {
                    return Ok(());
                }
                thread::sleep(Duration::from_millis(50));
            }
            let size = PAGES[turn % PAGES.len()];
            turn += 1;
            let mut reader = std::net::TcpStream::connect((host, WEB))?;
            let (mut writer, _) = loop {
                match pages.accept() {
                    Ok(accepted) => break accepted,
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                        thread::sleep(Duration::from_millis(5));
                    }
                    Err(error) => return Err(error.into()),
                }
            };
            thread::scope(|scope| {
                scope.spawn(move || {
                    let _ = writer.write_all(&vec![0; size as usize]);
                });
                let mut buffer = vec![0; 1 << 16];
                while reader.read(&mut buffer).is_ok_and(|length| length > 0) {}
            });
        }
        Ok(())
    };
    match client.enter(fetch) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => eprintln!("viewer {number}, web: {error:#}"),
        Err(error) => eprintln!("viewer {number}, web: {error}"),
    }
}
