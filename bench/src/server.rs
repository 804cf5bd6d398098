//! What `tidegate serve` costs beside nginx, and beside Caddy and H2O where they are installed: all serve the same files over loopback, in turn in the same run.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::{Figures, median};

/// Clients that fetch one object after the other.
const CLIENTS: usize = 8;
/// For how long they do.
const FETCHING: Duration = Duration::from_secs(4);
/// Viewers that are paced, and for how long they are measured.
const VIEWERS: usize = 200;
const WATCHING: Duration = Duration::from_secs(12);
/// Encoding rate of the video that they watch, in bit/s. All servers send 125 % of it after the start.
const ENCODING: u64 = 2_000_000;
/// Connections that wait, and those whose clients read nothing.
const IDLE: usize = 2_000;
const SLOW: usize = 500;
/// Connections one after the other.
const CONNECTS: usize = 1_000;

/// A part of the measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Objects that are not paced
    Fetch,
    /// Memory of connections
    Memory,
    /// Viewers that are paced
    Paced,
}

/// A server and its settings.
#[derive(Clone, Copy)]
enum Kind {
    Nginx,
    Caddy,
    H2o,
    /// `tidegate serve` with this way to pace.
    Tidegate(&'static str),
}

impl Kind {
    fn name(self) -> String {
        match self {
            Self::Nginx => "nginx".into(),
            Self::Caddy => "caddy".into(),
            Self::H2o => "h2o".into(),
            Self::Tidegate("none") => "tidegate".into(),
            Self::Tidegate(way) => format!("tidegate.{way}"),
        }
    }
}

/// A server that runs; it ends with this.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        let id = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        // nginx's master ends its workers.
        let _ = nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGTERM);
        let began = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && began.elapsed().as_secs() < 5 {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(kind: Kind, program: &Path, folder: &Path) -> Result<Self> {
        match kind {
            Kind::Nginx => Self::nginx(folder),
            Kind::Caddy => Self::caddy(folder),
            Kind::H2o => Self::h2o(folder),
            Kind::Tidegate(way) => Self::tidegate(program, folder, way),
        }
    }

    fn nginx(folder: &Path) -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let place = folder.display();
        let user = if nix::unistd::geteuid().is_root() {
            "user root;"
        } else {
            ""
        };
        let rate = ENCODING / 8 * 5 / 4;
        let config = format!(
            "{user} daemon off; worker_processes auto; worker_rlimit_nofile 20000;
pid {place}/nginx.pid; error_log {place}/nginx.errors;
events {{ worker_connections 9000; }}
http {{
    sendfile on; keepalive_requests 100000000; access_log {place}/nginx.log combined;
    default_type application/octet-stream;
    client_body_temp_path {place}/t1; proxy_temp_path {place}/t2; fastcgi_temp_path {place}/t3;
    uwsgi_temp_path {place}/t4; scgi_temp_path {place}/t5;
    server {{
        listen {address} backlog=4096; root {place}/files;
        location /v.mp4 {{ limit_rate {rate}; limit_rate_after {}; }}
    }}
}}",
            ENCODING / 8
        );
        let path = folder.join("nginx.conf");
        fs::write(&path, config)?;
        Self::run("nginx", &[Path::new("-c"), &path], address)
    }

    fn caddy(folder: &Path) -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let (place, port) = (folder.display(), address.port());
        let config = format!(
            "{{
    admin off
    auto_https off
}}
http://:{port} {{
    bind 127.0.0.1
    root * {place}/files
    file_server
    log {{
        output file {place}/caddy.log
    }}
}}
"
        );
        let path = folder.join("Caddyfile");
        fs::write(&path, config)?;
        Self::run(
            "caddy",
            &[Path::new("run"), Path::new("--config"), &path],
            address,
        )
    }

    fn h2o(folder: &Path) -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let (place, port) = (folder.display(), address.port());
        let config = format!(
            "listen:
  host: 127.0.0.1
  port: {port}
max-connections: 9000
access-log: {place}/h2o.log
error-log: {place}/h2o.errors
hosts:
  default:
    paths:
      /:
        file.dir: {place}/files
"
        );
        let path = folder.join("h2o.conf");
        fs::write(&path, config)?;
        Self::run("h2o", &[Path::new("-c"), &path], address)
    }

    /// Starts another server, and waits until it answers.
    fn run(program: &str, arguments: &[&Path], address: SocketAddr) -> Result<Self> {
        let child = Command::new(program)
            // Where Debian has nginx, which is not in every user's PATH.
            .env(
                "PATH",
                format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default()),
            )
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("{program} does not start"))?;
        let server = Self { child, address };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            if began.elapsed() > Duration::from_secs(5) {
                bail!("{program} does not answer");
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    fn tidegate(program: &Path, folder: &Path, way: &str) -> Result<Self> {
        let mut child = Command::new(program)
            .arg("serve")
            .arg(folder.join("files"))
            .arg("--log")
            .arg(folder.join("tidegate.log"))
            .args(["--listen", "127.0.0.1:0", "--way", way, "--start-up", "1s"])
            .args(["--max-per-address", "100000"])
            .stderr(Stdio::piped())
            .spawn()?;
        let stderr = child.stderr.take().context("it is piped")?;
        let mut lines = BufReader::new(stderr).lines();
        let address = loop {
            let Some(Ok(line)) = lines.next() else {
                bail!("tidegate serve does not start");
            };
            let mut words = line.split(['/', ',', ' ']);
            match words.find_map(|word| word.parse().ok()) {
                Some(address) => break address,
                None => eprintln!("{line}"),
            }
        };
        // Later messages must find a reader.
        thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, address })
    }

    /// Its processes.
    fn processes(&self) -> Vec<u32> {
        let id = self.child.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let children = children.unwrap_or_default();
        let children = children.split_whitespace().filter_map(|id| id.parse().ok());
        std::iter::once(id).chain(children).collect()
    }

    /// Processor time that it used, in seconds.
    fn cpu(&self) -> f64 {
        let ticks = |id: &u32| {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            // The name, in brackets, may have spaces. Fields 14 and 15 of proc(5).
            let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
            let ticks = rest.split_whitespace().skip(11).take(2);
            ticks
                .filter_map(|field| field.parse::<f64>().ok())
                .sum::<f64>()
        };
        // USER_HZ is 100 everywhere.
        self.processes().iter().map(ticks).sum::<f64>() / 100.0
    }

    /// Memory that it uses in bytes; shared memory counts in equal parts.
    fn memory(&self) -> f64 {
        let of = |id: &u32| {
            let text = fs::read_to_string(format!("/proc/{id}/smaps_rollup")).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            number.unwrap_or(0.0) * 1024.0
        };
        self.processes().iter().map(of).sum()
    }
}

