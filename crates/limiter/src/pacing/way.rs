//! The ways to pace, by the names that people give them in scenario files and on the command line.

use std::fmt;
use std::str::FromStr;

use crate::units::choices;

/// Packets of 1448 bytes, which a full Ethernet frame carries: the paper's bursts are of 10.
const BURST: u64 = 10 * 1448;

/// How a server keeps the rate of the throttling phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Not at all: the start-up phase lasts.
    None,
    /// The application writes a block when a token bucket has enough for it.
    Application {
        /// Bytes; the paper's servers wrote 65536, and 16384 where blocks were shrunk.
        block: u64,
    },
    /// The kernel spaces the packets (`SO_MAX_PACING_RATE`).
    MaxPacingRate,
    /// The clamp bounds the congestion window [Trickle §2].
    Trickle {
        /// Bytes that are written at once where the clamp is at its floor, and writes are throttled too.
        block: u64,
    },
}

/// A text that is not the name of a way to pace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a way to pace: use {ways}", ways = Way::choices())]
pub struct WayError(String);

impl Way {
    /// Application pacing as the paper's servers had it: blocks of 64 KiB.
    pub const APPLICATION_64K: Self = Self::Application { block: 65_536 };
    /// The paper's "shrunk block": 16 KiB.
    pub const APPLICATION_16K: Self = Self::Application { block: 16_384 };
    /// The clamp, with bursts of 10 segments at its floor.
    pub const TRICKLE: Self = Self::Trickle { block: BURST };

    /// The names of ways, and what they stand for. Earlier names come last: scenarios called application pacing
    /// `blocks`, and the kernel's pacing `max-rate`.
    pub const NAMES: [(&str, Self); 8] = [
        ("trickle", Self::TRICKLE),
        ("application-64k", Self::APPLICATION_64K),
        ("application-16k", Self::APPLICATION_16K),
        ("max-pacing-rate", Self::MaxPacingRate),
        ("none", Self::None),
        ("application", Self::APPLICATION_64K),
        ("blocks", Self::APPLICATION_64K),
        ("max-rate", Self::MaxPacingRate),
    ];

    /// The names without earlier ones, for messages and help.
    #[must_use]
    pub fn choices() -> String {
        let present = Self::NAMES.iter().filter(|(name, way)| way.name() == *name);
        choices(present.map(|(name, _)| *name))
    }
}

impl FromStr for Way {
    type Err = WayError;

    fn from_str(text: &str) -> Result<Self, WayError> {
        let named = Self::NAMES.iter().find(|(name, _)| *name == text);
        named
            .map(|(_, way)| *way)
            .ok_or_else(|| WayError(text.to_owned()))
    }
}

impl Way {
    /// The name that people read and write; application pacing by any other block is plain `application`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Application { block: 65_536 } => "application-64k",
            Self::Application { block: 16_384 } => "application-16k",
            Self::Application { .. } => "application",
            Self::MaxPacingRate => "max-pacing-rate",
            Self::Trickle { .. } => "trickle",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_read_by_the_name_that_it_prints() {
        for (name, way) in Way::NAMES {
            assert_eq!(name.parse(), Ok(way));
            assert_eq!(way.to_string().parse(), Ok(way));
        }
        let error = "fast".parse::<Way>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "'fast' is not a way to pace: use trickle, application-64k, application-16k, max-pacing-rate or none"
        );
    }
}
