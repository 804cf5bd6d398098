//! How often policers are found, and other causes taken for policers: of all transfers, and of lossy ones.

use std::fmt;

use tidegate_trace::annotate::TransferSummary;
use tidegate_trace::detect::{Cause, Judgement};

use crate::lab::MIN_LOSSES;
use crate::table3::percent;

/// How many of some transfers were judged to be policed.
#[derive(Debug, Clone, Copy, Default)]
struct Judged {
    policed: usize,
    all: usize,
}

impl Judged {
    fn count(&mut self, policed: bool) {
        self.policed += usize::from(policed);
        self.all += 1;
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policed, all } = *self;
        write!(f, "{policed} of {all} ({})", percent(policed, all))
    }
}

/// Transfers by whether a policer limited them.
#[derive(Debug, Default)]
struct ByTruth {
    behind_policers: Judged,
    others: Judged,
    /// Those whose cause is not clear, though no policer was there.
    not_clear: Judged,
}

impl ByTruth {
    fn count(&mut self, truth: Option<Cause>, policed: bool) {
        let part = match truth {
            Some(Cause::Policer) => &mut self.behind_policers,
            Some(_) => &mut self.others,
            None => &mut self.not_clear,
        };
        part.count(policed);
    }
}

impl fmt::Display for ByTruth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "policers found: {}", self.behind_policers)?;
        writeln!(f, "taken for policers: {}", self.others)?;
        writeln!(
            f,
            "without a clear cause, though not policed, and taken for policers: {}",
            self.not_clear
        )
    }
}

/// What reports need to correct shares of policed segments for the detector's errors.
#[derive(Debug, Default)]
pub struct Policers {
    all: ByTruth,
    /// Those with [`MIN_LOSSES`] or more, by the column `lost_packets`: what reports call lossy.
    lossy: ByTruth,
}

impl Policers {
    /// Counts a transfer. The truth is `None` where it is not clear, but no policer was there.
    pub fn count(
        &mut self,
        truth: Option<Cause>,
        transfer: &TransferSummary,
        judgement: &Judgement,
    ) {
        let policed = judgement.is_policed();
        self.all.count(truth, policed);
        if transfer.metrics.lost_packets >= MIN_LOSSES {
            self.lossy.count(truth, policed);
        }
    }
}

impl fmt::Display for Policers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\nof those with {MIN_LOSSES} losses or more\n{}",
            self.all, self.lossy
        )
    }
}
