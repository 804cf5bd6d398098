//! From time to bytes, exactly.

use crate::{Nanos, Rate};

#[cfg(test)]
mod tests;

/// Bit-nanoseconds of a byte: what a rate of 1 bit/s needs 8 s for.
pub(crate) const BYTE: u64 = 8_000_000_000;

/// How many bytes a rate comes to as time goes on. What is less than a byte is kept for the next
/// time, so the sum over any steps is that of one step, over years.
#[derive(Debug, Clone)]
pub struct Meter {
    bits_per_second: u64,
    /// Bit-nanoseconds below a byte.
    remainder: u64,
    at: Nanos,
}

impl Meter {
    /// A meter that begins to count at this time.
    pub fn new(rate: Rate, now: Nanos) -> Self {
        Self {
            bits_per_second: rate.bits_per_second(),
            remainder: 0,
            at: now,
        }
    }

    /// The longest step whose bit-nanoseconds fit into 64 bits together with a remainder: for data
    /// paths without wider integers. The longest time if the rate is 0.
    pub const fn longest_step(rate: Rate) -> Nanos {
        match (u64::MAX - BYTE).checked_div(rate.bits_per_second()) {
            Some(step) => step,
            None => Nanos::MAX,
        }
    }

    /// The rate.
    pub fn rate(&self) -> Rate {
        Rate::from_bits_per_second(self.bits_per_second)
    }

    /// Another rate from the time of the last [`advance`](Self::advance) on.
    pub fn set_rate(&mut self, rate: Rate) {
        self.bits_per_second = rate.bits_per_second();
    }

    /// Whole bytes since the last time; none if the time is before it.
    #[inline]
    pub fn advance(&mut self, now: Nanos) -> u64 {
        let Some(elapsed) = now.checked_sub(self.at) else {
            return 0;
        };
        self.at = now;
        let product = self.bits_per_second.checked_mul(elapsed);
        if let Some(total) = product.and_then(|product| product.checked_add(self.remainder)) {
            self.remainder = total % BYTE;
            return total / BYTE;
        }
        // More than 46 ms at 400 Gbit/s, more than a day at 100 kbit/s.
        let total =
            u128::from(self.bits_per_second) * u128::from(elapsed) + u128::from(self.remainder);
        self.remainder = (total % u128::from(BYTE)) as u64;
        u64::try_from(total / u128::from(BYTE)).unwrap_or(u64::MAX)
    }

    /// Forgets what is below a byte: of a bucket that is full, or a queue that is empty.
    #[inline]
    pub fn forget(&mut self) {
        self.remainder = 0;
    }

    /// How long until `bytes` more bytes are there, from the time of the last advance. Rounded
    /// up; the longest time if the rate is 0.
    pub fn until(&self, bytes: u64) -> Nanos {
        let missing =
            (u128::from(bytes) * u128::from(BYTE)).saturating_sub(u128::from(self.remainder));
        if self.bits_per_second == 0 {
            return if missing == 0 { 0 } else { Nanos::MAX };
        }
        let time = missing.div_ceil(u128::from(self.bits_per_second));
        Nanos::try_from(time).unwrap_or(Nanos::MAX)
    }

    /// Bit-nanoseconds below a byte, as of the last advance.
    pub(crate) fn remainder(&self) -> u64 {
        self.remainder
    }

    /// The time of the last advance.
    pub fn at(&self) -> Nanos {
        self.at
    }
}
