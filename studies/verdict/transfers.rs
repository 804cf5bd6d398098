//! The lab's simulations: scenarios with one cause each, and two halves of what is varied in them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use tidegate_lab::capture::InMemory;
use tidegate_lab::experiment::{self, Settings};
use tidegate_lab::plan::Plan;
use tidegate_lab::scenario::{Parameter, Run, Scenario, Source};
use tidegate_trace::detect::Cause;

/// What all scenarios have in common.
const SERVER: &str = include_str!("lab/server.toml");
/// What is added where the client is seen too, and the end of the path of what it gets.
const CLIENT: &str = include_str!("lab/receiver.toml");
const TO_CLIENT: [&str; 2] = [
    "\"wifi\"]\nback = [\"server\"]",
    "\"wifi\", \"client\"]\nback = [\"client\", \"home\", \"server\"]",
];

/// The cause that scenarios are about, and the rest of them: elements and flows, then sweeps.
const SCENARIOS: [(Cause, &str); 15] = [
    (Cause::Policer, include_str!("lab/policer.toml")),
    (Cause::Queue, include_str!("lab/queue.toml")),
    (Cause::Aqm, include_str!("lab/aqm.toml")),
    (Cause::ShaperBurst, include_str!("lab/shaper-burst.toml")),
    (Cause::RandomLoss, include_str!("lab/random-loss.toml")),
    (
        Cause::ReceiveWindow,
        include_str!("lab/receive-window.toml"),
    ),
    (Cause::Application, include_str!("lab/application.toml")),
    (Cause::Sender, include_str!("lab/sender.toml")),
    (Cause::RoundTrips, include_str!("lab/round-trips.toml")),
    (Cause::ShaperBurst, include_str!("lab/shaper-deep.toml")),
    (Cause::Policer, include_str!("lab/table3-policer.toml")),
    (Cause::Queue, include_str!("lab/table3-queue.toml")),
    (Cause::Aqm, include_str!("lab/table3-aqm.toml")),
    (
        Cause::RandomLoss,
        include_str!("lab/table3-random-loss.toml"),
    ),
    // Behind the others, whose seeds are counted through.
    (Cause::Queue, include_str!("lab/queue-window.toml")),
];

/// How often each combination of parameters is drawn. Every simulation has a seed of its own, so that an
/// unlucky draw decides one of them only.
const DRAWS: usize = 2;
/// Fewer simulations than this have seeds that begin with the same number.
const MOST: u64 = 1_000_000;

/// A line that begins so is followed by a sweep.
const SWEEP: &str = "# == ";

/// Which half of the lab's transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Half {
    /// The one that thresholds and confidences were chosen on.
    Tuned,
    /// The other, with seeds and parameters of its own.
    HeldOut,
}

impl Half {
    fn title(self) -> &'static str {
        match self {
            Self::Tuned => "tuned: ",
            Self::HeldOut => "held out: ",
        }
    }

    /// The number that the seeds of its simulations begin with.
    pub fn seed(self) -> u64 {
        match self {
            Self::Tuned => 11,
            Self::HeldOut => 408_113_907,
        }
    }
}

/// Which simulations are wanted.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    /// Those whose names contain this.
    pub only: &'a str,
    /// One in this number of all.
    pub one_in: usize,
}

impl Choice<'_> {
    /// Those of all simulations.
    pub fn of(self, all: Vec<Simulation>) -> impl Iterator<Item = Simulation> {
        let some = all.into_iter().step_by(self.one_in);
        some.filter(move |simulation| simulation.name.contains(self.only))
    }
}

/// A simulation with one cause.
#[derive(Debug)]
pub struct Simulation {
    /// Cause, sweep, parameters and seed.
    pub name: String,
    half: Half,
    /// What no other simulation of either half has.
    seed: u64,
    /// What the scenario is about.
    pub cause: Cause,
    /// All of it.
    pub plan: Plan,
}

