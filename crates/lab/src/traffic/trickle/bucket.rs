//! When a Trickle server writes how much: the token bucket of `tidegate pace`'s writer, kept as times.

use tidegate_limiter::Nanos;

use crate::SECOND;

/// Bytes that a transfer may be ahead of its rate, at most, after the window let it: twice what a
/// socket takes at once.
const AHEAD: u64 = 1 << 18;

/// The tokens of a transfer's throttling phase.
#[derive(Debug)]
pub struct Bucket {
    /// Bytes per second.
    rate: u64,
    /// Bytes that are written at once.
    block: u64,
    /// When there are tokens for a block.
    enough: Nanos,
    /// Tokens that were more than two blocks, in time: due, if the transfer falls behind.
    missed: Nanos,
    /// The next block, at the earliest: what is caught up comes at twice the rate, not at once.
    next: Nanos,
}

impl Bucket {
    /// Empty.
    pub fn new(rate: u64, block: u64, now: Nanos) -> Self {
        let mut bucket = Self {
            rate: rate.max(1),
            block,
            enough: 0,
            missed: 0,
            next: 0,
        };
        bucket.enough = now.saturating_add(bucket.time(block));
        bucket
    }

    /// The time in which so many tokens come.
    fn time(&self, bytes: u64) -> Nanos {
        let time = u128::from(bytes) * u128::from(SECOND);
        u64::try_from(time.div_ceil(u128::from(self.rate))).unwrap_or(Nanos::MAX)
    }

    /// When a throttled writer may write its next block, at the earliest.
    pub fn due(&mut self, now: Nanos) -> Nanos {
        let two_blocks = now.saturating_sub(self.time(self.block));
        self.missed += two_blocks.saturating_sub(self.enough);
        self.enough = self.enough.max(two_blocks);
        self.enough.max(self.next)
    }

    /// A throttled writer wrote so many bytes now.
    pub fn wrote(&mut self, now: Nanos, bytes: u64) {
        let time = self.time(bytes);
        self.enough = self.enough.saturating_add(time);
        self.next = now.saturating_add(time / 2);
    }

    /// So many bytes were written now where the window decides; what is ahead counts later.
    pub fn counted(&mut self, now: Nanos, bytes: u64) {
        let most = now.saturating_add(self.time(self.block.saturating_add(AHEAD)));
        let missed = std::mem::take(&mut self.missed);
        let enough = self.enough.saturating_sub(missed);
        self.enough = enough.saturating_add(self.time(bytes)).min(most);
    }
}
