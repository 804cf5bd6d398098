//! A time in 16 bits.

use crate::read::Nanos;

/// A time of 1 µs to 70 minutes to within 0.05 %, or none: kept for every packet, in what alignment
/// leaves free. 5 bits of exponent and 11 of fraction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Brief(u16);

const FRACTION: u32 = 11;
/// The least time is two to this power, a microsecond nearly. It stands for less, too.
const LEAST: u32 = 10;

impl Brief {
    /// No time.
    pub const NONE: Self = Self(0);

    /// The time in nanoseconds.
    pub fn new(time: Nanos) -> Self {
        let time = time.clamp((1 << LEAST) + 1, (1 << (LEAST + 32)) - 1);
        let power = time.ilog2();
        let fraction = (u128::from(time) << FRACTION >> power) as u32 & ((1 << FRACTION) - 1);
        // The least would be 0, which stands for none.
        Self((((power - LEAST) << FRACTION | fraction) as u16).max(1))
    }

    /// The time in nanoseconds, if there is one.
    #[inline]
    pub fn get(self) -> Option<Nanos> {
        if self == Self::NONE {
            return None;
        }
        let bits = u64::from(self.0);
        let fraction = (1 << FRACTION) + (bits & ((1 << FRACTION) - 1));
        Some((fraction << (bits >> FRACTION) << LEAST) >> FRACTION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn times_are_nearly_kept(time in 1_100u64..4_000_000_000_000) {
            let kept = Brief::new(time).get().unwrap();
            prop_assert!(kept <= time && (time - kept) as f64 <= time as f64 / 2000.0);
        }
    }

    #[test]
    fn what_is_out_of_range_is_near_it() {
        assert_eq!(Brief::NONE.get(), None);
        assert!((1000..1100).contains(&Brief::new(0).get().unwrap()));
        assert!(Brief::new(Nanos::MAX).get().unwrap() > 4_000_000_000_000);
    }
}
