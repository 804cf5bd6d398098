//! Bytes that the capture has not seen although later ones passed.
//!
//! Where a hole is filled by a retransmission, the network lost the packet before it came to the
//! capture: that is what all losses look like at the receiver. Where it is filled by the packet itself,
//! that was overtaken. Where it is acknowledged without being filled, the capture missed it.

use std::collections::BTreeMap;

use crate::read::Nanos;

/// More holes than any window leaves.
const MAX_HOLES: usize = 1 << 14;
/// A packet is overtaken by at most this, where no round-trip time is known. Wireshark takes the same.
const OVERTAKEN: Nanos = 3_000_000;
/// A retransmission comes after a round trip, of which this many quarters are asked for: the least
/// that was measured may be a little too much.
const QUARTERS: u64 = 3;

/// A packet that was sent, never captured, and sent again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Missing {
    /// The number of the data packet that was captured next.
    pub before: u64,
    /// When it would have been captured, between its neighbours.
    pub at: Nanos,
    pub seq: u64,
    pub len: u32,
    /// The number of its retransmission.
    pub again: u64,
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
}

/// What a packet is that fills a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filled {
    /// Overtaken by others.
    Late,
    /// A retransmission of what would have been captured then, before the packet of this number.
    Again { at: Nanos, before: u64 },
}

/// The holes of one sender's stream, by their first byte.
#[derive(Debug, Default)]
pub(crate) struct Holes {
    by_start: BTreeMap<u64, Hole>,
    /// The least time after which a retransmission came.
    pub recovery: Option<Nanos>,
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
            };
            self.by_start.insert(start, hole);
        }
    }

    /// A packet with these bytes comes. `round_trip` is the least from end to end, where it is known.
    pub fn fill(
        &mut self,
        (start, end): (u64, u64),
        at: Nanos,
        tsval: u32,
        round_trip: Option<Nanos>,
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
        Some(Filled::Again {
            at: when(start),
            before: hole.before,
        })
    }

    /// These bytes were acknowledged: what is missing of them was missed by the capture alone.
    pub fn close(&mut self, start: u64, end: u64) {
        let before = self.by_start.range(..start).next_back();
        if let Some((&first, &hole)) = before
            && hole.end > start
        {
            self.by_start.insert(first, Hole { end: start, ..hole });
            if hole.end > end {
                self.by_start.insert(end, hole);
            }
        }
        while let Some((&first, &hole)) = self.by_start.range(start..end).next() {
            self.by_start.remove(&first);
            if hole.end > end {
                self.by_start.insert(end, hole);
            }
        }
    }
}
