//! The shared captures: which chunks are found to be policed, by what is taken together, and whether the
//! intervals of rate and depth hold what the router was set to.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result};
use tidegate_trace::annotate::TransferSummary;
use tidegate_trace::detect::{Basis, Cause, Detector, Estimate, Judgement, Tidegate, by_name};
use tidegate_trace::flow::Settings;
use tidegate_trace::read::Capture;
use tidegate_trace::{Analysis, Options, Sink};

use crate::cores::on_all_cores;
use crate::lab::{self, Case, SEEN_PORT};
use crate::table3::{Class, Table3, percent};

/// The columns of the table: `pd`, and the new detector by what it takes together.
const SOURCES: [&str; 4] = ["pd", "segment", "conn.", "client"];
const BASES: [Basis; 3] = [Basis::Segment, Basis::Connection, Basis::Client];

/// How often intervals hold the truth.
#[derive(Debug, Clone, Default)]
struct Coverage {
    held: usize,
    /// Their widths as shares of the estimates.
    widths: Vec<f64>,
}

impl Coverage {
    fn count(&mut self, estimate: Option<Estimate>, truth: Option<f64>) {
        if let Some(estimate) = estimate
            && let Some(interval) = estimate.interval()
            && let Some(truth) = truth
        {
            self.held += usize::from(interval.contains(&truth));
            self.widths
                .push((interval.end() - interval.start()) / estimate.value);
        }
    }

    /// Half of the median width, in percent.
    fn median(&self) -> Option<f64> {
        let mut widths = self.widths.clone();
        widths.sort_by(f64::total_cmp);
        Some(50.0 * widths.get(widths.len() / 2)?)
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = self.widths.len();
        let text = format!("{} of {given}", self.held);
        write!(f, "{text:>12} {:>8}", percent(self.held, given))?;
        match self.median() {
            Some(median) => write!(f, " {:>9}", format!("± {median:.1} %")),
            None => write!(f, " {:>9}", "-"),
        }
    }
}

/// What the study comes to.
#[derive(Debug)]
pub struct Found {
    table: Table3,
    /// By class and basis: rates, depths.
    coverage: BTreeMap<(u8, u8), [Coverage; 2]>,
}

impl Found {
    /// Analyses all captures of a folder.
    ///
    /// # Errors
    /// A file is missing or cannot be read to its end.
    pub fn of(folder: &Path) -> Result<Self> {
        let all = Mutex::new(Self {
            table: Table3::new(&SOURCES),
            coverage: BTreeMap::new(),
        });
        on_all_cores(lab::cases(folder)?.into_iter(), |case| {
            let path = folder.join(&case.file);
            let judged = judge(&path).with_context(|| path.display().to_string())?;
            if let Ok(mut all) = all.lock() {
                all.add(&case, &judged);
            }
            Ok(())
        })?;
        all.into_inner().context("a worker failed")
    }

    fn add(&mut self, case: &Case, judged: &[Judged; SOURCES.len()]) {
        let class = Class::of(&case.truth);
        for (segment, original) in &case.original {
            let judgements = judged.each_ref().map(|judged| judged.0.get(segment));
            let policed = judgements.map(|judgement| judgement.is_some_and(Judgement::is_policed));
            self.table.count(class, original.losses, &policed);
            if original.losses < lab::MIN_LOSSES {
                continue;
            }
            for (basis, judgement) in judgements[1..].iter().enumerate() {
                // With its own kind of limiter, not with random loss before it.
                let right = |judgement: &&Judgement| match class {
                    Class::A | Class::B | Class::C => judgement.is_policed(),
                    Class::E | Class::G | Class::H => judgement.cause == Cause::Queue,
                    Class::D | Class::F => false,
                };
                let Some(judgement) = judgement.filter(right) else {
                    continue;
                };
                let [rates, depths] = self.coverage.entry((class as u8, basis as u8)).or_default();
                let limit = judgement.limit;
                let truth = &case.truth;
                rates.count(limit.map(|limit| limit.rate_bps), Some(truth.rate_bps));
                // What a shaper was set to let pass at once is not what its queue holds.
                let bucket = truth.burst_bytes.filter(|_| judgement.is_policed());
                depths.count(
                    limit.and_then(|limit| limit.depth_bytes),
                    bucket.map(|bytes| bytes as f64),
                );
            }
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.table)?;
        writeln!(f)?;
        writeln!(
            f,
            "{:<24} {:>31} {:>31}",
            "intervals hold the truth", "rate, median", "depth, median"
        )?;
        for class in [Class::A, Class::B, Class::C, Class::E, Class::G, Class::H] {
            for (i, basis) in BASES.iter().enumerate() {
                let counted = self.coverage.get(&(class as u8, i as u8));
                let [rates, depths] = counted.cloned().unwrap_or_default();
                let name = format!("{class:?}, by {}", basis.name());
                writeln!(f, "{name:<24} {rates} {depths}")?;
            }
        }
        Ok(())
    }
}

/// The judgements on what the server sent in each segment of the seen connection.
#[derive(Debug, Default)]
struct Judged(BTreeMap<u32, Judgement>);

impl Sink for Judged {
    fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
        if transfer.sender.port() == SEEN_PORT {
            self.0.insert(transfer.id.segment, judgement);
        }
    }
}

/// Reads a capture once, for all detectors.
fn judge(path: &Path) -> Result<[Judged; SOURCES.len()]> {
    let mut capture = Capture::new(File::open(path)?)?;
    let pd = by_name("pd").context("no detector pd")?;
    let [segment, connection, client] =
        BASES.map(|basis| -> Box<dyn Detector> { Box::new(Tidegate::new(basis)) });
    let mut all = [pd.whole(), segment, connection, client].map(|detector| {
        let options = Options {
            detector: Some(detector),
            ..Options::measuring(Settings::default())
        };
        (Analysis::new(options), Judged::default())
    });
    while let Some(frame) = capture.frame()? {
        for (analysis, judged) in &mut all {
            analysis.frame(&frame, judged);
        }
    }
    Ok(all.map(|(mut analysis, mut judged)| {
        analysis.finish(&mut judged);
        judged
    }))
}
