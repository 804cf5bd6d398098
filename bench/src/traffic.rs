//! What the capture to measure on holds, by how many of its transfers lose packets.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tidegate_lab::capture::InMemory;
use tidegate_lab::experiment::{self, Settings};
use tidegate_lab::scenario::{Run, Scenario, Source};

/// Downloads in virtual time.
const TRAFFIC: &str = include_str!("traffic.toml");
/// One transfer with many packets.
const MILLION: &str = include_str!("million.toml");
/// Different simulations; they come again with other clients.
const SEEDS: u64 = 3;
/// Captures are taken in the order of multiples of this number, so that a few of them are
/// a mixture of what there is: neighbours in name are alike.
const STRIDE: usize = 37;

/// How many of the transfers lose packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Losing {
    /// Nearly all: the shared captures.
    Most,
    /// One in ten, in simulated downloads.
    Tenth,
    /// None of the simulated downloads.
    None,
}

impl Losing {
    /// What names of files say of it.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Most => "",
            Self::Tenth => "-tenth",
            Self::None => "-none",
        }
    }
}

/// A capture that a large one is made of.
#[derive(Debug)]
pub enum Part {
    File(PathBuf),
    Simulated(Arc<[u8]>),
}

impl Part {
    pub fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::File(path) => Box::new(BufReader::new(File::open(path)?)),
            Self::Simulated(bytes) => Box::new(Cursor::new(Arc::clone(bytes))),
        })
    }
}

/// The captures that a large one is made of, in their order.
pub fn parts(losing: Losing) -> Result<Vec<Part>> {
    match losing {
        Losing::Most => shared(),
        Losing::Tenth => simulated(TRAFFIC, &[], SEEDS),
        Losing::None => simulated(TRAFFIC, &["policed.count=0", "queued.count=0"], SEEDS),
    }
}

fn shared() -> Result<Vec<Part>> {
    let Some(traces) = std::env::var_os("TIDEGATE_TRACES") else {
        bail!(
            "TIDEGATE_TRACES is not set: the capture to measure on is made from the shared \
             captures, which it names the folder of. Or name a capture with --file"
        );
    };
    let folder = PathBuf::from(traces).join("usc");
    let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().ends_with(".pcap.xz"))
        .collect();
    files.sort();
    if files.is_empty() {
        bail!("no captures in {}", folder.display());
    }
    let n = files.len();
    // Coprime with the number of files, or the walk would miss some.
    let stride = (STRIDE..).find(|&stride| gcd(stride, n) == 1).unwrap_or(1);
    let order = (0..n).map(|number| Part::File(files[number * stride % n].clone()));
    Ok(order.collect())
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A capture of one transfer with a million data packets.
pub fn million() -> Result<Part> {
    let mut parts = simulated(MILLION, &[], 1)?;
    parts.pop().context("the scenario has no tap")
}

fn simulated(text: &str, settings: &[&str], seeds: u64) -> Result<Vec<Part>> {
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    let scenario = Scenario::parse(Source {
        file: "scenario",
        text,
        settings: &settings,
    })?;
    let mut parts = Vec::new();
    for seed in 1..=seeds {
        for group in scenario.groups(Run {
            point: 0,
            seed,
            taps: true,
        })? {
            let memory = InMemory::default();
            let settings = Settings {
                captures: Some(&memory),
                ..Settings::default()
            };
            experiment::simulate(&group.plan, "", settings)?;
            let captures = memory.into_captures().into_values();
            parts.extend(captures.map(|bytes| Part::Simulated(bytes.into())));
        }
    }
    Ok(parts)
}