/// A connection, whose client waits for data, but not for ever.
fn connect(address: SocketAddr) -> Result<TcpStream> {
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    Ok(socket)
}

/// A connection that sent a request.
fn ask(address: SocketAddr, path: &str) -> Result<TcpStream> {
    let mut socket = connect(address)?;
    request(&mut socket, path)?;
    Ok(socket)
}

fn request(socket: &mut TcpStream, path: &str) -> Result<()> {
    Ok(socket.write_all(format!("GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n").as_bytes())?)
}

/// Reads an answer, whose body has this length.
fn answer(socket: &mut TcpStream, buffer: &mut [u8], length: usize) -> Result<()> {
    let (mut got, mut head) = (0, None);
    loop {
        let count = socket.read(&mut buffer[got.min(64 << 10)..])?;
        if count == 0 {
            bail!("the server hung up");
        }
        got += count;
        if head.is_none() {
            let end = buffer[..got]
                .windows(4)
                .position(|four| four == b"\r\n\r\n");
            head = end.map(|end| end + 4);
            if head.is_some() && !buffer.starts_with(b"HTTP/1.1 200") {
                bail!(
                    "the server answers {}",
                    String::from_utf8_lossy(&buffer[..got.min(60)])
                );
            }
        }
        if head.is_some_and(|head| got >= head + length) {
            return Ok(());
        }
    }
}

