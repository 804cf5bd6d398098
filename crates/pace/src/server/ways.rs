//! The ways to pace, by the names that people give them.

use std::fmt;
use std::str::FromStr;

use crate::Way;

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
