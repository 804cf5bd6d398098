//! What PD says of a transfer, and how that reads as a judgement.

use super::super::judgement::{About, Cause, Clue, Details, Estimate, Judgement, Limit, RuledOut};
use super::code::Code;
use crate::annotate::{Layer, TransferSummary};

/// Both runs of the detector.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// With all losses.
    pub all: Run,
    /// Without the first and last two losses, for the case that they have another cause
    /// [Flach16 §2.1, footnote 4].
    pub cut: Run,
}

impl Answer {
    /// The run that counts: one that finds a policer, if either does, as in Table 3 of \[Flach16\].
    pub fn deciding(&self) -> &Run {
        if self.cut.is_policed() && !self.all.is_policed() {
            &self.cut
        } else {
            &self.all
        }
    }

    /// Whether a policer is found.
    pub fn is_policed(&self) -> bool {
        self.deciding().is_policed()
    }
}

impl From<Answer> for Judgement {
    fn from(answer: Answer) -> Self {
        let deciding = answer.deciding();
        let code = deciding.code;
        let cause = if deciding.is_policed() {
            Cause::Policer
        } else {
            Cause::Unclear
        };
        let mut judgement = Self::new(cause, code.reason());
        if let Some(rate) = deciding.rate_bps {
            judgement.limit = Some(Limit {
                rate_bps: Estimate::exact(rate),
                layer: Layer::Payload,
                depth_bytes: None,
                burst: None,
            });
        }
        judgement.with_details(answer)
    }
}

impl Details for Answer {
    fn evidence(&self, _: &TransferSummary, _: &Judgement) -> Vec<Clue> {
        let deciding = self.deciding();
        match deciding.rate_bps {
            Some(_) => vec![Clue::new(About::Losses, deciding.code.explanation())],
            None => Vec::new(),
        }
    }

    fn ruled_out(&self, _: &TransferSummary, _: &Judgement) -> Vec<RuledOut> {
        let deciding = self.deciding();
        match deciding.rate_bps {
            Some(_) => Vec::new(),
            None => vec![RuledOut {
                cause: Cause::Policer,
                why: deciding.code.explanation().into(),
            }],
        }
    }
}

/// One run's verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Policed, or what rules it out.
    pub code: Code,
    /// The policer's rate in payload bits per second, if policed. A goodput: the rate that the
    /// policer is set to counts headers too.
    pub rate_bps: Option<f64>,
    /// The lost packet from which on the rate was taken, as an index into
    /// [`Transfer::sent`](crate::annotate::Transfer::sent), if policed.
    pub first_loss: Option<usize>,
    /// Payload bytes before the first loss, if policed. Not the bucket's depth.
    pub burst_bytes: Option<u64>,
    /// What was tested, in order, up to the first test that rules a policer out.
    pub checks: Vec<Check>,
}

impl Run {
    /// The run that the last of these checks ended.
    pub(super) fn ruled_out(checks: Vec<Check>) -> Self {
        Self {
            code: checks
                .last()
                .map_or(Code::TooFewLosses, |check| check.rules_out),
            rate_bps: None,
            first_loss: None,
            burst_bytes: None,
            checks,
        }
    }

    /// Whether a policer is found.
    pub fn is_policed(&self) -> bool {
        self.code == Code::Policed
    }
}

/// One test of the detector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Check {
    /// What rules a policer out if the test fails.
    pub rules_out: Code,
    /// What was measured.
    pub what: &'static str,
    /// The measured value.
    pub found: f64,
    /// The value that it was compared with.
    pub limit: f64,
    /// Both values' unit.
    pub unit: &'static str,
    /// Whether the transfer is still a candidate.
    pub holds: bool,
}