/// What its taps saw, as pcap files.
#[derive(Debug)]
pub struct Captured {
    /// Where the server sends.
    pub server: Arc<[u8]>,
    /// Behind the bottleneck.
    pub behind: Arc<[u8]>,
    /// At the client, where it is seen too.
    pub client: Option<Arc<[u8]>>,
}

/// What is changed in all scenarios.
#[derive(Debug, Clone, Copy, Default)]
pub struct Changes<'a> {
    /// Keys and their values.
    pub settings: &'a [&'a str],
    /// Whether the client is seen too.
    pub client: bool,
}

/// All simulations of a half with the causes that are wanted, with seeds that begin with a number.
///
/// # Errors
/// A scenario is wrong.
pub fn simulations(
    half: Half,
    begin: u64,
    changes: Changes<'_>,
    wanted: impl Fn(Cause) -> bool,
) -> Result<Vec<Simulation>> {
    let mut all = Vec::new();
    let settings: Vec<String> = changes.settings.iter().map(|&one| one.to_owned()).collect();
    for (cause, text) in SCENARIOS.into_iter().filter(|(cause, _)| wanted(*cause)) {
        let mut parts = text.split(SWEEP);
        let mut common = parts.next().unwrap_or_default().to_owned();
        if changes.client {
            let [end, seen] = TO_CLIENT;
            common = common.replace(end, seen) + CLIENT;
        }
        for sweep in parts.filter_map(|part| part.strip_prefix(half.title())) {
            let (title, sweep) = sweep.split_once('\n').context("a sweep without lines")?;
            let text = format!("{SERVER}{common}{sweep}");
            let scenario = Scenario::parse(Source {
                file: cause.name(),
                text: &text,
                settings: &settings,
            })?;
            let points = (0..scenario.points()).flat_map(|point| {
                let draws = DRAWS * scenario.seeds().len();
                std::iter::repeat_n(point, draws)
            });
            for point in points {
                let parameters: Vec<String> = scenario
                    .parameters(point)
                    .iter()
                    .map(Parameter::to_string)
                    .collect();
                let seed = begin * MOST + all.len() as u64;
                for group in scenario.groups(Run {
                    point,
                    seed,
                    taps: true,
                })? {
                    all.push(Simulation {
                        name: format!("{cause}: {title}: {} {seed}", parameters.join(" ")),
                        half,
                        seed,
                        cause,
                        plan: group.plan,
                    });
                }
            }
        }
    }
    Ok(all)
}

impl Simulation {
    /// Runs it, or reads what an earlier run left in the folder.
    ///
    /// # Errors
    /// The simulation fails, or a file cannot be read or written.
    pub fn captures(&self, folder: Option<&Path>) -> Result<Captured> {
        let is_there = |tap: &&str| {
            self.plan
                .elements
                .iter()
                .any(|element| element.name == *tap)
        };
        let taps = ["server", "behind", "client"].into_iter().filter(is_there);
        let file =
            |folder: &Path, tap| folder.join(format!("{:?}-{}-{tap}.pcap", self.half, self.seed));
        let kept = folder.and_then(|folder| {
            let read = |tap| Some((tap, fs::read(file(folder, tap)).ok()?));
            taps.clone().map(read).collect::<Option<BTreeMap<_, _>>>()
        });
        let mut captures = match kept {
            Some(kept) => kept,
            None => {
                let mut captures = self.run()?;
                let take = |tap| Some((tap, captures.remove(&format!("{tap}.pcap"))?));
                let captures: BTreeMap<_, _> = taps.filter_map(take).collect();
                if let Some(folder) = folder {
                    for (&tap, bytes) in &captures {
                        let path = file(folder, tap);
                        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
                    }
                }
                captures
            }
        };
        let mut tap = |name| captures.remove(name).context("a tap wrote nothing");
        Ok(Captured {
            server: tap("server")?.into(),
            behind: tap("behind")?.into(),
            client: tap("client").ok().map(Arc::from),
        })
    }

    fn run(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        let memory = InMemory::default();
        let settings = Settings {
            captures: Some(&memory),
            ..Settings::default()
        };
        experiment::simulate(&self.plan, "", settings)?;
        Ok(memory.into_captures())
    }
}
