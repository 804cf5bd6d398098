//! PD, the policing detector of [Flach16 §2.1], twice: by its authors' published code, which is
//! the [published](Pd::published) one, and by the [paper](Pd::paper)'s text.
//!
//! It takes the goodput between the first and the last loss for the policer's rate, follows the
//! fill of a token bucket of that rate, and asks whether packets were lost when it was empty and
//! passed when it was not. Rates are payload bits per second and tokens payload bytes throughout.
//!
//! `edition` says which packets count as lost and which rules a transfer must pass; `rules` has the
//! rules, `replay` the bucket.

mod answer;
mod code;
mod counting;
mod edition;
mod replay;
mod rules;

#[cfg(test)]
mod tests;

pub use answer::{Answer, Check, Run};
pub use code::Code;

use super::detector::{Detector, Verdicts};
use crate::annotate::{Metrics, Transfer};
use edition::{Edition, PAPER, PUBLISHED};
use replay::{Case, Memory};

/// Losses left out at either end in the second run.
const CUT: usize = 2;

/// The policing detector. Keeps its memory between transfers.
#[derive(Debug)]
pub struct Pd {
    edition: &'static Edition,
    memory: Memory,
}

impl Pd {
    /// As its authors' code works: round-trip times in whole milliseconds, fills relative to the
    /// median fill on loss, tokens followed to the end of the transfer, and the additional rules
    /// for late losses, slow starts and losses in few round trips.
    pub fn published() -> Self {
        Self::of(&PUBLISHED)
    }

    /// As the paper describes it: fills relative to an empty bucket, tokens followed from the
    /// first loss to the last, at least 15 losses, round-trip time tested before the first loss.
    /// The thresholds that the paper does not state are the code's.
    pub fn paper() -> Self {
        Self::of(&PAPER)
    }

    fn of(edition: &'static Edition) -> Self {
        Self {
            edition,
            memory: Memory::default(),
        }
    }

    /// Judges a transfer, in this detector's terms.
    pub fn judge(&mut self, transfer: &Transfer<'_>) -> Answer {
        self.memory.start(&self.edition.counting, transfer);
        Answer {
            all: self.run(transfer, 0),
            cut: self.run(transfer, CUT),
        }
    }

    /// One run, without the first and the last `cut` losses.
    fn run(&mut self, transfer: &Transfer<'_>, cut: usize) -> Run {
        let mut case = match Case::new(&self.edition.counting, transfer, cut, &mut self.memory) {
            Ok(case) => case,
            Err(check) => return Run::ruled_out(vec![check]),
        };
        let mut checks = Vec::new();
        for rule in self.edition.rules {
            let check = rule(&mut case);
            checks.push(check);
            if !check.holds {
                return Run::ruled_out(checks);
            }
        }
        Run {
            code: Code::Policed,
            rate_bps: Some(case.rate),
            first_loss: Some(case.first),
            burst_bytes: Some(case.burst_bytes()),
            checks,
        }
    }
}

impl Detector for Pd {
    fn transfer(&mut self, transfer: &Transfer<'_>, _: &Metrics, verdicts: &mut Verdicts) {
        verdicts.give(transfer.id(), self.judge(transfer).into());
    }
}
