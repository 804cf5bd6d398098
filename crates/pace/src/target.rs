//! What a socket is to be paced to.

use crate::clamp::wire::{CLAMP_ONLY, HOLD_AVERAGE, RATE_MOST, Request};
use crate::error::PaceError;

/// What a socket is to be paced to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    rate: u64,
    headroom: u32,
    floor: u32,
    credit: u64,
    flags: u32,
}

impl Target {
    /// This target rate R in bit/s (125 % of the encoding rate, in the paper), with 20 % headroom and
    /// a floor of 10 segments.
    #[must_use]
    pub fn new(bits_per_second: u64) -> Self {
        let rate = bits_per_second.div_ceil(8);
        Self {
            rate,
            headroom: 1200,
            floor: 10,
            credit: u64::MAX,
            flags: 0,
        }
    }

    /// The clamp in thousandths of R · RTT, 1000 to 10,000.
    #[must_use]
    pub fn headroom(self, per_mille: u32) -> Self {
        Self {
            headroom: per_mille,
            ..self
        }
    }

    /// The least clamp, in segments, 1 to 65,535.
    #[must_use]
    pub fn floor(self, segments: u32) -> Self {
        Self {
            floor: segments,
            ..self
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

    /// Leaves the headroom away while the transfer is ahead of R, so that its average is R. The
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

    pub(crate) fn check(&self) -> Result<(), PaceError> {
        let Self {
            rate,
            headroom,
            floor,
            ..
        } = *self;
        let problem = if rate == 0 || rate > RATE_MOST {
            "the target rate must be between 1 bit/s and 100 Gbit/s"
        } else if !(1000..=10_000).contains(&headroom) {
            "the headroom must be between 1000 and 10000 per mille of R * RTT"
        } else if !(1..=65_535).contains(&floor) {
            "the floor must be between 1 and 65535 segments"
        } else {
            return Ok(());
        };
        Err(PaceError::Target(problem))
    }

    /// The rate with its headroom, in bytes per second.
    pub(crate) fn with_headroom(&self) -> u64 {
        let rate = u128::from(self.rate) * u128::from(self.headroom) / 1000;
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// For the clamp: `owner` is whose programs are asked, `queued` what is still of the start-up phase.
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
