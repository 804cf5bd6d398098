//! Bytes that the capture has not seen although later ones passed.
//!
//! Where a hole is filled by a retransmission, the network lost the packet before it came to the
//! capture: that is what all losses look like at the receiver. Where it is filled by the packet itself,
//! that was overtaken. Where it is acknowledged without being filled, the capture missed it.
//!
//! A retransmission that is lost too shows in two ways: senders retransmit in the order of the stream,
//! so a later hole is filled first; or nothing comes for more than a round trip.
//!
//! A packet may be captured a little later than its acknowledgement: what a network card gathers, or another
//! queue of it delivers. So an acknowledged hole stays open for as long as that takes.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::read::Nanos;

/// More holes than any window leaves.
const MAX_HOLES: usize = 1 << 14;
/// A packet is overtaken by at most this, where no round-trip time is known. Wireshark takes the same.
const OVERTAKEN: Nanos = 3_000_000;
/// A retransmission comes after a round trip, of which this many quarters are asked for: the least
/// that was measured may be a little too much.
const QUARTERS: u64 = 3;

/// A retransmission is lost if this many quarters of a round trip pass without one.
const SILENT_QUARTERS: u64 = 7;
/// Holes before a filled one that are looked at, and lost retransmissions that are remembered of each.
const MAX_SKIPPED: usize = 64;
const MAX_AGAIN: usize = 3;

/// Data come at most this long after their acknowledgement.
pub(crate) const ACKED_AHEAD: Nanos = 1_000_000;
/// Acknowledgements of holes that are remembered for that time.
const MAX_ACKED: usize = 64;

/// A packet that was sent, never captured, and sent again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Missing {
    /// When it would have been captured, and where.
    pub place: Place,
    pub seq: u64,
    pub len: u32,
    /// How many times these bytes had been sent before.
    pub repetition: u32,
    /// The number of the retransmission that was captured.
    pub again: u64,
}

/// Where a packet would have been captured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub at: Nanos,
    /// The number of the data packet that was captured next.
    pub before: u64,
}

#[derive(Debug, Clone, Copy)]
struct Hole {
    end: u64,
    /// When the packets on both sides were captured.
    from: Nanos,
    to: Nanos,
    /// The number of the packet behind it, and its timestamp.
    before: u64,
    tsval: u32,
    /// Retransmissions that were lost.
    again: [Place; MAX_AGAIN],
    lost_again: u8,
}

impl Hole {
    fn lose_again(&mut self, place: Place, round_trip: Nanos) {
        let lost = usize::from(self.lost_again);
        // Not before the sender could know that the one before was lost.
        let before = lost.checked_sub(1).map(|last| self.again[last].at);
        let due = before.is_none_or(|before| place.at >= before.saturating_add(round_trip));
        if lost < MAX_AGAIN && due {
            self.again[lost] = place;
            self.lost_again += 1;
        }
    }
}

/// What a packet is that fills a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filled {
    /// Overtaken by others.
    Late,
    /// A retransmission.
    Again(Lost),
}

/// Where the packet that was retransmitted, and retransmissions before this one, would have been captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost {
    first: Place,
    again: [Place; MAX_AGAIN],
    lost_again: u8,
    /// Another retransmission was due then.
    pub silent_since: Option<Nanos>,
}

impl Lost {
    pub fn places(&self) -> impl Iterator<Item = Place> {
        let again = &self.again[..usize::from(self.lost_again)];
        std::iter::once(self.first).chain(again.iter().copied())
    }
}

/// The holes of one sender's stream, by their first byte.
#[derive(Debug, Default)]
pub(crate) struct Holes {
    by_start: BTreeMap<u64, Hole>,
    /// The least time after which a retransmission came.
    pub recovery: Option<Nanos>,
    /// When the last retransmission came.
    filled_at: Nanos,
    /// Acknowledged bytes with holes among them, and when.
    acked: VecDeque<(Range<u64>, Nanos)>,
}

impl Holes {
    pub fn len(&self) -> usize {
        self.by_start.len()
    }

