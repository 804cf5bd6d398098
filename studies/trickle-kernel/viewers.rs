//! A hundred and twenty-five viewers at once, five ways, each behind a line of their own in real time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tidegate_lab::MILLISECOND;
use tidegate_lab::plan::{ElementKind, QueueKind};
use tidegate_limiter::Rate;
use tidegate_testbed::link::{Ends, Link, LinkPlan, LinkReport};
use tidegate_testbed::namespace::{Namespace, Process};

use crate::capture::{self, Seen};
use crate::sender;

/// The groups of [Trickle §3], and nginx: what a group is called, and its server's `--way`.
pub const GROUPS: [(&str, &str); 5] = [
    ("baseline1", "application-64k"),
    ("baseline2", "application-64k"),
    ("Trickle", "trickle"),
    ("shrunk-block", "application-16k"),
    ("nginx", "limit_rate"),
];
const TRICKLE: usize = 2;
const NGINX: usize = 4;
/// The log of Trickle's server.
const LOG: &str = "trickle.jsonl";
/// How long the last lines of it may take.
const LAST_LINES: Duration = Duration::from_secs(5);
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
/// One more of each group in the class that most of DC1's flows are in, at their mean target rate: 25 in all.
const ONE_MORE: (u64, u64, usize) = (540_000, 40, 4);
/// What servers send after the start-up, over the encoding rate, in percent.
const THROTTLED: u64 = 125;
/// Start-up and length of each video in s.
const STARTUP: u64 = 30;
const LENGTH: u64 = 90;
/// They leave after so long.
const WATCH: Duration = Duration::from_secs(150);
const QUEUE: u64 = 40;
/// From a viewer to the next.
const APART: Duration = Duration::from_millis(400);
/// What the viewer fetches beside the video, in turn: 100 kB in the mean, each 5 s.
const PAGES: [u64; 6] = [10_000, 20_000, 40_000, 80_000, 160_000, 290_000];
const PAUSES: [u64; 5] = [1, 9, 3, 7, 5];
const WEB: u16 = 9000;

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
    rate: u64,
    rtt: u64,
}

/// Bytes that a video of this encoding rate starts with, and bytes a second that servers send after them.
const fn start_and_target(rate: u64) -> (u64, u64) {
    (rate / 8 * STARTUP, rate / 8 * THROTTLED / 100)
}

/// Everybody's seat; of these, those at some of the bandwidths, if they are named.
fn seats(only: &[usize]) -> Vec<Seat> {
    let places = VIEWERS
        .iter()
        .flat_map(|&(rate, rtt)| (0..BANDWIDTHS.len()).map(move |at| (rate, rtt, at)));
    places
        .chain([ONE_MORE])
        .filter(|(_, _, at)| only.is_empty() || only.contains(at))
        .flat_map(|(rate, rtt, bandwidth)| {
            (0..GROUPS.len()).map(move |group| Seat {
                group,
                bandwidth,
                rate,
                rtt,
            })
        })
        .collect()
}

/// Plays all, or those at some bandwidths, with `tcp_slow_start_after_idle` as given. `alone`: no web pages
/// use the lines of the viewers.
///
/// # Errors
/// If rights or kernel features are missing.
pub fn run(forget: bool, alone: bool, only: &[usize]) -> Result<(Vec<Viewer>, Quality)> {
    let folder = tempfile::tempdir()?;
    let (server, client) = (Namespace::new()?, Namespace::new()?);
    let forget = if forget { "1" } else { "0" };
    let setting = format!("-qw net.ipv4.tcp_slow_start_after_idle={forget}");
    server.run("sysctl", &setting)?;
    make_videos(folder.path())?;
    let seats = seats(only);
    let mut links = Vec::new();
    for (number, seat) in seats.iter().enumerate() {
        links.push(line(&server, &client, number, seat, folder.path())?);
    }
    let servers = serve(&server, folder.path())?;
    thread::sleep(Duration::from_secs(1));
    let over = AtomicBool::new(false);
    let viewings = thread::scope(|scope| {
        let (server, client, over) = (&server, &client, &over);
        for number in (0..seats.len()).filter(|_| !alone) {
            scope.spawn(move || web(server, client, number, over));
        }
        let viewings = play(client, &seats);
        over.store(true, Ordering::Relaxed);
        viewings
    })?;
    let trickles = seats.iter().filter(|seat| seat.group == TRICKLE).count();
    by_clamp(&folder.path().join(LOG), trickles)?;
    drop(servers);
    let mut quality = Quality {
        real_time: true,
        ..Quality::default()
    };
    for link in links {
        let report = link.finish()?;
        quality.add(&report);
    }
    let mut viewers = Vec::new();
    for (number, (seat, viewing)) in seats.iter().zip(viewings).enumerate() {
        let name = |way: &str| folder.path().join(format!("{number}.{way}.pcap"));
        let (startup, target) = start_and_target(seat.rate);
        let seen = capture::read(&name("there"), &name("back"), port(seat.group), startup)?;
        viewers.push(Viewer {
            group: seat.group,
            bandwidth: seat.bandwidth,
            rate: seen.delivered as f64 / seen.seconds / target as f64,
            seen,
            viewing,
        });
    }
    // Without a throttling phase a viewer does not count [Trickle §3].
    viewers.retain(|viewer| viewer.seen.sent > 0);
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
    let tap = ElementKind::Tap { snaplen: 96 };
    let capture = |way: &str| folder.join(format!("{number}.{way}.pcap"));
    let plan = LinkPlan {
        forward: vec![
            tap.clone(),
            ElementKind::Link {
                rate: Rate::from_bits_per_second(BANDWIDTHS[seat.bandwidth].1),
                queue: QueueKind::DropTail {
                    bytes: None,
                    packets: Some(QUEUE),
                },
            },
        ],
        back: vec![tap],
        captures: vec![capture("there"), capture("back")],
        round_trips: vec![(address(number, 2).parse()?, seat.rtt * MILLISECOND)],
        seed: number as u64,
        ..LinkPlan::default()
    };
    let link = Link::new(
        Ends {
            near: server.port(&near)?,
            far: client.port(&far)?,
        },
        &plan,
    )?;
    server.ip(&format!("address add {}/24 dev {near}", address(number, 1)))?;
    // A namespace's default need not be what the paper's servers had.
    let network = format!("10.1.{number}.0/24");
    server.ip(&format!("route change {network} dev {near} congctl cubic"))?;
    client.ip(&format!("address add {}/24 dev {far}", address(number, 2)))?;
    Ok(link)
}

