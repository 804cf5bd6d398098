//! Transfers of the lab, each with one cause that is known: which verdict they get.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};
use tidegate_trace::annotate::TransferSummary;
use tidegate_trace::detect::{Basis, Cause, Judgement, Tidegate};
use tidegate_trace::flow::Settings;
use tidegate_trace::{Options, Sink, analyse};

use crate::experiment::simulate;
use crate::table3::percent;

/// What all scenarios have in common.
const SERVER: &str = include_str!("lab/server.toml");

/// The cause that a scenario is about, and the rest of it.
const SCENARIOS: [(Cause, &str); 9] = [
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
];

/// Transfers with fewer losses were not limited by what drops.
const LEAST_LOSSES: u64 = 3;

/// Which half of the lab's transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    /// The one that thresholds and confidences were chosen on.
    Tuned,
    /// The other, with seeds of its own.
    HeldOut,
}

impl Half {
    fn seed(self) -> &'static str {
        match self {
            Self::Tuned => "seed=11",
            Self::HeldOut => "seed=7001",
        }
    }
}

/// How often each cause gets each verdict.
#[derive(Debug, Default)]
pub struct Matrix {
    counts: BTreeMap<Cause, BTreeMap<Cause, usize>>,
    /// By confidence in percent: right verdicts, all verdicts. `unclear` is none.
    calibration: BTreeMap<u32, (usize, usize)>,
}

impl Matrix {
    /// Simulates, reads and judges all transfers of a half.
    ///
    /// # Errors
    /// A scenario is wrong, a simulation fails or a capture cannot be read.
    pub fn of(half: Half) -> Result<Self> {
        let mut matrix = Self::default();
        let folder = tempfile::tempdir()?;
        for (cause, rest) in SCENARIOS {
            let scenario = format!("{SERVER}{rest}");
            let settings = [half.seed().to_owned()];
            simulate(
                cause.name(),
                &scenario,
                &settings,
                Some(folder.path()),
                |_, finished| {
                    for tap in &finished.captures {
                        let file = folder.path().join(tap);
                        matrix.add(cause, &file)?;
                        fs::remove_file(&file)?;
                    }
                    Ok(())
                },
            )?;
        }
        Ok(matrix)
    }

    fn add(&mut self, cause: Cause, file: &Path) -> Result<()> {
        let options = Options {
            detector: Some(Box::new(Tidegate::new(Basis::Client))),
            ..Options::measuring(Settings::default())
        };
        let capture = File::open(file).with_context(|| file.display().to_string())?;
        let mut judged = Judged::default();
        analyse(capture, options, &mut judged).whole()?;
        for (transfer, judgement) in judged.0 {
            if let Some(truth) = truth(cause, transfer.metrics.lost_packets) {
                self.count(truth, &judgement);
            }
        }
        Ok(())
    }

    fn count(&mut self, truth: Cause, judgement: &Judgement) {
        let verdict = judgement.cause;
        *self
            .counts
            .entry(truth)
            .or_default()
            .entry(verdict)
            .or_default() += 1;
        if verdict != Cause::Unclear {
            let percent = (judgement.confidence.unwrap_or(0.0) * 100.0).round() as u32;
            let (right, all) = self.calibration.entry(percent).or_default();
            *right += usize::from(verdict == truth);
            *all += 1;
        }
    }

    /// Policed transfers that are found, and transfers with another cause that are taken for policed:
    /// each with all of them.
    fn policers(&self) -> [(usize, usize); 2] {
        let found =
            |truth: &BTreeMap<Cause, usize>| truth.get(&Cause::Policer).copied().unwrap_or(0);
        let (mut recall, mut wrong) = ((0, 0), (0, 0));
        for (&cause, verdicts) in &self.counts {
            let sum = if cause == Cause::Policer {
                &mut recall
            } else {
                &mut wrong
            };
            sum.0 += found(verdicts);
            sum.1 += verdicts.values().sum::<usize>();
        }
        [recall, wrong]
    }
}

/// What limited a transfer of a scenario, given its losses; `None` where that is not known.
fn truth(cause: Cause, losses: u64) -> Option<Cause> {
    match cause {
        // A managed queue that drops nothing is a queue.
        Cause::Aqm if losses < LEAST_LOSSES => Some(Cause::Queue),
        Cause::Policer | Cause::RandomLoss | Cause::ShaperBurst if losses < LEAST_LOSSES => None,
        cause => Some(cause),
    }
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<15} {:>9}", "truth", "transfers")?;
        for verdict in Cause::ALL {
            write!(f, " {:>14}", verdict.name())?;
        }
        writeln!(f)?;
        for (truth, verdicts) in &self.counts {
            let all: usize = verdicts.values().sum();
            write!(f, "{:<15} {all:>9}", truth.name())?;
            for verdict in Cause::ALL {
                let count = verdicts.get(&verdict).copied().unwrap_or(0);
                write!(
                    f,
                    " {:>14}",
                    if count == 0 {
                        "-".into()
                    } else {
                        percent(count, all)
                    }
                )?;
            }
            writeln!(f)?;
        }
        let [(found, policed), (wrong, others)] = self.policers();
        writeln!(f)?;
        writeln!(
            f,
            "policers found: {found} of {policed} ({})",
            percent(found, policed)
        )?;
        writeln!(
            f,
            "taken for policers: {wrong} of {others} ({})",
            percent(wrong, others)
        )?;
        writeln!(f)?;
        writeln!(f, "{:<12} {:>9} {:>9}", "confidence", "verdicts", "right")?;
        for (confidence, (right, all)) in &self.calibration {
            writeln!(
                f,
                "{:<12} {all:>9} {:>9}",
                format!("{confidence} %"),
                percent(*right, *all)
            )?;
        }
        Ok(())
    }
}

/// What the server sent, with the judgements.
#[derive(Default)]
struct Judged(Vec<(TransferSummary, Judgement)>);

impl Sink for Judged {
    fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
        if !transfer.id.from_client {
            self.0.push((*transfer, judgement));
        }
    }
}
