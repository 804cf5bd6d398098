//! How much of its rate an aggregate used lately, by the books that looks begin: the surplus that bounds its bursts, and the part
//! that nodes above it want to know.

use super::SizedPhantomQueues;
use super::config::LEAST;
use crate::{Nanos, Share};

/// The longest time whose service is set against a surplus. Surpluses are smaller.
const SECOND: Nanos = 1_000_000_000;

impl<const QUEUES: usize, const SHARES: usize> SizedPhantomQueues<QUEUES, SHARES> {
    /// What the burst bucket of a queue that is not filled may hold, were it alone: twice what the
    /// surplus of the aggregate leaves of a filled queue's bucket, but a small part in any case.
    #[inline]
    pub(super) fn allowance(&self, now: Nanos) -> u64 {
        let upper = self.thresholds.0;
        let left = upper.saturating_sub(self.surplus(now));
        (2 * left).max(upper / LEAST)
    }

    /// By how much the bytes that passed exceed the rate, from a look on that found no surplus.
    #[inline]
    pub(super) fn surplus(&self, now: Nanos) -> u64 {
        let elapsed = now.saturating_add(self.period).saturating_sub(self.due);
        // The threshold is the rate of two periods.
        let served = self.thresholds.0 * elapsed.min(SECOND) / (2 * self.period);
        self.passed.wrapping_sub(self.base).saturating_sub(served)
    }

    /// The part of the whole rate that was used between the latest two looks, or more, see
    /// [`Hierarchy::tell`](crate::Hierarchy::tell). It is said once after each look.
    #[inline]
    pub fn take_used(&mut self) -> Option<Share> {
        let used = std::mem::take(&mut self.used);
        (used > 0).then(|| Share::from_parts(used))
    }

    /// Whether [`take_used`](Self::take_used) ever says anything.
    pub fn knows_used(&self) -> bool {
        // What passes thanks to saved bytes is not in the books.
        self.places() && self.boost == 0
    }

    /// See [`take_used`](Self::take_used). What passed may have been the surplus of earlier times.
    pub(super) fn used_since(&self, now: Nanos) -> u32 {
        if !self.knows_used() || self.due == 0 {
            return 0;
        }
        let whole = self.whole.as_ref().map(|whole| whole.thresholds.0);
        let elapsed = now.saturating_add(self.period).saturating_sub(self.due);
        // As for a surplus.
        let most = whole.unwrap_or(self.thresholds.0) * elapsed.min(SECOND) / (2 * self.period);
        Share::part(self.passed.wrapping_sub(self.base), most)
    }
}