/// The program beside this one.
fn tidegate() -> Result<Command> {
    let program = std::env::current_exe()?.with_file_name("tidegate");
    let exists = program.exists();
    anyhow::ensure!(exists, "{} is missing: make build", program.display());
    Ok(Command::new(program))
}

/// Videos of all rates, in a folder.
fn make_videos(folder: &Path) -> Result<()> {
    for rate in rates() {
        let status = tidegate()?
            .arg("make-video")
            .arg(folder.join(format!("{rate}.mp4")))
            .args(["--duration", &format!("{LENGTH}s")])
            .args(["--rate", &format!("{}kbit", rate / 1000)])
            .status()?;
        anyhow::ensure!(status.success(), "tidegate make-video failed");
    }
    Ok(())
}

/// A server for each group, each at a port of its own.
fn serve(server: &Namespace, videos: &Path) -> Result<Vec<Process>> {
    let start = |(group, (_, way)): (usize, &(&str, &str))| {
        if group == NGINX {
            let mut command = nginx(videos)?;
            return server
                .start(&mut command)
                .context("nginx (Debian has it as nginx-light)");
        }
        let mut command = tidegate()?;
        command
            .arg("serve")
            .arg(videos)
            .args(["--listen", &format!("0.0.0.0:{}", port(group))])
            .args(["--way", way, "--start-up", &format!("{STARTUP}s")])
            .stderr(Stdio::null());
        if group == TRICKLE {
            let log = videos.join(LOG);
            command.arg("--log").arg(log).args(["--log-format", "json"]);
        } else {
            command.arg("--no-log");
        }
        Ok(server.start(&mut command)?)
    };
    GROUPS.iter().enumerate().map(start).collect()
}

/// nginx with the same rates and start-ups. Its rates belong to places, so each video has one.
fn nginx(videos: &Path) -> Result<Command> {
    let (folder, port) = (videos.display(), port(NGINX));
    let place = |rate: u64| {
        let (after, limit) = start_and_target(rate);
        format!("location = /{rate}.mp4 {{ limit_rate {limit}; limit_rate_after {after}; }}\n")
    };
    let places: String = rates().map(place).collect();
    let config = format!(
        "daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.errors;
events {{}}
http {{
    sendfile on; access_log off; default_type video/mp4;
    client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
    uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
    server {{ listen 0.0.0.0:{port}; root {folder}; {places} }}
}}"
    );
    let path = videos.join("nginx.conf");
    std::fs::write(&path, config)?;
    let mut command = Command::new("/usr/sbin/nginx");
    command.arg("-c").arg(path).stderr(Stdio::null());
    Ok(command)
}

/// Encoding rates of all videos.
fn rates() -> impl Iterator<Item = u64> {
    VIEWERS.iter().map(|&(rate, _)| rate).chain([ONE_MORE.0])
}

/// Waits for the lines of this many connections in the log of Trickle's server. It is an error if the
/// clamp did not pace them all, since the server falls back without a word to us.
fn by_clamp(log: &Path, viewers: usize) -> Result<()> {
    let begin = Instant::now();
    loop {
        let lines = std::fs::read_to_string(log).with_context(|| log.display().to_string())?;
        let connections = connections(&lines)?;
        if connections >= viewers {
            return Ok(());
        }
        anyhow::ensure!(
            begin.elapsed() < LAST_LINES,
            "the log of Trickle's server has {connections} connections of {viewers} viewers"
        );
        thread::sleep(Duration::from_millis(50));
    }
}

