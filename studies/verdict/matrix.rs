//! How often each cause gets each verdict, on transfers of the lab.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Cursor;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use tidegate_lab::plan::QueueKind;
use tidegate_trace::annotate::TransferSummary;
use tidegate_trace::detect::{Basis, Cause, Judgement, Tidegate};
use tidegate_trace::flow::Settings;
use tidegate_trace::read::Nanos;
use tidegate_trace::{Options, Sink, analyse};

use super::kinds::Kinds;
use super::limits::Limits;
use super::policers::Policers;
use super::shapers::Shapers;
use super::transfers::{Changes, Choice, Half, Simulation, simulations};
use super::truth::Truth;
use crate::cores::on_all_cores;
use crate::table3::percent;

/// How often each cause gets each verdict.
#[derive(Debug, Default)]
pub struct Matrix {
    counts: BTreeMap<Cause, BTreeMap<Cause, usize>>,
    /// By confidence in percent: right verdicts, all verdicts. `unclear` is none, and neither is `mixed`.
    calibration: BTreeMap<u32, (usize, usize)>,
    shapers: Shapers,
    kinds: Kinds,
    limits: Limits,
    /// With transfers whose cause is not clear though no policer was there.
    policers: Policers,
    /// What was not judged right, and which intervals do not hold the truth, in words.
    wrong: Vec<String>,
}

impl Matrix {
    /// Simulates and judges all transfers of a half, as the server sees them, and as the client does if that is
    /// wanted. If a folder is given, captures that it holds are read rather than simulated again, and
    /// those that it lacks are kept there.
    ///
    /// # Errors
    /// A scenario is wrong, a simulation fails or a file cannot be read or written.
    pub fn of(
        half: Half,
        seed: u64,
        client: bool,
        choice: Choice<'_>,
        folder: Option<&Path>,
    ) -> Result<[Self; 2]> {
        let matrices = Mutex::new([Self::default(), Self::default()]);
        let changes = Changes {
            client,
            ..Changes::default()
        };
        let jobs = simulations(half, seed, changes, |_| true)?;
        on_all_cores(choice.of(jobs), |job| {
            let places = judge(&job, folder).with_context(|| job.name.clone())?;
            if let Ok(mut matrices) = matrices.lock() {
                for (matrix, judged) in matrices.iter_mut().zip(&places) {
                    for judged in judged {
                        matrix.count(&job, judged);
                    }
                }
            }
            Ok(())
        })?;
        let mut matrices = matrices.into_inner().context("a worker failed")?;
        for matrix in &mut matrices {
            matrix.wrong.sort();
        }
        Ok(matrices)
    }

    /// A line for each transfer that was not judged right, and for each interval that does not hold the truth.
    pub fn wrong(&self) -> &[String] {
        &self.wrong
    }

    fn count(&mut self, job: &Simulation, judged: &Judged) {
        let Judged {
            truth,
            transfer,
            judgement,
            ..
        } = judged;
        self.policers.count(*truth, transfer, judgement);
        let Some(truth) = truth else {
            return;
        };
        let verdict = judgement.cause;
        if let Some(queue) = &judged.queue
            && *truth == Cause::Aqm
            && verdict == Cause::Aqm
        {
            self.kinds.count(queue, judgement.aqm_kind);
        }
        let settings = match truth {
            Cause::Queue | Cause::Aqm => judged.link,
            Cause::Policer => judged.bucket.map(|(rate, size)| (rate, Some(size))),
            _ => None,
        };
        let missed = settings
            .filter(|_| verdict == *truth)
            .map(|settings| self.limits.count(transfer, judgement, settings));
        if let Some(switch) = judged.switch
            && verdict == *truth
        {
            self.shapers.count(transfer, judgement, switch);
        }
        let verdicts = self.counts.entry(*truth).or_default();
        *verdicts.entry(verdict).or_default() += 1;
        let confidence = judgement.confidence.unwrap_or(0.0);
        if verdict != Cause::Unclear && confidence > 0.0 {
            let percent = (confidence * 100.0).round() as u32;
            let (right, all) = self.calibration.entry(percent).or_default();
            *right += usize::from(verdict == *truth);
            *all += 1;
        }
        let evidence = || {
            let clues = judgement.evidence(transfer).into_iter();
            clues.map(|clue| clue.text).collect::<Vec<_>>().join(" ")
        };
        let of = format!("{} {}", job.name, transfer.id.segment);
        for missed in missed.into_iter().flatten() {
            let line = format!("{truth}: {missed} {of} {}", evidence());
            self.wrong.push(line);
        }
        if verdict != *truth {
            self.wrong.push(format!(
                "{truth} -> {verdict} {confidence} ({}) {of} {}",
                judgement.reason,
                evidence()
            ));
        }
    }
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<15} {:>9}", "truth", "transfers")?;
        for verdict in Cause::ALL {
            write!(f, " {:>14}", verdict.name())?;
        }
        writeln!(f)?;
        let mut sum = 0;
        for (truth, verdicts) in &self.counts {
            let all: usize = verdicts.values().sum();
            sum += all;
            write!(f, "{:<15} {all:>9}", truth.name())?;
            for verdict in Cause::ALL {
                let count = verdicts.get(&verdict).copied().unwrap_or(0);
                let text = match count {
                    0 => "-".into(),
                    count => percent(count, all),
                };
                write!(f, " {text:>14}")?;
            }
            writeln!(f)?;
        }
        writeln!(f, "{:<15} {sum:>9}\n", "all")?;
        writeln!(f, "{}", self.policers)?;
        writeln!(f, "{:<12} {:>9} {:>9}", "confidence", "verdicts", "right")?;
        for (confidence, (right, all)) in &self.calibration {
            let (confidence, right) = (format!("{confidence} %"), percent(*right, *all));
            writeln!(f, "{confidence:<12} {all:>9} {right:>9}")?;
        }
        if !self.kinds.is_empty() {
            write!(f, "\n{}", self.kinds)?;
        }
        if self.shapers.found > 0 {
            write!(f, "\n{}", self.shapers)?;
        }
        write!(f, "\n{}", self.limits)?;
        Ok(())
    }
}

