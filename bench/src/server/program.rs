//! Servers that run, and their settings.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Encoding rate of the video that viewers watch, in bit/s. All servers send 125 % of it after the start.
pub const ENCODING: u64 = 2_000_000;

/// A server and its settings.
#[derive(Clone, Copy)]
pub enum Kind {
    Nginx,
    /// nginx that writes at most this at once (`sendfile_max_chunk`), and so paces by blocks.
    NginxBlocks(&'static str),
    Caddy,
    H2o,
    /// `tidegate serve` with this way to pace.
    Tidegate(&'static str),
}

impl Kind {
    pub fn name(self) -> String {
        match self {
            Self::Nginx => "nginx".into(),
            Self::NginxBlocks(size) => format!("nginx.blocks-{size}"),
            Self::Caddy => "caddy".into(),
            Self::H2o => "h2o".into(),
            Self::Tidegate("none") => "tidegate".into(),
            Self::Tidegate(way) => format!("tidegate.{way}"),
        }
    }
}

/// What servers need.
pub struct Place {
    /// `tidegate`.
    pub program: PathBuf,
    /// The folder with settings and logs, with the files that are served in `files`.
    pub folder: PathBuf,
    /// Certificate and key, for TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
}

/// A server that runs; it ends with this.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
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
    pub fn start(kind: Kind, place: &Place) -> Result<Self> {
        match kind {
            Kind::Nginx => Self::nginx(place, ""),
            Kind::NginxBlocks(size) => Self::nginx(place, &format!("sendfile_max_chunk {size};")),
            Kind::Caddy => Self::caddy(&place.folder),
            Kind::H2o => Self::h2o(&place.folder),
            Kind::Tidegate(way) => Self::tidegate(place, way),
        }
    }

    fn nginx(Place { folder, tls, .. }: &Place, pacing: &str) -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let place = folder.display();
        let (ssl, certificate) = match tls {
            Some((certificate, key)) => (
                "ssl",
                format!(
                    "ssl_protocols TLSv1.3; ssl_certificate {}; ssl_certificate_key {};",
                    certificate.display(),
                    key.display()
                ),
            ),
            None => ("", String::new()),
        };
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
        listen {address} {ssl} backlog=4096; root {place}/files; {certificate}
        location /v.mp4 {{ limit_rate {rate}; limit_rate_after {}; {pacing} }}
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

    fn tidegate(place: &Place, way: &str) -> Result<Self> {
        let folder = &place.folder;
        let mut command = Command::new(&place.program);
        command.arg("serve").arg(folder.join("files"));
        if let Some((certificate, key)) = &place.tls {
            command.arg("--http3").arg("--cert").arg(certificate);
            command.arg("--key").arg(key);
        }
        let mut child = command
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
    pub fn cpu(&self) -> f64 {
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
    pub fn memory(&self) -> f64 {
        let of = |id: &u32| {
            let text = fs::read_to_string(format!("/proc/{id}/smaps_rollup")).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            number.unwrap_or(0.0) * 1024.0
        };
        self.processes().iter().map(of).sum()
    }
}

/// Processor time that this machine's processors used so far, in seconds: programs, and what the kernel does between them.
pub fn machine() -> f64 {
    let first = |path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        let fields = line.split_whitespace();
        fields
            .filter_map(|field| field.parse::<f64>().ok())
            .collect::<Vec<_>>()
    };
    // user, nice, system, idle, iowait (proc(5)). Time in the kernel's timers is not counted exactly, but idle time is.
    let (up, times) = (first("/proc/uptime"), first("/proc/stat"));
    let idle = times.iter().skip(3).take(2).sum::<f64>() / 100.0;
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    up.first().map_or(0.0, |up| up * cores as f64 - idle)
}
