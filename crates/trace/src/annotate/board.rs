//! Which transmission last carried which bytes, and which of them are acknowledged.
//!
//! The stretches of bytes are kept in the order of the stream, as they were first sent. A
//! retransmission with the same boundaries takes over its stretch. One with other boundaries is
//! kept in a separate map, which is empty in nearly all captures. Every operation takes (amortised)
//! constant time, or logarithmic time where bytes were retransmitted or selectively acknowledged.
//! So the cost of a flow is linear in its packets, however many were lost.

use std::collections::{BTreeMap, VecDeque};

use super::log::Number;
use super::ranges::Ranges;

/// Acknowledged stretches are kept for this many windows, so that late duplicate acknowledgements
/// and spurious retransmissions still find them.
const HISTORY_WINDOWS: usize = 2;
const MIN_HISTORY: usize = 64;
const MAX_HISTORY: usize = 1 << 15;

/// A gap more than this many stretches back is not filled in, since that would move them all.
const MAX_REORDERING: usize = 1024;

#[derive(Debug, Clone, Copy)]
struct Stretch {
    start: u64,
    end: u64,
    latest: Number,
    sacked: bool,
}

/// The bytes of one sender's stream that are in flight or were lately.
#[derive(Debug, Default)]
pub(crate) struct Board {
    stretches: VecDeque<Stretch>,
    /// How many stretches at the front are acknowledged.
    acked: usize,
    /// The most stretches that were ever unacknowledged.
    window: usize,
    /// Parts of transmissions with odd boundaries: start → (end, transmission).
    odd: BTreeMap<u64, (u64, Number)>,
    sacked: Ranges,
}

impl Board {
    /// Bytes selectively acknowledged above the cumulative acknowledgement.
    #[inline]
    pub fn sacked_bytes(&self) -> u64 {
        self.sacked.bytes()
    }

    /// Bytes selectively acknowledged from this position on.
    #[inline]
    pub fn sacked_from(&self, position: u64) -> u64 {
        self.sacked.bytes_from(position)
    }

    /// How many stretches, parts and ranges are kept.
    pub fn parts(&self) -> usize {
        self.stretches.len() + self.odd.len() + self.sacked.len()
    }

    /// Bytes sent for the first time, all behind what was sent before.
    #[inline]
    pub fn first(&mut self, start: u64, end: u64, number: Number) {
        if self.stretches.capacity() == 0 {
            self.stretches.reserve_exact(1);
        }
        self.stretches.push_back(Stretch {
            start,
            end,
            latest: number,
            sacked: false,
        });
        self.window = self.window.max(self.stretches.len() - self.acked);
    }

    /// The transmission that last carried the byte at `seq`.
    pub fn latest(&self, seq: u64) -> Option<Number> {
        let odd = self.odd_at(seq);
        let even = self.index_at(seq).map(|i| self.stretches[i].latest);
        match (odd, even) {
            // The later one: numbers grow, modulo 2^32.
            (Some(a), Some(b)) => Some(if a.wrapping_sub(b) < 1 << 31 { a } else { b }),
            (a, b) => a.or(b),
        }
    }

    /// Bytes sent again, or for the first time out of order.
    pub fn again(&mut self, start: u64, end: u64, number: Number) {
        let i = self
            .stretches
            .partition_point(|stretch| stretch.end <= start);
        if let Some(stretch) = self.stretches.get_mut(i)
            && self.odd.is_empty()
        {
            if stretch.start == start && stretch.end == end {
                stretch.latest = number;
                return;
            }
            // In a gap: packets reordered before the capture, or missed by it.
            if stretch.start >= end && self.stretches.len() - i <= MAX_REORDERING {
                let late = Stretch {
                    start,
                    end,
                    latest: number,
                    sacked: false,
                };
                self.stretches.insert(i, late);
                self.acked += usize::from(i < self.acked);
                return;
            }
        }
        // Clear what lies under it.
        if let Some((&from, &(to, other))) = self.odd.range(..start).next_back()
            && to > start
        {
            self.odd.insert(from, (start, other));
            if to > end {
                self.odd.insert(end, (to, other));
            }
        }
        while let Some((&from, &(to, other))) = self.odd.range(start..end).next() {
            self.odd.remove(&from);
            if to > end {
                self.odd.insert(end, (to, other));
            }
        }
        self.odd.insert(start, (end, number));
    }

