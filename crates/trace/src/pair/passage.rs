//! The packets of a stream as they left the first place, and what became of each.

use std::collections::BTreeMap;
use std::ops::Range;

use super::record::Record;
use crate::read::Nanos;
use crate::wire::Flags;

/// What became of a packet between the places.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fate {
    /// It reached the second place, after this many nanoseconds by the aligned clocks; `None` where these went
    /// unevenly, or the first capture does not hold it.
    Passed(Option<f64>),
    /// It did not.
    Lost,
    /// It did, though the second capture does not hold it: it was acknowledged and never sent again.
    Missed,
    /// The second capture had not begun yet, or was over.
    Uncovered,
}

/// A packet at the first of the two places that it passes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Passage {
    /// When it passed the first place, by that capture's clock.
    pub at: Nanos,
    /// Whether the first capture holds it. If not, the time is estimated by how long the packet before it took.
    pub seen: bool,
    /// The number of its stream among those that both captures hold.
    pub stream: u32,
    /// Bytes on the link: payload, headers and framing.
    pub link_bytes: u32,
    /// Bytes of the IP packet.
    pub ip_bytes: u32,
    /// Payload bytes.
    pub payload: u32,
    /// Bytes of its stream that were sent and not acknowledged yet, itself included, as the first
    /// place saw it.
    pub in_flight: u32,
    /// Bytes on the link that passed the first place before it in the same burst, of all streams that
    /// go the same way.
    pub in_burst: u32,
    /// What became of it.
    pub fate: Fate,
}

impl Passage {
    /// Whether it was lost between the places.
    pub fn lost(&self) -> bool {
        self.fate == Fate::Lost
    }

    /// Whether it reached the second place and its capture.
    pub(crate) fn passed(&self) -> bool {
        matches!(self.fate, Fate::Passed(_))
    }

    /// How long it was on its way, in nanoseconds.
    pub fn transit(&self) -> Option<f64> {
        match self.fate {
            Fate::Passed(transit) => transit,
            _ => None,
        }
    }
}

/// What a stream's retransmissions show of losses elsewhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// Data packets that repeat bytes which the first place had seen.
    pub retransmitted: u64,
    /// Of these, those that passed both places although their bytes had passed before.
    pub repeated_in_vain: u64,
    /// Reports of the receiver that bytes arrived twice.
    pub arrived_twice: u64,
    /// Data packets that fill a hole in what the first place saw, later than reordering does. Where its capture missed packets, they
    /// may have been lost between the places, too.
    pub lost_before: u64,
    /// Data packets that the first place saw out of order.
    pub reordered_before: u64,
}

impl Elsewhere {
    /// Data packets that were lost behind the second place: sent again though they had passed it, and
    /// not reported to have arrived twice.
    pub fn lost_after(&self) -> u64 {
        self.repeated_in_vain.saturating_sub(self.arrived_twice)
    }
}

/// Reordered packets come within this time, where no timestamp tells when they were sent.
const REORDERING: Nanos = 3_000_000;

/// Bytes that are not acknowledged.
#[derive(Debug, Clone, Copy)]
struct Open {
    end: i64,
    /// The passage of their last transmission.
    number: usize,
    /// An earlier one had passed, or been acknowledged: what comes back may tell of that one.
    passed_before: bool,
}

/// Follows a stream at its first place, merged with the acknowledgements that come back.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    base: Option<u32>,
    /// Stream positions behind the last byte sent, and of the first that is not acknowledged.
    end: i64,
    acked: i64,
    /// The last transmission of bytes that are not acknowledged, by their start.
    open: BTreeMap<i64, Open>,
    /// Bytes that were skipped: start → (end, when, the TSval of the packet behind).
    holes: BTreeMap<i64, (i64, Nanos, u32)>,
    pub elsewhere: Elsewhere,
}

