//! A rate in bits per second, written as people write it.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::units::{Unread, quantity, three_digits};

#[cfg(test)]
mod tests;

/// A rate in bits per second.
///
/// Parsed from a number and a unit of `bit`, `kbit`, `mbit`, `gbit` or `tbit`, decimal multiples
/// (1 kbit = 1000 bit), upper or lower case, with an optional `/s`: `10mbit`, `1.5 Mbit/s`,
/// `500kbit`. As plans are often written, `20M` and `20 Mbps` are 20 Mbit/s as well. tc(8) alone means bytes by
/// `mbps`. A capital `B` is refused, since it means bytes: `20 MBps`, `20 MB/s`.
///
/// ```
/// use tidegate_limiter::Rate;
/// let rate: Rate = "1.5mbit".parse().unwrap();
/// assert_eq!(rate.bits_per_second(), 1_500_000);
/// assert_eq!(rate.to_string(), "1.50 Mbit/s");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Rate(u64);

/// Why a text is not a rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// No digits, or something that is no decimal number, before the unit.
    #[error("'{0}' is not a rate: write a number and a unit, such as 10mbit, 1.5mbit or 500kbit")]
    Number(String),
    /// The unit is missing or not one of ours.
    #[error("'{0}' has no known unit of rate: use bit, kbit, mbit, gbit or tbit (bits per second)")]
    Unit(String),
    /// More than 2^64 bit/s, or less than 1 bit/s without being 0.
    #[error("'{0}' is out of range for a rate")]
    Range(String),
}

impl Rate {
    /// The rates that limiters can enforce. Within them, no product of a rate and a time of the
    /// limiters' arithmetic overflows, and a byte takes at most 1 ms.
    pub const LIMITABLE: RangeInclusive<Self> = Self(8_000)..=Self(400_000_000_000);
    /// [`LIMITABLE`](Self::LIMITABLE) in words, for messages.
    pub const LIMITABLE_TEXT: &'static str = "from 8 kbit/s to 400 Gbit/s";

    /// A rate in bits per second.
    pub const fn from_bits_per_second(bits: u64) -> Self {
        Self(bits)
    }

    /// The rate in bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let scale = |unit: &str| {
            if unit.contains('B') {
                return None;
            }
            let unit = unit.to_ascii_lowercase();
            let bits = ["bit/s", "bit", "bps", "b/s"];
            let bits = bits.iter().find_map(|bits| unit.strip_suffix(bits));
            Some(match (bits.unwrap_or(&unit), bits) {
                ("", Some(_)) => 1,
                ("k", _) => 1_000,
                ("m", _) => 1_000_000,
                ("g", _) => 1_000_000_000,
                ("t", _) => 1_000_000_000_000,
                _ => return None,
            })
        };
        quantity(text, scale)
            .map(Self)
            .map_err(|error| match error {
                Unread::Number => RateError::Number(text.into()),
                Unread::Unit => RateError::Unit(text.into()),
                Unread::Range => RateError::Range(text.into()),
            })
    }
}

impl fmt::Display for Rate {
    /// Three significant digits and the unit that keeps the number below 1000.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];
        f.pad(&three_digits(self.0, UNITS))
    }
}
