//! A phantom queue.

use crate::Nanos;

/// What a queue is when nothing is in it, and how it changes. All of it is in terms that stay as
/// they are while it drains: half a cache line, written only where a packet is accepted.
///
/// `drained` below is the parent's clock times the queue's weight, or 0 where the parent serves by
/// priority and takes bytes out itself. It wraps.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(32))]
pub(super) struct Queue {
    /// What `drained` is when all of it is drained.
    pub(super) ends: u64,
    /// Its size less the magic bytes in it: what there is room for of packets.
    pub(super) room: u64,
    /// Of `ends`, what is not of packets accepted in the current period.
    pub(super) before: u64,
    /// When the current period ends. 0 of an empty queue.
    pub(super) until: Nanos,
}

impl Queue {
    pub(super) const EMPTY: Self = Self {
        ends: 0,
        room: 0,
        before: 0,
        until: 0,
    };

    /// Whether it has anything, or may have.
    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.until != 0
    }

    /// Bytes in it, if nothing above it has to be settled.
    #[inline]
    pub(super) fn length(&self, drained: u64) -> u64 {
        if self.is_active() {
            self.ends.wrapping_sub(drained)
        } else {
            0
        }
    }

    /// Of these, magic ones. Packets leave before them, so they are no more than what is there.
    #[inline]
    pub(super) fn magic(&self, size: u64, drained: u64) -> u64 {
        (size - self.room).min(self.length(drained))
    }

    /// Bytes of packets accepted in the current period.
    #[inline]
    pub(super) fn accepted(&self) -> u64 {
        self.ends.wrapping_sub(self.before)
    }

    /// Begins the next period if this one is just over and accepted at least `least` bytes.
    #[inline]
    pub(super) fn begin_next_period(&mut self, now: Nanos, period: Nanos, least: u64) {
        let over = self.is_active() && now >= self.until && now - self.until < period;
        if over && self.accepted() >= least {
            self.until = self.until.saturating_add(period);
            self.before = self.ends;
        }
    }

    /// Another length of periods, from the beginning of the current one on. Without one so far,
    /// it is the time's first.
    pub(super) fn set_period(&mut self, old: Nanos, new: Nanos) {
        if !self.is_active() {
            return;
        }
        if old == Nanos::MAX {
            (self.until, self.before) = (0, self.ends);
        } else {
            self.until -= old.min(self.until);
        }
        self.until = self.until.saturating_add(new);
    }

    /// Takes bytes out at once, which are there.
    #[inline]
    pub(super) fn take(&mut self, bytes: u64) {
        self.ends = self.ends.wrapping_sub(bytes);
        self.before = self.before.wrapping_sub(bytes);
    }

    /// Serves it at most `bytes` bytes, where the parent serves by priority. Returns what it served.
    #[inline]
    pub(super) fn serve(&mut self, bytes: u64) -> u64 {
        let served = bytes.min(self.length(0));
        self.take(served);
        if self.ends == 0 {
            self.until = 0;
        }
        served
    }

    /// Puts in a packet. Into an empty queue, it begins a period that is endless, until it is given
    /// an end.
    #[inline]
    pub(super) fn add(&mut self, bytes: u64, size: u64, drained: u64) {
        let length = self.length(drained);
        self.room = self.room.max(size - length);
        if !self.is_active() {
            (self.ends, self.before, self.until) = (drained, drained, Nanos::MAX);
        }
        self.ends = self.ends.wrapping_add(bytes);
    }

    /// Makes this many of the bytes that were just put in magic ones.
    #[inline]
    pub(super) fn conjure(&mut self, bytes: u64) {
        self.before = self.before.wrapping_add(bytes);
        self.room -= bytes;
    }
}
