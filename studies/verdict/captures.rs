//! The shared captures: which chunks are found to be policed, by what is taken together, and whether the
//! intervals of rate and depth hold what the router was set to.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result};
use tidegate_trace::annotate::TransferSummary;
use tidegate_trace::detect::{Basis, Detector, Judgement, Tidegate, by_name};
use tidegate_trace::flow::Settings;
use tidegate_trace::read::Capture;
use tidegate_trace::{Analysis, Options, Sink};

use crate::lab::{self, Case, SEEN_PORT};
use crate::table3::{Class, Table3, percent};

/// The columns of the table: `pd`, and the new detector by what it takes together.
const SOURCES: [&str; 4] = ["pd", "segment", "conn.", "client"];
const BASES: [Basis; 3] = [Basis::Segment, Basis::Connection, Basis::Client];

/// How often intervals hold the truth.
#[derive(Debug, Clone, Copy, Default)]
struct Coverage {
    held: usize,
    given: usize,
}

impl Coverage {
    fn count(&mut self, interval: Option<RangeInclusive<f64>>, truth: Option<f64>) {
        if let (Some(interval), Some(truth)) = (interval, truth) {
            self.given += 1;
            self.held += usize::from(interval.contains(&truth));
        }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{} of {}", self.held, self.given);
        write!(f, "{text:>14} {:>8}", percent(self.held, self.given))
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
        let cases = Mutex::new(lab::cases(folder)?.into_iter());
        let all = Mutex::new(Self {
            table: Table3::new(&SOURCES),
            coverage: BTreeMap::new(),
        });
        let work = || -> Result<()> {
            loop {
                let Some(case) = cases.lock().ok().and_then(|mut cases| cases.next()) else {
                    return Ok(());
                };
                let path = folder.join(&case.file);
                let judged = judge(&path).with_context(|| path.display().to_string())?;
                if let Ok(mut all) = all.lock() {
                    all.add(&case, &judged);
                }
            }
        };
        std::thread::scope(|scope| {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            for worker in workers {
                match worker.join() {
                    Ok(done) => done?,
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok::<(), anyhow::Error>(())
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
                let Some(judgement) = judgement.filter(|judgement| judgement.is_policed()) else {
                    continue;
                };
                let [rates, depths] = self.coverage.entry((class as u8, basis as u8)).or_default();
                let limit = judgement.limit;
                let truth = &case.truth;
                rates.count(
                    limit.and_then(|limit| limit.rate_bps.interval()),
                    Some(truth.rate_bps),
                );
                depths.count(
                    limit.and_then(|limit| limit.depth_bytes?.interval()),
                    truth.burst_bytes.map(|bytes| bytes as f64),
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
            "{:<28} {:>23} {:>23}",
            "intervals hold the truth", "rate", "depth"
        )?;
        for class in [Class::A, Class::B, Class::C] {
            for (i, basis) in BASES.iter().enumerate() {
                let counted = self.coverage.get(&(class as u8, i as u8));
                let [rates, depths] = counted.copied().unwrap_or_default();
                let name = format!("{class:?}, by {}", basis.name());
                writeln!(f, "{name:<28} {rates} {depths}")?;
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
