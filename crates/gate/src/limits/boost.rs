//! What a subscriber may save up of the rate that it leaves unused.

use serde::{Deserialize, Serialize};
use tidegate_limiter::{Nanos, Rate, parse_time};

/// Bytes of the rate that a subscriber leaves unused and may use later at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Boost {
    /// This number of bytes.
    Bytes(u64),
    /// What the rate comes to in this time, in nanoseconds.
    Time(Nanos),
}

impl Boost {
    /// Most bytes: a terabyte.
    pub const MOST: u64 = 1 << 40;

    /// Reads `10MB` or `5s`.
    ///
    /// # Errors
    /// Why it is neither.
    pub fn read(text: &str) -> Result<Self, String> {
        if let Ok(bytes) = text.parse::<tidegate_limiter::Bytes>() {
            return Ok(Self::Bytes(bytes.get()));
        }
        let time = parse_time(text).map(Self::Time);
        time.map_err(|_| {
            format!("\"{text}\" is neither a size nor a time: write \"10MB\" or \"5s\"")
        })
    }

    /// In bytes.
    pub fn bytes(self, rate: Rate) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Time(time) => {
                let product = u128::from(rate.bits_per_second()) * u128::from(time);
                u64::try_from(product / 8_000_000_000).unwrap_or(u64::MAX)
            }
        }
    }
}