    /// The packet of number `before`, captured at `to`, leaves a hole behind what was captured at `from`.
    pub fn open(
        &mut self,
        (start, end): (u64, u64),
        from: Nanos,
        to: Nanos,
        before: u64,
        tsval: u32,
    ) {
        if self.by_start.len() < MAX_HOLES {
            let from = from.min(to);
            let hole = Hole {
                end,
                from,
                to,
                before,
                tsval,
                again: Default::default(),
                lost_again: 0,
            };
            self.by_start.insert(start, hole);
        }
    }

    /// A packet with these bytes comes, as that of this number. The round trips from end to end are the
    /// least and the latest, where they are known.
    pub fn fill(
        &mut self,
        (start, end): (u64, u64),
        Place { at, before: number }: Place,
        tsval: u32,
        round_trip: Option<Nanos>,
        latest: Option<Nanos>,
    ) -> Option<Filled> {
        let (&first, &hole) = self.by_start.range(..=start).next_back()?;
        if hole.end <= start {
            return None;
        }
        let end = end.min(hole.end);
        let when = |seq: u64| {
            let part = u128::from(hole.to - hole.from) * u128::from(seq - first)
                / u128::from(hole.end - first);
            hole.from + part as u64
        };
        self.by_start.remove(&first);
        if first < start {
            let left = Hole {
                end: start,
                to: when(start),
                ..hole
            };
            self.by_start.insert(first, left);
        }
        if end < hole.end {
            let right = Hole {
                from: when(end),
                ..hole
            };
            self.by_start.insert(end, right);
        }
        let elapsed = at.saturating_sub(hole.to);
        // The time of sending tells at once: what was overtaken was sent before what overtook it.
        let later = tsval.wrapping_sub(hole.tsval) as i32;
        let again = if tsval != 0 && hole.tsval != 0 && later != 0 {
            later > 0
        } else {
            elapsed >= round_trip.map_or(OVERTAKEN, |round| round / 4 * QUARTERS)
        };
        if !again {
            return Some(Filled::Late);
        }
        self.recovery = Some(self.recovery.map_or(elapsed, |least| least.min(elapsed)));
        let usual = latest.or(round_trip);
        if let Some(usual) = usual {
            let place = Place { at, before: number };
            for (_, lower) in self.by_start.range_mut(..start).rev().take(MAX_SKIPPED) {
                lower.lose_again(place, usual);
            }
        }
        let quiet_from = hole.to.max(self.filled_at);
        let silent_since = usual.filter(|&usual| {
            hole.lost_again == 0 && at.saturating_sub(quiet_from) >= usual / 4 * SILENT_QUARTERS
        });
        self.filled_at = at;
        Some(Filled::Again(Lost {
            first: Place {
                at: when(start),
                before: hole.before,
            },
            again: hole.again,
            lost_again: hole.lost_again,
            silent_since: silent_since.map(|usual| quiet_from + usual),
        }))
    }

    /// These bytes were acknowledged, selectively or, from 0, with all below their end. What is missing of them
    /// when their packets can come no more was missed by the capture alone.
    pub fn acknowledge(&mut self, bytes: Range<u64>, at: Nanos) {
        let last = self.by_start.range(..bytes.end).next_back();
        if last.is_none_or(|(_, hole)| hole.end <= bytes.start) {
            return;
        }
        if self.acked.len() >= MAX_ACKED {
            self.close_first();
        }
        self.acked.push_back((bytes, at));
    }

    /// Closes the holes whose packets can come no more.
    pub fn expire(&mut self, now: Nanos) {
        while self
            .acked
            .front()
            .is_some_and(|&(_, at)| now > at.saturating_add(ACKED_AHEAD))
        {
            self.close_first();
        }
    }

    fn close_first(&mut self) {
        match self.acked.pop_front() {
            Some((Range { start: 0, end }, _)) => self.close_below(end),
            Some((Range { start, end }, _)) => self.forget(start, end),
            None => {}
        }
    }

    fn close_below(&mut self, end: u64) {
        while let Some(first) = self.by_start.first_entry()
            && *first.key() < end
        {
            let hole = first.remove();
            if hole.end > end {
                self.by_start.insert(end, hole);
                return;
            }
        }
    }

    /// Where bytes were acknowledged selectively, the capture misses packets, and nothing is known of a hole with
    /// any of them.
    fn forget(&mut self, start: u64, end: u64) {
        while let Some((&first, hole)) = self.by_start.range(..end).next_back()
            && hole.end > start
        {
            self.by_start.remove(&first);
        }
    }
}