/// A transfer with what limited it, and what the detector says.
struct Judged {
    /// `None`: not clear, but not a policer.
    truth: Option<Cause>,
    transfer: TransferSummary,
    judgement: Judgement,
    /// The bottleneck's queue, if it is a link.
    queue: Option<QueueKind>,
    /// The bottleneck's rate in bit/s on the link, if it is a link, and what a drop-tail queue holds, in bytes.
    link: Option<(f64, Option<f64>)>,
    /// The policer's rate in bit/s and the bytes that its bucket holds, on the link.
    bucket: Option<(f64, f64)>,
    /// When a burst-tolerant shaper began to queue, and its rate in bit/s.
    switch: Option<(Nanos, f64)>,
}

/// Judges what the server sent in a simulation, as far as the truth is known: as the server saw it, and as the client
/// did, if it was seen.
fn judge(job: &Simulation, folder: Option<&Path>) -> Result<[Vec<Judged>; 2]> {
    let captures = job.captures(folder)?;
    let truth = Truth::of(job, &captures)?;
    let sent = verdicts(&captures.server)?;
    let mut received: BTreeMap<_, _> = match &captures.client {
        Some(client) => verdicts(client)?
            .into_iter()
            .map(|seen| (place(&seen.0), seen))
            .collect(),
        None => BTreeMap::new(),
    };
    let (mut at_server, mut at_client) = (Vec::new(), Vec::new());
    for (transfer, judgement) in sent {
        let cause = truth.cause(&transfer);
        if cause.is_none() && truth.is_policed() {
            continue;
        }
        // What the client saw of this transfer has the truth of what the server sent.
        let switch = truth.switch(&transfer);
        let judged = |(transfer, judgement)| Judged {
            truth: cause,
            queue: truth.queue().cloned(),
            link: truth.link(),
            bucket: truth.bucket(),
            switch,
            transfer,
            judgement,
        };
        at_client.extend(received.remove(&place(&transfer)).map(judged));
        at_server.push(judged((transfer, judgement)));
    }
    Ok([at_server, at_client])
}

/// What tells a transfer from the others of a simulation, wherever it is seen.
fn place(transfer: &TransferSummary) -> (u16, u32) {
    (transfer.receiver.port(), transfer.id.segment)
}

/// The verdicts on what servers sent in a capture.
fn verdicts(capture: &Arc<[u8]>) -> Result<Vec<(TransferSummary, Judgement)>> {
    let options = Options {
        detector: Some(Box::new(Tidegate::new(Basis::Client))),
        ..Options::measuring(Settings::default())
    };
    let mut verdicts = Verdicts::default();
    analyse(Cursor::new(Arc::clone(capture)), options, &mut verdicts).whole()?;
    Ok(verdicts.0)
}

/// What the server sent, with the judgements.
#[derive(Default)]
struct Verdicts(Vec<(TransferSummary, Judgement)>);

impl Sink for Verdicts {
    fn verdict(&mut self, transfer: &TransferSummary, judgement: Judgement) {
        if !transfer.id.from_client {
            self.0.push((*transfer, judgement));
        }
    }
}
