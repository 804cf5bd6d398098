//! What `tidegate serve` costs beside nginx, and beside Caddy and H2O where they are installed: all serve the same files over loopback, in turn in the same run.

mod clients;
mod program;
mod secure;

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::{Figures, median};
use clients::{answer, ask, fetch, hold, watch};
use program::{ENCODING, Kind, Place, Server};

/// Connections that wait, and those whose clients read nothing.
const IDLE: usize = 2_000;
const SLOW: usize = 500;
/// Connections one after the other.
const CONNECTS: usize = 1_000;

/// What is compared with nginx: the ends of the figures' names.
const COMPARED: [&str; 8] = [
    "tls.paced.cpu",
    "tls.cpu",
    "paced.cpu",
    "1MiB.cpu",
    "1kB.cpu",
    "silent.memory",
    "idle.memory",
    "slow.memory",
];

/// Ways to pace, and nginx with blocks of the same size.
const SAME_BLOCKS: [(&str, &str); 2] = [("trickle", "128k"), ("application-64k", "64k")];

/// A part of the measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Objects that are not paced
    Fetch,
    /// Memory of connections
    Memory,
    /// Viewers that are paced
    Paced,
    /// Viewers over TLS, with HTTP/1.1 and HTTP/3
    Tls,
}

/// The files that all servers serve: 1 MiB, 1 kB, a large one, and a video. Returns the folder above theirs.
fn files(program: &Path) -> Result<PathBuf> {
    let folder = std::env::current_dir()?.join("target/bench/server");
    let files = folder.join("files");
    fs::create_dir_all(&files)?;
    fs::write(files.join("1m.bin"), vec![b'x'; 1 << 20])?;
    fs::write(files.join("1k.bin"), vec![b'x'; 1000])?;
    fs::File::create(files.join("large.bin"))?.set_len(256 << 20)?;
    let video = files.join("v.mp4");
    let made = Command::new(program)
        .arg("make-video")
        .arg(&video)
        .args(["--duration", "5min", "--rate"])
        .arg(format!("{}kbit", ENCODING / 1000))
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
    // nginx paces the other one.
    let _ = fs::remove_file(files.join("free.mp4"));
    fs::hard_link(&video, files.join("free.mp4"))?;
    // In memory, as a video that many watch is.
    fs::read(video)?;
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
#[derive(Default)]
struct Found(Vec<(String, &'static str, Vec<f64>)>);

impl Found {
    fn note(&mut self, name: String, unit: &'static str, value: f64) {
        match self.0.iter_mut().find(|(known, ..)| *known == name) {
            Some((.., values)) => values.push(value),
            None => self.0.push((name, unit, vec![value])),
        }
    }

    /// Objects that are not paced.
    fn fetched(&mut self, kind: Kind, place: &Place) -> Result<()> {
        let mut add = |what, unit, value| self.note(format!("{}.{what}", kind.name()), unit, value);
        let server = Server::start(kind, place)?;
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
        Ok(())
    }

    /// Memory of connections.
    fn held(&mut self, kind: Kind, place: &Place) -> Result<()> {
        let mut add = |what, value| self.note(format!("{}.{what}", kind.name()), "bytes", value);
        let server = Server::start(kind, place)?;
        let (each, _) = hold(&server, IDLE, || Ok(TcpStream::connect(server.address)?))?;
        add("silent.memory", each);
        let (each, left) = hold(&server, IDLE, || {
            let mut socket = ask(server.address, "/1k.bin")?;
            answer(&mut socket, &mut vec![0; 128 << 10], 1000)?;
            Ok(socket)
        })?;
        add("idle.memory", each);
        add("idle.stays", left);
        let (each, left) = hold(&server, SLOW, || ask(server.address, "/large.bin"))?;
        add("slow.memory", each);
        add("slow.stays", left);
        Ok(())
    }

    /// Viewers that are paced.
    fn watched(&mut self, kind: Kind, place: &Place) -> Result<()> {
        let server = Server::start(kind, place)?;
        let watched = watch(&server)?;
        let mut add = |what, unit, value| self.note(format!("{}.{what}", kind.name()), unit, value);
        add("paced.rate", "bit/s", watched.rate);
        add("paced.cpu", "ms/MB", watched.cpu);
        add("paced.machine", "ms/MB", watched.machine);
        Ok(())
    }

    /// Writes the medians, and what they are over those of nginx.
    fn report(self, figures: &mut Figures) {
        let found = self.0.into_iter();
        let found: Vec<_> = found
            .map(|(name, unit, values)| (name, unit, median(values)))
            .collect();
        for (name, unit, value) in &found {
            figures.add(name, *value, unit);
        }
        let mut over = |name: &str, value: f64, base: String, as_base: &str| {
            if let Some((.., base)) = found.iter().find(|(other, ..)| *other == base) {
                figures.add(format!("{name}_over_{as_base}"), value / base, "x");
            }
        };
        for (name, _, value) in found
            .iter()
            .filter(|(name, ..)| !name.starts_with("nginx."))
        {
            if let Some(what) = COMPARED.iter().find(|what| name.ends_with(*what)) {
                over(name, *value, format!("nginx.{what}"), "nginx");
            }
            for (way, size) in SAME_BLOCKS {
                if *name == format!("tidegate.{way}.paced.cpu") {
                    let base = format!("nginx.blocks-{size}.paced.cpu");
                    over(name, *value, base, "nginx_blocks");
                }
            }
        }
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
    let place = Place {
        program: program.to_owned(),
        folder: files(program)?,
        tls: None,
    };
    let certificate = secure::certificate(&place.folder)?;
    let with_tls = certificate.map(|files| Place {
        program: place.program.clone(),
        folder: place.folder.clone(),
        tls: Some(files),
    });
    let compared = wanted(Part::Fetch) || wanted(Part::Memory);
    let others = [Kind::Caddy, Kind::H2o].into_iter();
    let others = others.filter(|kind| {
        let installed = compared && is_installed(&kind.name());
        if compared && !installed {
            eprintln!("{} is missing (apt-get install {0}): left out", kind.name());
        }
        installed
    });
    let others: Vec<_> = others.collect();
    let mut found = Found::default();
    for round in 1..=rounds {
        for kind in [Kind::Nginx, Kind::Tidegate("none")]
            .into_iter()
            .chain(others.clone())
        {
            if wanted(Part::Fetch) {
                eprintln!("round {round}: {}", kind.name());
                found.fetched(kind, &place)?;
            }
            if wanted(Part::Memory) {
                eprintln!("round {round}: {}, memory", kind.name());
                found.held(kind, &place)?;
            }
        }
        if wanted(Part::Paced) {
            let blocks = SAME_BLOCKS.map(|(_, size)| Kind::NginxBlocks(size));
            let ways = ["trickle", "application-64k", "max-pacing-rate"].map(Kind::Tidegate);
            for kind in [Kind::Nginx].into_iter().chain(blocks).chain(ways) {
                eprintln!("round {round}: {}, paced", kind.name());
                found.watched(kind, &place)?;
            }
        }
        match &with_tls {
            Some(place) if wanted(Part::Tls) => {
                eprintln!("round {round}: TLS");
                for (name, value) in secure::measure(place)? {
                    found.note(name, "ms/MB", value);
                }
            }
            None if wanted(Part::Tls) => {
                eprintln!("openssl is missing (apt-get install openssl): no TLS, no HTTP/3");
            }
            _ => {}
        }
    }
    found.report(figures);
    fs::remove_dir_all(&place.folder)?;
    Ok(())
}
