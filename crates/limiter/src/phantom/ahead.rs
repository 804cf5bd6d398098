//! What a packet needs until anything happens but packets.

use std::hint::select_unpredictable;

use super::queue::Queue;
use crate::meter::BYTE;
use crate::{Decision, Nanos};

/// The root of a fair share, as it will be until the first of its queues may be empty, worked out
/// in advance: one cache line, and with a packet's own queue all that is looked at. Nothing is
/// divided, and whether the packet passes is no branch, which the processor could guess wrong.
///
/// Time is measured backwards, in bytes that are left to be given to each queue until then.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(super) struct Ahead {
    /// The latest time of a packet.
    pub(super) latest: Nanos,
    /// Until when this holds. 0: nothing is known ahead.
    pub(super) event: Nanos,
    /// What is left at time 0, in bit-nanoseconds of all queues, and what a nanosecond takes off.
    /// Wraps.
    base: u64,
    rate: u64,
    /// 2^64 divided by what a byte for each queue takes of them.
    inverse: u64,
    /// The root's clock when nothing is left, and the size of a queue.
    full: u64,
    /// What a queue may accept in a period before it is filled.
    pub(super) most: u64,
    /// Bytes accepted that the root does not know of.
    pub(super) added: u64,
}

/// Bit-nanoseconds that are looked ahead at most.
const FAR: u64 = 1 << 62;

impl Ahead {
    /// Nothing is known ahead.
    pub(super) const NOTHING: Self = Self {
        latest: 0,
        event: 0,
        base: 0,
        rate: 0,
        inverse: 0,
        full: 0,
        most: 0,
        added: 0,
    };

    /// With this many active queues, at least 1, each of which may accept `most` bytes in a period
    /// (its part of θ+ rT).
    #[inline]
    pub(super) fn share(&mut self, active: u32, most: u64) {
        self.inverse = u64::MAX / (u64::from(active) * BYTE);
        self.most = most;
    }

    /// From a time on, if this many queues are active and none of them is empty before the clock
    /// went on by `until`; `owed` bit-nanoseconds are not on it yet.
    #[inline]
    pub(super) fn begin(
        &mut self,
        (now, rate): (Nanos, u64),
        active: u32,
        (clock, mut until, owed): (u64, u64, u64),
        size: u64,
    ) {
        let unit = u64::from(active) * BYTE;
        let mut left = until.saturating_mul(unit);
        if left > FAR {
            until = FAR / unit;
            left = until * unit;
        }
        left = left.saturating_sub(owed);
        self.rate = rate;
        self.event = now.saturating_add(left.div_ceil(rate));
        // Rounded up: a byte counts until all of it is given.
        self.base = rate.wrapping_mul(now).wrapping_add(left + unit - 1);
        self.full = clock.wrapping_add(until).wrapping_add(size);
    }

    /// Decides about a packet, if that is all that happens. Otherwise nothing is changed.
    #[inline(always)]
    pub(super) fn offer(&mut self, at: &mut Queue, now: Nanos, bytes: u32) -> Option<Decision> {
        if now >= self.event || now >= at.until {
            return None;
        }
        // Below 2^63, so this is the quotient or one less.
        let left = self.base.wrapping_sub(self.rate.wrapping_mul(now));
        let left = ((u128::from(left) * u128::from(self.inverse)) >> 64) as i64;
        // How many bytes may be left for the queue to have room for the packet, and for it to have
        // no packets any more, but magic bytes.
        let ends = at.ends.wrapping_add(bytes.into());
        let room = self.full.wrapping_sub(ends) as i64;
        let gone = self.full.wrapping_sub(at.ends).wrapping_sub(at.room) as i64;
        let passes = room > left;
        let unclear =
            (room == left) | passes & ((gone > left) | (ends.wrapping_sub(at.before) > self.most));
        if unclear {
            return None;
        }
        let added = select_unpredictable(passes, u64::from(bytes), 0);
        at.ends = at.ends.wrapping_add(added);
        self.added += added;
        Some(select_unpredictable(passes, Decision::Pass, Decision::Drop))
    }

    /// The same with a division: also where the queue's magic bytes drain, since no packets are
    /// left in it, and where a byte more or less decides.
    #[inline]
    pub(super) fn offer_exactly(
        &mut self,
        at: &mut Queue,
        now: Nanos,
        bytes: u32,
        active: u32,
    ) -> Option<Decision> {
        if now >= self.event || now >= at.until {
            return None;
        }
        let left = self.base.wrapping_sub(self.rate.wrapping_mul(now));
        let left = left / (u64::from(active) * BYTE);
        let ends = at.ends.wrapping_add(bytes.into());
        if (self.full.wrapping_sub(ends) as i64) < left as i64 {
            return Some(Decision::Drop);
        }
        if ends.wrapping_sub(at.before) > self.most {
            return None;
        }
        // The size less what is in it.
        let free = self.full.wrapping_sub(at.ends).wrapping_sub(left);
        at.room = at.room.max(free);
        at.ends = ends;
        self.added += u64::from(bytes);
        Some(Decision::Pass)
    }
}
