//! The share of flows that is sampled.

use std::fmt;
use std::str::FromStr;

/// The smallest share: one flow of a billion.
const LEAST: f64 = 1e-9;

/// A share of all flows, above 0 and at most 1.
///
/// ```
/// use tidegate_sample::Fraction;
///
/// let one: Fraction = "1%".parse()?;
/// assert_eq!(one, "0.01".parse()?);
/// assert_eq!(one, "1/100".parse()?);
/// assert_eq!(one.halved().to_string(), "0.005");
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Fraction(f64);

impl Fraction {
    /// All flows.
    pub const ALL: Self = Self(1.0);

    /// A share, if it is one.
    pub fn new(share: f64) -> Option<Self> {
        (LEAST..=1.0).contains(&share).then_some(Self(share))
    }

    /// As a number.
    pub fn get(self) -> f64 {
        self.0
    }

    /// Half of it, but no less than the smallest. The flows of the half are among those of the whole.
    pub fn halved(self) -> Self {
        Self((self.0 / 2.0).max(LEAST))
    }

    /// Twice this, but no more than `most`.
    pub fn doubled(self, most: Self) -> Self {
        Self((self.0 * 2.0).min(most.0))
    }

    /// No flow at all.
    pub(crate) const NOTHING: Self = Self(0.0);

    /// A flow is sampled if its hash is below this.
    pub(crate) fn limit(self) -> u64 {
        (self.0 * (1u64 << u32::BITS) as f64) as u64
    }

    /// Whether a flow with this hash is sampled.
    pub(crate) fn takes(self, hash: u32) -> bool {
        u64::from(hash) < self.limit()
    }
}

impl FromStr for Fraction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let share = if let Some(percent) = text.strip_suffix('%') {
            number(percent).map(|percent| percent / 100.0)
        } else if let Some((part, whole)) = text.split_once('/') {
            number(part)
                .zip(number(whole))
                .map(|(part, whole)| part / whole)
        } else {
            number(text)
        };
        share.and_then(Self::new).ok_or_else(|| {
            format!("'{text}' is not a share of flows: write 1%, 0.01 or 1/100, above 0 and at most all (100%)")
        })
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_share_is_refused() {
        for text in [
            "", "0", "0%", "101%", "1.5", "-1%", "NaN", "inf", "1/0", "0/0", "x", "1e-12", "%",
        ] {
            assert!(text.parse::<Fraction>().is_err(), "{text}");
        }
        assert_eq!("100 %".parse(), Ok(Fraction::ALL));
    }

    #[test]
    fn all_takes_every_hash_and_a_half_is_within_the_whole() {
        assert!(Fraction::ALL.takes(u32::MAX) && Fraction::ALL.takes(0));
        let whole = Fraction(0.01);
        let half = whole.halved();
        assert_eq!(half.limit(), whole.limit() / 2);
        assert_eq!(half.doubled(whole), whole);
        assert!(Fraction(LEAST).halved().limit() > 0);
    }
}
