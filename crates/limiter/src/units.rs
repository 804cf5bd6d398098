//! Sizes in bytes and times, written as people write them, and how any quantity is read.

use std::fmt;
use std::str::FromStr;

use crate::Nanos;

#[cfg(test)]
mod tests;

/// A size in bytes.
///
/// Parsed from a number and a unit: `B`, the decimal multiples `kB`, `MB`, `GB` and `TB`
/// (1 kB = 1000 B, as in [Flach16 §5.1.1]), or the binary ones `KiB`, `MiB`, `GiB` and `TiB`. A number
/// alone counts bytes. A small `b` is refused, it could be bits; so is a bare `k`, by which tc(8)
/// means 1024 and others 1000.
///
/// ```
/// use tidegate_limiter::Bytes;
/// let size: Bytes = "32kB".parse().unwrap();
/// assert_eq!(size.get(), 32_000);
/// assert_eq!(size.to_string(), "32.0 kB");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

/// Why a text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BytesError {
    /// No digits, or something that is no decimal number, before the unit.
    #[error("'{0}' is not a size: write a number and a unit, such as 1500B, 32kB, 1.5MB or 64KiB")]
    Number(String),
    /// The unit is not one of ours.
    #[error("'{0}' has no known unit of size: use B, kB, MB, GB, TB, KiB, MiB, GiB or TiB (bytes)")]
    Unit(String),
    /// More than 2^64 bytes, or less than 1 byte without being 0.
    #[error("'{0}' is out of range for a size")]
    Range(String),
}

impl Bytes {
    /// A size in bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The size in bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl FromStr for Bytes {
    type Err = BytesError;

    fn from_str(text: &str) -> Result<Self, BytesError> {
        let scale = |unit: &str| {
            Some(match unit {
                "" | "B" => 1,
                "kB" | "KB" => 1_000,
                "MB" => 1_000_000,
                "GB" => 1_000_000_000,
                "TB" => 1_000_000_000_000,
                "KiB" | "kiB" => 1 << 10,
                "MiB" => 1 << 20,
                "GiB" => 1 << 30,
                "TiB" => 1 << 40,
                _ => return None,
            })
        };
        quantity(text, scale)
            .map(Self)
            .map_err(|error| match error {
                Unread::Number => BytesError::Number(text.into()),
                Unread::Unit => BytesError::Unit(text.into()),
                Unread::Range => BytesError::Range(text.into()),
            })
    }
}

impl fmt::Display for Bytes {
    /// Three significant digits and the decimal unit that keeps the number below 1000.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&three_digits(self.0, ["B", "kB", "MB", "GB", "TB"]))
    }
}

/// Why a text is not a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// No decimal number, or no unit of ours.
    #[error(
        "'{0}' is not a time: write a number and ns, us, ms, s, min or h, such as 100ms or 1.5s"
    )]
    Text(String),
    /// More than 2^64 ns, or less than 1 ns without being 0.
    #[error("'{0}' is out of range for a time")]
    Range(String),
}

/// Reads a time, a number and a unit: `250us`, `100ms`, `1.5s`, `2min`, `1h`, or `0`.
///
/// # Errors
/// If it is none.
pub fn parse_time(text: &str) -> Result<Nanos, TimeError> {
    let scale = |unit: &str| {
        Some(match unit {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "" if text.trim() == "0" => 1,
            _ => return None,
        })
    };
    quantity(text, scale).map_err(|error| match error {
        Unread::Number | Unread::Unit => TimeError::Text(text.into()),
        Unread::Range => TimeError::Range(text.into()),
    })
}

/// Why a text is not a quantity.
pub(crate) enum Unread {
    /// No decimal number.
    Number,
    /// No unit that is known.
    Unit,
    /// Above what 64 bits hold, or below 1 without being 0.
    Range,
}

/// A decimal number with its unit, as a whole number of what the unit is a multiple of. Fractions
/// below 1 are left out.
pub(crate) fn quantity(text: &str, scale: impl Fn(&str) -> Option<u128>) -> Result<u64, Unread> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = trimmed.split_at(split.unwrap_or(trimmed.len()));
    let scale = match scale(unit.trim()) {
        None if number.is_empty() => return Err(Unread::Number),
        None => return Err(Unread::Unit),
        Some(scale) => scale,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || digits.len() > 30 || fraction.contains('.') {
        return Err(Unread::Number);
    }
    let mantissa: u128 = digits.parse().map_err(|_| Unread::Number)?;
    let divisor = 10u128.pow(fraction.len() as u32);
    let count = mantissa
        .checked_mul(scale)
        .map(|count| count / divisor)
        .and_then(|count| u64::try_from(count).ok())
        .ok_or(Unread::Range)?;
    if count == 0 && mantissa != 0 {
        return Err(Unread::Range);
    }
    Ok(count)
}

/// Names as a sentence has them: `a, b or c`.
pub fn choices<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    match names.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} or {last}", before.join(", ")),
        _ => names.concat(),
    }
}

/// Three significant digits and the unit that keeps the number below 1000, of units that are 1000
/// times as large as the one before.
pub(crate) fn three_digits(count: u64, units: [&str; 5]) -> String {
    let mut value = count as f64;
    let mut unit = 0;
    // 999.5 would be printed as 1000 of the smaller unit.
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = match (unit, value) {
        (0, _) => 0,
        (_, v) if v < 9.995 => 2,
        (_, v) if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}", units[unit])
}
