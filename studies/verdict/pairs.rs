//! How often a comparison of two captures is right, on pairs of the lab: before and behind the bottleneck.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use tidegate_trace::detect::Cause;
use tidegate_trace::pair::{Between, Diagnosis, Gathered};
use tidegate_trace::read::Capture;

use super::transfers::{Changes, Choice, Half, Simulation, simulations};
use super::truth::Truth;
use crate::cores::on_all_cores;
use crate::table3::percent;

/// Both places see both directions, and all that is to be compared of a packet.
const BOTH_WAYS: [&str; 2] = ["seen.back=[\"behind\", \"server\"]", "behind.snaplen=96B"];
/// One in this number of simulations is compared: a comparison takes as long as hundreds of verdicts.
pub const STRIDE: usize = 12;
/// Pairs with fewer losses between the places have no cause of losses.
const LEAST_LOSSES: u64 = 3;

/// How often each cause gets each verdict.
#[derive(Debug, Default)]
pub struct Pairs {
    counts: BTreeMap<Between, BTreeMap<Between, usize>>,
    /// By verdict and whether its evidence is strong: right verdicts, all verdicts. `unclear` is none.
    calibration: BTreeMap<(Between, bool), (usize, usize)>,
    /// What was not judged right, in words.
    wrong: Vec<String>,
}

/// What is between the places, by what dropped most of the packets.
fn between(cause: Cause) -> Option<Between> {
    match cause {
        Cause::Policer => Some(Between::Policer),
        Cause::Queue => Some(Between::Queue),
        Cause::Aqm => Some(Between::Aqm),
        Cause::ShaperBurst => Some(Between::ShaperBurst),
        Cause::RandomLoss => Some(Between::RandomLoss),
        _ => None,
    }
}

impl Pairs {
    /// Simulates and compares the chosen pairs of a half. If a folder is given, captures are kept in a folder in it, and read
    /// from there.
    ///
    /// # Errors
    /// A scenario is wrong, or a simulation fails.
    pub fn of(half: Half, seed: u64, choice: Choice<'_>, folder: Option<&Path>) -> Result<Self> {
        // Both ways are captured, other than where one place is judged.
        let folder = folder.map(|folder| folder.join("pairs"));
        folder.as_ref().map_or(Ok(()), fs::create_dir_all)?;

        let changes = Changes {
            settings: &BOTH_WAYS,
            client: false,
        };
        let jobs = simulations(half, seed, changes, |cause| between(cause).is_some())?;
        let pairs = Mutex::new(Self::default());
        on_all_cores(choice.of(jobs), |job| {
            let (truth, found) =
                compare(&job, folder.as_deref()).with_context(|| job.name.clone())?;
            if let (Some(truth), Ok(mut pairs)) = (truth, pairs.lock()) {
                pairs.count(&job.name, truth, &found);
            }
            Ok(())
        })?;
        let mut pairs = pairs.into_inner().context("a worker failed")?;
        pairs.wrong.sort();
        Ok(pairs)
    }

    fn count(&mut self, name: &str, truth: Between, found: &Diagnosis) {
        let way = &found.ways[0];
        if way.sum(|stream| stream.lost) < LEAST_LOSSES {
            return;
        }
        let (fits, verdict, _) = way.mainly();
        *self
            .counts
            .entry(truth)
            .or_default()
            .entry(verdict)
            .or_default() += 1;
        if verdict != Between::Unclear {
            let (right, all) = self
                .calibration
                .entry((verdict, fits.is_strong()))
                .or_default();
            *right += usize::from(verdict == truth);
            *all += 1;
        }
        if verdict != truth {
            self.wrong
                .push(format!("{truth} -> {verdict} {name} {fits:?}"));
        }
    }

    /// A line for each pair that was not judged right.
    pub fn wrong(&self) -> &[String] {
        &self.wrong
    }
}

/// Compares what was seen before and behind the bottleneck. With the truth, where that is clear.
fn compare(job: &Simulation, folder: Option<&Path>) -> Result<(Option<Between>, Diagnosis)> {
    let captures = job.captures(folder)?;
    let truth = Truth::of(job, &captures)?.of_drops().and_then(between);
    let found = Diagnosis::new(gather(captures.server)?, gather(captures.behind)?);
    Ok((truth, found))
}

fn gather(pcap: Arc<[u8]>) -> Result<Gathered> {
    let mut capture = Capture::new(Cursor::new(pcap))?;
    let mut gathered = Gathered::default();
    while let Some(frame) = capture.frame()? {
        gathered.frame(&frame);
    }
    Ok(gathered)
}

impl fmt::Display for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<15} {:>9}", "truth", "pairs")?;
        for verdict in Between::ALL {
            write!(f, " {:>12}", verdict.name())?;
        }
        writeln!(f)?;
        for (truth, verdicts) in &self.counts {
            let all: usize = verdicts.values().sum();
            write!(f, "{:<15} {all:>9}", truth.name())?;
            for verdict in Between::ALL {
                let count = verdicts.get(&verdict).copied().unwrap_or(0);
                let text = match count {
                    0 => "-".into(),
                    count => percent(count, all),
                };
                write!(f, " {text:>12}")?;
            }
            writeln!(f)?;
        }
        writeln!(
            f,
            "\n{:<15} {:<9} {:>9} {:>9} {:>10}",
            "verdict", "evidence", "verdicts", "right", "confidence"
        )?;
        for ((verdict, strong), (right, all)) in &self.calibration {
            let evidence = if *strong { "strong" } else { "weak" };
            let confidence = verdict.confidence(*strong);
            let confidence = confidence.map_or("-".into(), |share| format!("{share:.2}"));
            let right = percent(*right, *all);
            let verdict = verdict.name();
            writeln!(
                f,
                "{verdict:<15} {evidence:<9} {all:>9} {right:>9} {confidence:>10}"
            )?;
        }
        Ok(())
    }
}