impl Walk {
    fn position(&mut self, seq: u32) -> i64 {
        let base = *self.base.get_or_insert(seq);
        let expected = base.wrapping_add(self.end as u32);
        self.end + i64::from(seq.wrapping_sub(expected) as i32)
    }

    /// A packet leaves; `number` is its passage's, whose fate is known but for being missed. Returns
    /// bytes in flight.
    pub fn sends(&mut self, record: &Record, number: usize, passages: &[Passage]) -> u32 {
        if record.flags.has(Flags::RST) {
            return 0;
        }
        let start = self.position(record.seq);
        let end = start + i64::from(record.sequence_len());
        let is_probe = record.payload <= 1 && start + 1 == self.acked;
        if end == start || is_probe {
            return (self.end - self.acked).max(0) as u32;
        }
        let mut passed_before = false;
        if start < self.end && start >= self.acked {
            let at = passages[number].at;
            passed_before = self.repeats(record, at, start..end, passages);
        } else if start < self.acked {
            self.elsewhere.retransmitted += 1;
            passed_before = true;
        } else if start > self.end {
            let hole = (start, passages[number].at, record.tsval);
            self.holes.insert(self.end, hole);
        }
        // One that was lost on its way says nothing of what is behind the second place.
        let in_vain = passed_before && passages[number].passed();
        self.elsewhere.repeated_in_vain += u64::from(in_vain);
        self.end = self.end.max(end);
        let open = Open {
            end,
            number,
            passed_before,
        };
        self.open.insert(start, open);
        (self.end - self.acked).max(0) as u32
    }

    /// Bytes from below the end: again, or for the first time. Whether some had passed both places before.
    fn repeats(
        &mut self,
        record: &Record,
        at: Nanos,
        Range { start, end }: Range<i64>,
        passages: &[Passage],
    ) -> bool {
        let hole = self.holes.range(..=start).next_back();
        if let Some((&from, &(to, since, tsval))) = hole
            && start < to
        {
            self.holes.remove(&from);
            if from < start {
                self.holes.insert(from, (start, since, tsval));
            }
            if end < to {
                self.holes.insert(end, (to, since, tsval));
            }
            let sent_before = match (record.tsval, tsval) {
                (x, y) if x != 0 && y != 0 && x != y => (y.wrapping_sub(x) as i32) > 0,
                _ => at.saturating_sub(since) < REORDERING,
            };
            if sent_before {
                self.elsewhere.reordered_before += 1;
            } else {
                self.elsewhere.lost_before += 1;
            }
            return false;
        }
        let mut passed = false;
        let mut overlaps = Vec::new();
        let before = self.open.range(..start).next_back();
        overlaps.extend(
            before
                .filter(|(_, before)| before.end > start)
                .map(|(&from, _)| from),
        );
        overlaps.extend(self.open.range(start..end).map(|(&from, _)| from));
        for from in overlaps {
            if let Some(before) = self.open.remove(&from) {
                passed |= before.passed_before || passages[before.number].passed();
            }
        }
        self.elsewhere.retransmitted += 1;
        passed
    }

    /// An acknowledgement comes back. What it acknowledges and was not seen at the second place had
    /// been there.
    pub fn hears(&mut self, record: &Record, passages: &mut [Passage]) {
        self.elsewhere.arrived_twice += u64::from(record.dsack);
        if !record.flags.has(Flags::ACK) || self.base.is_none() {
            return;
        }
        let acked = self.position(record.ack).min(self.end);
        if acked <= self.acked {
            return;
        }
        self.acked = acked;
        while let Some(entry) = self.open.first_entry() {
            if entry.get().end > acked {
                break;
            }
            let open = entry.remove();
            let passage = &mut passages[open.number];
            if passage.fate == Fate::Lost && !open.passed_before {
                passage.fate = Fate::Missed;
            }
        }
        while let Some(entry) = self.holes.first_entry()
            && entry.get().0 <= acked
        {
            entry.remove();
        }
    }
}
