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
    /// What `drained` is when it is just full: its room is what was drained since.
    pub(super) full: u64,
    /// Its size less the magic bytes in it: what there is room for of packets. [`WHOLE`] if it was
    /// not filled with magic bytes, 0 if the queue is empty.
    pub(super) room: u64,
    /// Of `full`, what is not of packets that count as accepted lately.
    pub(super) before: u64,
    /// What `drained` is when the burst bucket is empty. With burst control as in the paper: when
    /// the current period ends.
    pub(super) mark: u64,
}

/// The room of a queue that was not filled with magic bytes.
pub(super) const WHOLE: u64 = u64::MAX;

impl Queue {
    pub(super) const EMPTY: Self = Self {
        full: 0,
        room: 0,
        before: 0,
        mark: 0,
    };

    /// Whether it has anything, or may have.
    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.room != 0
    }

    /// Whether magic bytes were put in, and not taken out.
    #[inline]
    pub(super) fn is_filled(&self) -> bool {
        self.is_active() && self.room != WHOLE
    }

    /// Bytes in it, if nothing above it has to be settled.
    #[inline]
    pub(super) fn length(&self, size: u64, drained: u64) -> u64 {
        if self.is_active() {
            self.full.wrapping_add(size).wrapping_sub(drained)
        } else {
            0
        }
    }

    /// Of these, magic ones. Packets leave before them, so they are no more than what is there.
    #[inline]
    pub(super) fn magic(&self, size: u64, drained: u64) -> u64 {
        size.saturating_sub(self.room)
            .min(self.length(size, drained))
    }

    /// Bytes of packets that count as accepted lately.
    #[inline]
    pub(super) fn accepted(&self) -> u64 {
        self.full.wrapping_sub(self.before)
    }

    /// Bytes in the burst bucket.
    #[inline(always)]
    pub(super) fn burst(&self, drained: u64) -> u64 {
        (self.mark.wrapping_sub(drained) as i64).max(0) as u64
    }

    /// Puts accepted bytes into the burst bucket. It drains at the queue's rate, and while the queue
    /// is filled, only three quarters of the bytes count: so it allows 4/3 of the rate.
    #[inline(always)]
    pub(super) fn pour(&mut self, bytes: u64, drained: u64) {
        let quarter = if self.room == WHOLE { 0 } else { bytes / 4 };
        let empty = drained.wrapping_add(self.burst(drained));
        self.mark = empty.wrapping_add(bytes - quarter);
    }

    /// Another length of the paper's periods, from the beginning of the current one on. Without one
    /// so far, it is the time's first.
    pub(super) fn set_period(&mut self, old: Nanos, new: Nanos) {
        if old == Nanos::MAX {
            (self.mark, self.before) = (0, self.full);
        } else {
            self.mark -= old.min(self.mark);
        }
        self.mark = self.mark.saturating_add(new);
    }

    /// Takes bytes out at once, which are there.
    #[inline]
    pub(super) fn take(&mut self, bytes: u64) {
        self.full = self.full.wrapping_sub(bytes);
        self.before = self.before.wrapping_sub(bytes);
    }

    /// Serves it at most `bytes` bytes, where the parent serves by priority. Returns what it served.
    #[inline]
    pub(super) fn serve(&mut self, bytes: u64, size: u64, bucket: bool) -> u64 {
        let served = bytes.min(self.length(size, 0));
        self.take(served);
        if bucket {
            self.mark = self.burst(served);
        }
        if self.length(size, 0) == 0 {
            self.room = 0;
        }
        served
    }

    /// Puts in a packet. Into an empty queue, it begins a period of the paper's that is endless,
    /// until it is given an end.
    #[inline]
    pub(super) fn add(&mut self, bytes: u64, size: u64, drained: u64) {
        let length = self.length(size, drained);
        if self.is_active() {
            self.room = self.room.max(size - length);
        } else {
            self.full = drained.wrapping_sub(size);
            (self.room, self.before) = (WHOLE, self.full);
        }
        self.full = self.full.wrapping_add(bytes);
    }

    /// Makes this many of the bytes that were just put in magic ones.
    #[inline]
    pub(super) fn conjure(&mut self, bytes: u64, size: u64) {
        self.before = self.before.wrapping_add(bytes);
        self.room = self.room.min(size) - bytes;
    }
}