    /// Everything below `una` is acknowledged: calls `newly` with each transmission that is
    /// now acknowledged whole, and was last to carry its bytes.
    #[inline]
    pub fn acknowledge(&mut self, una: u64, mut newly: impl FnMut(Number)) {
        while let Some(stretch) = self.stretches.get(self.acked)
            && stretch.end <= una
        {
            if !stretch.sacked {
                newly(stretch.latest);
            }
            self.acked += 1;
        }
        let history = (HISTORY_WINDOWS * self.window).clamp(MIN_HISTORY, MAX_HISTORY);
        while self.acked > history {
            self.stretches.pop_front();
            self.acked -= 1;
        }
        // A large window's memory does not outlive it.
        if self.stretches.capacity() > 4 * self.stretches.len() + 1024 {
            self.stretches.shrink_to(2 * self.stretches.len());
        }
        if !self.odd.is_empty() {
            while let Some(first) = self.odd.first_entry()
                && first.get().0 <= una
            {
                newly(first.remove().1);
            }
        }
        if self.sacked.bytes() != 0 {
            self.sacked.forget(una);
        }
    }

    /// A selective acknowledgement of `[start, end)`: calls `newly` with each transmission that
    /// lies in it whole and was not acknowledged before.
    pub fn sack(&mut self, start: u64, end: u64, mut newly: impl FnMut(Number)) {
        let Self {
            stretches,
            odd,
            sacked,
            ..
        } = self;
        sacked.insert(start, end, |from, to| {
            // The stretch that the new part begins in may have been half acknowledged before.
            let first = stretches.partition_point(|stretch| stretch.end <= from);
            for stretch in stretches.range_mut(first..) {
                if stretch.start >= to {
                    break;
                }
                if !stretch.sacked && stretch.start >= start && stretch.end <= end {
                    stretch.sacked = true;
                    newly(stretch.latest);
                }
            }
            if !odd.is_empty() {
                let first = odd
                    .range(..=from)
                    .next_back()
                    .map_or(from, |(&start, _)| start);
                for (&part, &(part_end, number)) in odd.range(first..to) {
                    if part >= start && part_end <= end {
                        newly(number);
                    }
                }
            }
        });
    }

    /// Calls `each` with the last transmission of every stretch that lies in `[start, end)` or
    /// holds it whole, and which of these it is, at most 64: a duplicate acknowledgement names few
    /// packets.
    pub fn duplicated(&self, start: u64, end: u64, mut each: impl FnMut(Number, bool)) {
        if let Some(number) = self.odd_at(start) {
            each(number, true);
            return;
        }
        let first = self
            .stretches
            .partition_point(|stretch| stretch.end <= start);
        for stretch in self.stretches.range(first..).take(64) {
            if stretch.start >= end {
                return;
            }
            let inside = stretch.start >= start && stretch.end <= end;
            let around = stretch.start <= start && stretch.end >= end;
            if inside || around {
                each(stretch.latest, around);
            }
        }
    }

    fn odd_at(&self, seq: u64) -> Option<Number> {
        if self.odd.is_empty() {
            return None;
        }
        let (_, &(end, number)) = self.odd.range(..=seq).next_back()?;
        (end > seq).then_some(number)
    }

    fn index_at(&self, seq: u64) -> Option<usize> {
        let i = self.stretches.partition_point(|stretch| stretch.end <= seq);
        (self.stretches.get(i)?.start <= seq).then_some(i)
    }
}
