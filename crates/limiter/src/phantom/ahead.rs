//! What a packet needs until anything happens but packets.

use super::queue::Queue;
use crate::{Decision, Nanos};

/// The root of a fair share, as it will be until the first of its queues may be empty, worked out
/// in advance: one cache line, and with a packet's own queue all that is looked at. Nothing is
/// divided, and whether the packet passes is no branch, which the processor could guess wrong.
///
/// Time is measured backwards: `left(now)` is how many bit-nanoseconds are left until the root's
/// clock reaches `empties`, each byte of which takes `unit` of them.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(super) struct Ahead {
    /// The latest time of a packet.
    pub(super) latest: Nanos,
    /// When anything else has to be looked at, whatever is left then. 0: nothing is known ahead.
    pub(super) event: Nanos,
    /// `left(0)`, and what is taken off it each nanosecond; wraps.
    pub(super) base: u64,
    pub(super) rate: u64,
    /// Sum of the weights of active queues, in bit-nanoseconds a byte.
    pub(super) unit: u64,
    /// `empties` and a queue's size.
    pub(super) full: u64,
    /// What a queue may accept in a period before it is filled.
    pub(super) most: u64,
    /// Bytes accepted that the root does not know of.
    pub(super) added: u64,
}

impl Ahead {
    /// Nothing is known ahead.
    pub(super) const NOTHING: Self = Self {
        latest: 0,
        event: 0,
        base: 0,
        rate: 0,
        unit: 0,
        full: 0,
        most: 0,
        added: 0,
    };

    #[inline(always)]
    fn left(&self, now: Nanos) -> i64 {
        self.base.wrapping_sub(self.rate.wrapping_mul(now)) as i64
    }

    /// Whether the same queues are active still, and nothing else is due.
    #[inline]
    pub(super) fn holds(&self, now: Nanos) -> bool {
        now < self.event && self.left(now) > 0
    }

    /// Decides about a packet, if that is all that happens. Otherwise nothing is changed.
    #[inline(always)]
    pub(super) fn offer(&mut self, at: &mut Queue, now: Nanos, bytes: u32) -> Option<Decision> {
        if now >= self.event || now >= at.until {
            return None;
        }
        let left = self.left(now);
        // What is left when a byte more than now is drained of the queue than its size allows,
        // then when so many are that it is `bytes` below, and in one more than that it has packets.
        let ends = at.ends.wrapping_add(bytes.into());
        let time = |clock: u64| i128::from(clock as i64) * i128::from(self.unit);
        let passes = i128::from(left) <= time(self.full.wrapping_sub(ends));
        let packets = self
            .full
            .wrapping_sub(at.ends)
            .wrapping_sub(at.room)
            .wrapping_sub(1);
        let settle = i128::from(left) <= time(packets) || ends.wrapping_sub(at.before) > self.most;
        if left <= 0 || (passes && settle) {
            return None;
        }
        let added = if passes { u64::from(bytes) } else { 0 };
        at.ends = at.ends.wrapping_add(added);
        self.added += added;
        Some(if passes {
            Decision::Pass
        } else {
            Decision::Drop
        })
    }
}
