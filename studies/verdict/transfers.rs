//! The lab's simulations: scenarios with one cause each, and two halves of what is varied in them.

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

/// The cause that scenarios are about, and the rest of them: elements and flows, then sweeps.
const SCENARIOS: [(Cause, &str); 14] = [
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
}

/// All simulations of a half with the causes that are wanted, with seeds that begin with a number. The settings are
/// added to every scenario.
///
/// # Errors
/// A scenario is wrong.
pub fn simulations(
    half: Half,
    begin: u64,
    settings: &[&str],
    wanted: impl Fn(Cause) -> bool,
) -> Result<Vec<Simulation>> {
    let mut all = Vec::new();
    let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
    for (cause, text) in SCENARIOS.into_iter().filter(|(cause, _)| wanted(*cause)) {
        let mut parts = text.split(SWEEP);
        let common = parts.next().unwrap_or_default();
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
        let Some(folder) = folder else {
            return self.run();
        };
        let file = |tap| folder.join(format!("{:?}-{}-{tap}.pcap", self.half, self.seed));
        let (server, behind) = (file("server"), file("behind"));
        if let (Ok(server), Ok(behind)) = (fs::read(&server), fs::read(&behind)) {
            return Ok(Captured {
                server: server.into(),
                behind: behind.into(),
            });
        }
        let captured = self.run()?;
        for (path, bytes) in [(&server, &captured.server), (&behind, &captured.behind)] {
            fs::write(path, bytes).with_context(|| path.display().to_string())?;
        }
        Ok(captured)
    }

    fn run(&self) -> Result<Captured> {
        let memory = InMemory::default();
        let settings = Settings {
            captures: Some(&memory),
            ..Settings::default()
        };
        experiment::simulate(&self.plan, "", settings)?;
        let mut captures = memory.into_captures();
        let mut tap = |name: &str| -> Result<Arc<[u8]>> {
            let bytes = captures.remove(name).context("a tap wrote nothing")?;
            Ok(bytes.into())
        };
        Ok(Captured {
            server: tap("server.pcap")?,
            behind: tap("behind.pcap")?,
        })
    }
}
