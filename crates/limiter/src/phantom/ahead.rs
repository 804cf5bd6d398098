//! What a packet needs until anything happens but packets.

use super::queue::{Queue, WHOLE};
use crate::Nanos;
use crate::meter::BYTE;

/// The root of a fair share, as it will be until the first of its queues may be empty, worked out
/// in advance: one cache line, and with a packet's own queue all that is looked at. Nothing is
/// divided.
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
    /// Of a division by what a byte for each queue takes of them, see [`inverse`].
    inverse: u64,
    /// The root's clock when nothing is left.
    clock: u64,
    /// What a queue that is filled may have in its burst bucket.
    most: u64,
    /// Bytes accepted that the root does not know of.
    pub(super) added: u64,
}

/// Bit-nanoseconds that are looked ahead at most.
const FAR: u64 = 1 << 56;

impl Ahead {
    /// Nothing is known ahead.
    pub(super) const NOTHING: Self = Self {
        latest: 0,
        event: 0,
        base: 0,
        rate: 0,
        inverse: 0,
        clock: 0,
        most: 0,
        added: 0,
    };

    /// With this many active queues, at least 1, each of which may have `most` bytes in its burst
    /// bucket.
    #[inline]
    pub(super) fn share(&mut self, active: u32, most: u64) {
        self.inverse = inverse(u64::from(active) * BYTE);
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
        self.clock = clock.wrapping_add(until);
    }

    /// Decides about a packet of this many bytes, if that is all that happens. Otherwise nothing is changed. Returns
    /// the room that it leaves, or `None` if it is dropped.
    #[inline(always)]
    pub(super) fn offer(&mut self, at: &mut Queue, now: Nanos, bytes: u32) -> Option<Option<u64>> {
        if now >= self.event || at.room == 0 {
            return None;
        }
        let left = self.base.wrapping_sub(self.rate.wrapping_mul(now));
        let left = quotient(left, self.inverse);
        let drained = self.clock.wrapping_sub(left);
        let bytes = u64::from(bytes);
        let burst = at.burst(drained);
        // A queue that is not filled may have a sixteenth of `most`. Beyond that, it depends on what passed of others, and
        // on ECN.
        if at.room == WHOLE && burst << 4 > self.most {
            return None;
        }
        if at.room != WHOLE && burst > self.most {
            return Some(None);
        }
        let free = drained.wrapping_sub(at.full);
        if free < bytes {
            return Some(None);
        }
        at.room = at.room.max(free);
        at.full = at.full.wrapping_add(bytes);
        at.pour(bytes, drained);
        self.added += bytes;
        Some(Some(free - bytes))
    }
}

/// For [`quotient`], of a divisor of at least 2^32: 2^(64 + n) divided by it, rounded up, where n makes it
/// a number from 2^63 on. Its six lowest bits are n; that rounds it up by less than 64 more.
#[inline]
fn inverse(divisor: u64) -> u64 {
    let n = u64::from(divisor.ilog2());
    let least = (1u128 << (64 + n)).div_ceil(divisor.into()) as u64;
    least + (n.wrapping_sub(least) & 63)
}

/// A number up to 2^57 divided by what this is the inverse of: exactly, since the number times the
/// inverse's error is less than 1 of the divisor's.
#[inline(always)]
fn quotient(number: u64, inverse: u64) -> u64 {
    let product = (u128::from(number) * u128::from(inverse)) >> 64;
    product as u64 >> (inverse & 63)
}

#[cfg(test)]
mod tests;