/// Fetches objects as fast as they come: how many a second, and processor time of each in µs.
fn fetch(server: &Server, path: &str, length: usize) -> Result<(f64, f64)> {
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let client = || -> Result<()> {
        let mut socket = connect(server.address)?;
        let mut buffer = vec![0; 512 << 10];
        while !stop.load(Ordering::Relaxed) {
            request(&mut socket, path)?;
            answer(&mut socket, &mut buffer, length)?;
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        thread::sleep(FETCHING / 8);
        let before = (server.cpu(), count.load(Ordering::Relaxed), Instant::now());
        thread::sleep(FETCHING);
        let objects = (count.load(Ordering::Relaxed) - before.1) as f64;
        let (cpu, time) = (server.cpu() - before.0, before.2.elapsed().as_secs_f64());
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().expect("clients do not panic")?;
        }
        Ok((objects / time, cpu / objects * 1e6))
    })
}

/// Paced viewers: what each gets in bit/s, and processor time in ms for a megabyte.
fn watch(server: &Server) -> Result<(f64, f64)> {
    let (stop, bytes) = (AtomicBool::new(false), AtomicU64::new(0));
    let viewer = || -> Result<()> {
        let mut socket = ask(server.address, "/v.mp4")?;
        let mut buffer = vec![0; 64 << 10];
        while !stop.load(Ordering::Relaxed) {
            let count = socket.read(&mut buffer)?;
            bytes.fetch_add(count as u64, Ordering::Relaxed);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let viewers: Vec<_> = (0..VIEWERS)
            .map(|_| {
                // They do not come all at once.
                thread::sleep(Duration::from_millis(5));
                scope.spawn(viewer)
            })
            .collect();
        thread::sleep(Duration::from_secs(2));
        let before = (server.cpu(), bytes.load(Ordering::Relaxed), Instant::now());
        thread::sleep(WATCHING);
        let bytes = (bytes.load(Ordering::Relaxed) - before.1) as f64;
        let (cpu, time) = (server.cpu() - before.0, before.2.elapsed().as_secs_f64());
        stop.store(true, Ordering::Relaxed);
        for viewer in viewers {
            viewer.join().expect("viewers do not panic")?;
        }
        Ok((bytes * 8.0 / time / VIEWERS as f64, cpu * 1e9 / bytes))
    })
}

/// Memory that each of these connections takes in bytes, and what stays of them all when they are gone.
fn hold(server: &Server, count: usize, open: impl Fn() -> Result<TcpStream>) -> Result<(f64, f64)> {
    let before = server.memory();
    let held: Vec<_> = (0..count).map(|_| open()).collect::<Result<_>>()?;
    thread::sleep(Duration::from_secs(2));
    let each = (server.memory() - before) / count as f64;
    drop(held);
    thread::sleep(Duration::from_secs(4));
    Ok((each, server.memory() - before))
}

/// The files that all servers serve: 1 MiB, 1 kB, a large one, and a video.
fn files(program: &Path) -> Result<PathBuf> {
    let folder = std::env::current_dir()?.join("target/bench/server");
    let files = folder.join("files");
    fs::create_dir_all(&files)?;
    fs::write(files.join("1m.bin"), vec![b'x'; 1 << 20])?;
    fs::write(files.join("1k.bin"), vec![b'x'; 1000])?;
    fs::File::create(files.join("large.bin"))?.set_len(256 << 20)?;
    let made = Command::new(program)
        .arg("make-video")
        .arg(files.join("v.mp4"))
        .args([
            "--duration",
            "5min",
            "--rate",
            &format!("{}kbit", ENCODING / 1000),
        ])
        .status()
        .with_context(|| {
            format!(
                "{} is not built: cargo build --release -p tidegate",
                program.display()
            )
        })?;
    if !made.success() {
        bail!("tidegate make-video failed");
    }
    // In memory, as a video that many watch is.
    fs::read(files.join("v.mp4"))?;
    Ok(folder)
}

