//! The ways to pace, by the names that people give them.

use std::fmt;
use std::str::FromStr;

/// A way to pace the throttling phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Not at all: the start-up phase lasts.
    None,
    /// A block at a time, when a token bucket has enough for it.
    Application {
        /// Bytes; the paper's were 65536 and 16384.
        block: u64,
        /// Tokens, in per cent of the encoding rate; the paper's 125.
        percent: u32,
    },
    /// SO_MAX_PACING_RATE: the kernel spaces the packets.
    MaxPacingRate {
        /// Its rate, in per cent of the encoding rate.
        percent: u32,
    },
    /// The clamp.
    Trickle {
        /// The target rate R, in per cent of the encoding rate; the paper's 125.
        percent: u32,
    },
}

impl Way {
    /// Application pacing as the paper's servers had it: 64 kB, 125 %.
    pub const APPLICATION_64K: Self = Self::Application {
        block: 65_536,
        percent: 125,
    };
    /// The paper's "shrunk block": 16 kB, 125 %.
    pub const APPLICATION_16K: Self = Self::Application {
        block: 16_384,
        percent: 125,
    };
    /// The kernel's pacing at 125 %.
    pub const MAX_PACING_RATE: Self = Self::MaxPacingRate { percent: 125 };
    /// The clamp at 125 %.
    pub const TRICKLE: Self = Self::Trickle { percent: 125 };

    pub(super) fn percent(self) -> u32 {
        match self {
            Self::None => 100,
            Self::Application { percent, .. }
            | Self::MaxPacingRate { percent }
            | Self::Trickle { percent } => percent,
        }
    }
}

/// No such way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no way to pace: use trickle, application-64k, application-16k, max-pacing-rate or none"
)]
pub struct WayError(String);

impl FromStr for Way {
    type Err = WayError;

    fn from_str(text: &str) -> Result<Self, WayError> {
        Ok(match text {
            "trickle" => Self::TRICKLE,
            "application-64k" => Self::APPLICATION_64K,
            "application-16k" => Self::APPLICATION_16K,
            "max-pacing-rate" => Self::MAX_PACING_RATE,
            "none" => Self::None,
            _ => return Err(WayError(text.to_owned())),
        })
    }
}

impl fmt::Display for Way {
    /// The name, which does not tell the percentage.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trickle { .. } => f.pad("trickle"),
            Self::Application { block, .. } => f.pad(&format!("application-{}k", block >> 10)),
            Self::MaxPacingRate { .. } => f.pad("max-pacing-rate"),
            Self::None => f.pad("none"),
        }
    }
}

impl Way {
    /// The same way at so many percent of the encoding rate.
    #[must_use]
    pub fn at_percent(self, percent: u32) -> Self {
        match self {
            Self::Trickle { .. } => Self::Trickle { percent },
            Self::Application { block, .. } => Self::Application { block, percent },
            Self::MaxPacingRate { .. } => Self::MaxPacingRate { percent },
            Self::None => Self::None,
        }
    }
}
