//! The result codes of the published detector.

use std::fmt;

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
                "There are fewer losses, or they are in fewer round trips, than it takes to distinguish a \
                 policer from chance."
            }
            Self::LateLoss => {
                "The first loss came more than 2 MB into the transfer: another cause is more likely \
                 than a policer with so large a bucket."
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
                 up before it dropped. A policer has no queue."
            }
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.reason())
    }
}