fn is_installed(program: &str) -> bool {
    Command::new(program)
        .arg("--help")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// Figures of all rounds: by name, with their unit.
type Found = Vec<(String, &'static str, Vec<f64>)>;

fn note(found: &mut Found, name: String, unit: &'static str, value: f64) {
    match found.iter_mut().find(|(known, ..)| *known == name) {
        Some((.., values)) => values.push(value),
        None => found.push((name, unit, vec![value])),
    }
}

/// Measures all servers in turn, as often as there are rounds. `only`: this part alone.
pub fn measure(
    program: &Path,
    only: Option<Part>,
    rounds: usize,
    figures: &mut Figures,
) -> Result<()> {
    let wanted = |part| only.is_none_or(|only| only == part);
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    let folder = files(program)?;
    let mut found = Found::new();
    for round in 1..=rounds {
        for kind in [Kind::Nginx, Kind::Tidegate("none"), Kind::Caddy, Kind::H2o] {
            eprintln!("round {round}: {}", kind.name());
            if only == Some(Part::Paced) {
                continue;
            }
            if matches!(kind, Kind::Caddy | Kind::H2o) && !is_installed(&kind.name()) {
                eprintln!("{} is missing (apt-get install {0}): left out", kind.name());
                continue;
            }
            let mut add = |what, unit, value| {
                note(&mut found, format!("{}.{what}", kind.name()), unit, value);
            };
            if wanted(Part::Fetch) {
                let server = Server::start(kind, program, &folder)?;
                let began = Instant::now();
                for _ in 0..CONNECTS {
                    drop(TcpStream::connect(server.address)?);
                }
                add("connects", "s", began.elapsed().as_secs_f64());
                let (rate, cpu) = fetch(&server, "/1m.bin", 1 << 20)?;
                add("1MiB.rate", "objects/s", rate);
                add("1MiB.cpu", "us", cpu);
                let (rate, cpu) = fetch(&server, "/1k.bin", 1000)?;
                add("1kB.rate", "objects/s", rate);
                add("1kB.cpu", "us", cpu);
            }
            if wanted(Part::Memory) {
                let server = Server::start(kind, program, &folder)?;
                let (each, _) = hold(&server, IDLE, || Ok(TcpStream::connect(server.address)?))?;
                add("silent.memory", "bytes", each);
                let (each, left) = hold(&server, IDLE, || {
                    let mut socket = ask(server.address, "/1k.bin")?;
                    answer(&mut socket, &mut vec![0; 128 << 10], 1000)?;
                    Ok(socket)
                })?;
                add("idle.memory", "bytes", each);
                add("idle.stays", "bytes", left);
                let (each, left) = hold(&server, SLOW, || ask(server.address, "/large.bin"))?;
                add("slow.memory", "bytes", each);
                add("slow.stays", "bytes", left);
            }
        }
        if !wanted(Part::Paced) {
            continue;
        }
        let ways = ["trickle", "application-64k", "max-pacing-rate"];
        let ways = ways.map(Kind::Tidegate);
        for kind in [Kind::Nginx].into_iter().chain(ways) {
            eprintln!("round {round}: {}, paced", kind.name());
            let server = Server::start(kind, program, &folder)?;
            let (rate, cpu) = watch(&server)?;
            note(
                &mut found,
                format!("{}.paced.rate", kind.name()),
                "bit/s",
                rate,
            );
            note(
                &mut found,
                format!("{}.paced.cpu", kind.name()),
                "ms/MB",
                cpu,
            );
        }
    }
    let found: Vec<_> = found
        .into_iter()
        .map(|(name, unit, values)| (name, unit, median(values)))
        .collect();
    for (name, unit, value) in &found {
        figures.add(name, *value, unit);
    }
    // Processor time and memory over those of nginx.
    for (name, _, value) in &found {
        let Some((server, what)) = [
            "paced.cpu",
            "1MiB.cpu",
            "1kB.cpu",
            "silent.memory",
            "idle.memory",
            "slow.memory",
        ]
        .iter()
        .find_map(|what| Some((name.strip_suffix(what)?, what))) else {
            continue;
        };
        let nginx = found
            .iter()
            .find(|(other, ..)| *other == format!("nginx.{what}"));
        if let Some((.., nginx)) = nginx.filter(|_| server != "nginx.") {
            figures.add(format!("{name}_over_nginx"), value / nginx, "x");
        }
    }
    fs::remove_dir_all(&folder)?;
    Ok(())
}
