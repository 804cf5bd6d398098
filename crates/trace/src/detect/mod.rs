//! Detectors: what limited a transfer's rate.
//!
//! A detector sees an annotated [`Transfer`] and gives a [`Judgement`]. It knows nothing of
//! captures, and the annotator knows nothing of it: a new detector is a new file here.

mod clusters;
mod order;
mod pd;

pub use clusters::{Cluster, rate_clusters};
pub use pd::Pd;

use std::fmt;

use crate::annotate::Transfer;

/// Something that judges transfers.
pub trait Detector: Send {
    /// Its name on the command line and in reports.
    fn name(&self) -> &'static str;

    /// Judges a transfer.
    fn judge(&mut self, transfer: &Transfer<'_>) -> Judgement;
}

/// All detectors by name, the default first.
pub const DETECTORS: [&str; 2] = ["pd", "pd-paper"];

/// The detector of that name.
pub fn by_name(name: &str) -> Option<Box<dyn Detector>> {
    match name {
        "pd" => Some(Box::new(Pd::published())),
        "pd-paper" => Some(Box::new(Pd::paper())),
        _ => None,
    }
}

/// What a detector says of a transfer.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// With all losses.
    pub verdict: Verdict,
    /// Without the first and last two losses, for the case that they have another cause
    /// [Flach16 §2.1, footnote 4]; `None` for detectors that judge only once.
    pub cut: Option<Verdict>,
}

impl Judgement {
    /// The verdict that counts: a policer if either run finds one, as in Table 3 of \[Flach16\].
    pub fn deciding(&self) -> &Verdict {
        match &self.cut {
            Some(cut) if cut.is_policed() && !self.verdict.is_policed() => cut,
            _ => &self.verdict,
        }
    }

    /// Whether a policer is found.
    pub fn is_policed(&self) -> bool {
        self.deciding().is_policed()
    }
}

/// One run's verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Policed, or what rules it out.
    pub code: Code,
    /// The policer's rate in payload bits per second, if policed. A goodput: the rate that the
    /// policer is set to counts headers too.
    pub rate_bps: Option<f64>,
    /// The lost packet from which on the rate was taken, as an index into
    /// [`Transfer::sent`], if policed.
    pub first_loss: Option<usize>,
    /// Payload bytes before the first loss, if policed. Not the bucket's depth.
    pub burst_bytes: Option<u64>,
    /// What was tested, in order, up to the first test that rules a policer out.
    pub checks: Vec<Check>,
}

impl Verdict {
    /// Whether a policer is found.
    pub fn is_policed(&self) -> bool {
        self.code == Code::Policed
    }
}

/// The result codes of the published detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Code {
    /// All conditions for a policer hold.
    Policed = 0,
    /// Too few losses, or too few packets that passed, to tell.
    TooFewLosses = 1,
    /// The first loss came late in the transfer.
    LateLoss = 2,
    /// The bucket would have held less than nothing at the start.
    NegativeFill = 3,
    /// The bucket held no less when packets were lost than when they passed.
    HigherFillOnLoss = 4,
    /// Packets were lost while the bucket held tokens, or long after it was empty.
    LossFillOutOfRange = 5,
    /// Packets passed while the bucket was empty.
    PassFillOutOfRange = 6,
    /// The round-trip time grew before losses.
    InflatedRtt = 7,
}

impl Code {
    /// All codes, by number.
    pub const ALL: [Self; 8] = [
        Self::Policed,
        Self::TooFewLosses,
        Self::LateLoss,
        Self::NegativeFill,
        Self::HigherFillOnLoss,
        Self::LossFillOutOfRange,
        Self::PassFillOutOfRange,
        Self::InflatedRtt,
    ];

    /// Its number.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The reason in a few words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Policed => "losses fit a token bucket",
            Self::TooFewLosses => "too few losses to tell",
            Self::LateLoss => "first loss too late",
            Self::NegativeFill => "slower before losses",
            Self::HigherFillOnLoss => "tokens left on loss",
            Self::LossFillOutOfRange => "losses at any fill",
            Self::PassFillOutOfRange => "passed without tokens",
            Self::InflatedRtt => "delay grew before loss",
        }
    }

    /// The reason in a sentence.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::Policed => {
                "Packets were lost when a token bucket of this rate would have been empty, passed \
                 when it would have held tokens, and were not delayed before."
            }
            Self::TooFewLosses => {
                "Fewer losses, or losses in fewer round trips, than are needed to tell a policer \
                 from chance."
            }
            Self::LateLoss => {
                "The first loss came more than 2 MB into the transfer: a policer with such a \
                 bucket is less likely than another cause."
            }
            Self::NegativeFill => {
                "Up to the first loss the transfer was slower than the rate between its losses: a \
                 token bucket of that rate would not have been empty."
            }
            Self::HigherFillOnLoss => {
                "A token bucket of this rate would have held no less when packets were lost than \
                 when they passed."
            }
            Self::LossFillOutOfRange => {
                "More than a tenth of the losses came when the fill of a token bucket of this rate \
                 would have been far from that at the others."
            }
            Self::PassFillOutOfRange => {
                "More than three in a hundred packets passed when a token bucket of this rate \
                 would have been empty."
            }
            Self::InflatedRtt => {
                "More than a fifth of the losses followed a grown round-trip time: a queue filled \
                 up before it dropped, which a policer does not have."
            }
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.reason())
    }
}

/// One test of a detector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Check {
    /// What rules a policer out if the test fails.
    pub rules_out: Code,
    /// What was measured.
    pub what: &'static str,
    /// The measured value.
    pub found: f64,
    /// The value that it was held against.
    pub limit: f64,
    /// Both values' unit.
    pub unit: &'static str,
    /// Whether the transfer is still a candidate.
    pub holds: bool,
}