/// How many connections a server's log has, all paced by the clamp.
fn connections(lines: &str) -> Result<usize> {
    let mut count = 0;
    // The last line may not be there in full.
    let end = lines.rfind('\n').unwrap_or(0);
    for (number, line) in lines[..end].lines().enumerate() {
        if line.contains(r#""event":"connection""#) {
            anyhow::ensure!(
                line.contains(r#""paced_by":"clamp""#),
                "Trickle did not run: by line {} of its server's log the clamp did not pace a \
                 connection (`tidegate pace` says what is missing): {line}",
                number + 1
            );
            count += 1;
        }
    }
    Ok(count)
}

fn port(group: usize) -> u16 {
    8080 + group as u16
}

/// What a viewer of `tidegate play` saw.
#[derive(Debug, Clone, Copy, Default)]
pub struct Viewing {
    /// s.
    pub join: f64,
    pub rebufferings: f64,
    /// 1/s.
    pub frequency: f64,
}

/// All viewers, one after the other, as long as they watch. By seat.
fn play(client: &Namespace, seats: &[Seat]) -> Result<Vec<Viewing>> {
    let mut command = tidegate()?;
    command.arg("play");
    for (number, seat) in seats.iter().enumerate() {
        let (host, port) = (address(number, 1), port(seat.group));
        command.arg(format!("http://{host}:{port}/{}.mp4", seat.rate));
    }
    let apart = APART.as_millis() * seats.len() as u128;
    command
        .args(["--viewers", &seats.len().to_string()])
        .args(["--arrivals", &format!("spread:{apart}ms")])
        .args(["--watch", &format!("{}s", WATCH.as_secs())])
        .args(["--start-up", &format!("{STARTUP}s")])
        .args(["--start", "2s", "--restart", "5s", "--format", "csv"])
        .stdout(Stdio::piped());
    let output = client.start(&mut command)?.output()?;
    let mut reader = csv::Reader::from_reader(output.stdout.as_slice());
    let headers = reader.headers()?.clone();
    let column = |name: &str| {
        let place = headers.iter().position(|header| header == name);
        place.with_context(|| format!("tidegate play has no column {name}"))
    };
    let (url, join) = (column("url")?, column("join_seconds")?);
    let (rebufferings, frequency) = (column("rebufferings")?, column("rebuffering_per_second")?);
    let mut seen = vec![Viewing::default(); seats.len()];
    for record in reader.records() {
        let record = record?;
        let number = record[url]
            .split('.')
            .nth(2)
            .and_then(|part| part.parse().ok());
        let number: usize = number.context("the number of a viewer's line")?;
        let value = |column: usize| record[column].parse().unwrap_or(f64::NAN);
        seen[number] = Viewing {
            join: value(join),
            rebufferings: value(rebufferings),
            frequency: value(frequency),
        };
    }
    Ok(seen)
}

/// Fetches pages beside the video until it is over: both ends.
fn web(server: &Namespace, client: &Namespace, number: usize, over: &AtomicBool) {
    let host = address(number, 1);
    let pages = match sender::listen(server, &host, WEB) {
        Ok(pages) => pages,
        Err(error) => return eprintln!("viewer {number}, web: {error:#}"),
    };
    let mut turn = number;
    let mut fetch = || -> Result<()> {
        loop {
            for _ in 0..PAUSES[turn % PAUSES.len()] * 20 {
                if over.load(Ordering::Relaxed) {
                    return Ok(());
                }
                thread::sleep(Duration::from_millis(50));
            }
            let size = PAGES[turn % PAGES.len()];
            turn += 1;
            // The kernel takes the connection before anybody accepts it.
            let mut reader = TcpStream::connect((host.as_str(), WEB))?;
            let (mut writer, _) = pages.accept()?;
            thread::scope(|scope| {
                scope.spawn(move || {
                    let _ = writer.write_all(&vec![0; size as usize]);
                });
                let mut buffer = vec![0; 1 << 16];
                while reader.read(&mut buffer).is_ok_and(|length| length > 0) {}
            });
        }
    };
    match client.enter(&mut fetch) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => eprintln!("viewer {number}, web: {error:#}"),
        Err(error) => eprintln!("viewer {number}, web: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_fell_back_is_told_from_trickle() {
        let line = |event: &str, by: &str| {
            format!("{{\"event\":\"{event}\",\"way\":\"trickle\",\"paced_by\":\"{by}\"}}\n")
        };
        let (response, paced) = (line("request", "clamp"), line("connection", "clamp"));
        let mut lines = [response, paced.clone(), paced].concat();
        assert_eq!(connections(&lines).expect("all by the clamp"), 2);
        lines += &line("connection", "fallback");
        let error = connections(&lines).expect_err("a fallback").to_string();
        assert!(
            error.starts_with("Trickle did not run: by line 4 "),
            "{error}"
        );
    }
}
