//! The target rate of a socket.

use std::ops::RangeInclusive;

use tidegate_limiter::Rate;
use tidegate_limiter::pacing::HEADROOM;

use crate::clamp::wire::{CLAMP_ONLY, HOLD_AVERAGE, RATE_MOST, Request};

/// Why a target is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// A rate that is not one of [`Target::RATES`].
    #[error(
        "{0} is out of range for a target rate: sockets are paced to {least} to {most}",
        least = Target::RATES.start(),
        most = Target::RATES.end()
    )]
    Rate(Rate),
    /// A headroom that is not one of [`Target::HEADROOM`].
    #[error(
        "{0} is out of range for a headroom: it is {least} to {most} per mille of R * RTT",
        least = Target::HEADROOM.start(),
        most = Target::HEADROOM.end()
    )]
    Headroom(u32),
    /// A floor that is not one of [`Target::FLOOR`].
    #[error(
        "{0} is out of range for a floor: it is {least} to {most} segments",
        least = Target::FLOOR.start(),
        most = Target::FLOOR.end()
    )]
    Floor(u32),
}

/// The target rate of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    rate: u64,
    headroom: u32,
    floor: u32,
    credit: u64,
    flags: u32,
}

impl Target {
    /// The rates that a socket can be paced to. The kernel takes them in bytes a second, and a server may send
    /// more slowly than [`Rate::LIMITABLE`], which limiters can enforce.
    pub const RATES: RangeInclusive<Rate> =
        Rate::from_bits_per_second(1)..=Rate::from_bits_per_second(8 * RATE_MOST);
    /// The clamp in thousandths of R · RTT may be one of these.
    pub const HEADROOM: RangeInclusive<u32> = 1000..=10_000;
    /// The least clamp may be one of these, in segments.
    pub const FLOOR: RangeInclusive<u32> = 1..=65_535;

    /// This target rate R (125 % of the encoding rate, in the paper), with 20 % headroom and
    /// a floor of 10 segments.
    ///
    /// # Errors
    /// If the rate is not one of [`RATES`](Self::RATES).
    pub fn new(rate: Rate) -> Result<Self, TargetError> {
        if !Self::RATES.contains(&rate) {
            return Err(TargetError::Rate(rate));
        }
        Ok(Self {
            rate: rate.bits_per_second().div_ceil(8),
            headroom: HEADROOM,
            floor: 10,
            credit: u64::MAX,
            flags: 0,
        })
    }

    /// The clamp in thousandths of R · RTT.
    ///
    /// # Errors
    /// If it is not one of [`HEADROOM`](Self::HEADROOM).
    pub fn headroom(self, per_mille: u32) -> Result<Self, TargetError> {
        match Self::HEADROOM.contains(&per_mille) {
            true => Ok(Self {
                headroom: per_mille,
                ..self
            }),
            false => Err(TargetError::Headroom(per_mille)),
        }
    }

    /// The least clamp, in segments.
    ///
    /// # Errors
    /// If it is not one of [`FLOOR`](Self::FLOOR).
    pub fn floor(self, segments: u32) -> Result<Self, TargetError> {
        match Self::FLOOR.contains(&segments) {
            true => Ok(Self {
                floor: segments,
                ..self
            }),
            false => Err(TargetError::Floor(segments)),
        }
    }

    /// How many bytes may be caught up at most after congestion; all of them otherwise.
    #[must_use]
    pub fn credit(self, bytes: u64) -> Self {
        Self {
            credit: bytes,
            ..self
        }
    }

    /// Leaves out the headroom while the transfer is ahead of R, so that its average is R. The
    /// paper's clamp lets it run at up to headroom · R.
    #[must_use]
    pub fn hold_average(self, hold: bool) -> Self {
        self.flag(HOLD_AVERAGE, hold)
    }

    /// The paper's algorithm alone: no pacing by the kernel where the window is above the clamp and
    /// something else limits the transfer.
    #[must_use]
    pub fn clamp_only(self, only: bool) -> Self {
        self.flag(CLAMP_ONLY, only)
    }

    fn flag(self, flag: u32, on: bool) -> Self {
        let flags = if on {
            self.flags | flag
        } else {
            self.flags & !flag
        };
        Self { flags, ..self }
    }

    /// R in bytes per second.
    #[must_use]
    pub fn bytes_per_second(&self) -> u64 {
        self.rate
    }

    /// The rate with its headroom, in bytes per second.
    pub(crate) fn with_headroom(&self) -> u64 {
        let rate = u128::from(self.rate) * u128::from(self.headroom) / 1000;
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// The request for the clamp: `owner` names the programs, `queued` is the part of the start-up phase
    /// that is not acknowledged.
    pub(crate) fn request(&self, owner: u64, queued: u32) -> Request {
        Request {
            owner,
            rate: self.rate,
            credit: self.credit,
            headroom: self.headroom,
            floor: self.floor,
            flags: self.flags,
            queued,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_rejected_at_once() {
        let rate = Rate::from_bits_per_second;
        let words = |found: Result<Target, TargetError>| found.unwrap_err().to_string();
        assert_eq!(
            words(Target::new(rate(0))),
            "0 bit/s is out of range for a target rate: sockets are paced to 1 bit/s to 100 Gbit/s"
        );
        assert!(Target::new(rate(100_000_000_001)).is_err());
        let target = Target::new(rate(100_000_000_000)).unwrap();
        assert_eq!(target.bytes_per_second(), RATE_MOST);
        assert_eq!(
            words(target.headroom(999)),
            "999 is out of range for a headroom: it is 1000 to 10000 per mille of R * RTT"
        );
        assert_eq!(
            words(target.floor(0)),
            "0 is out of range for a floor: it is 1 to 65535 segments"
        );
    }
}
