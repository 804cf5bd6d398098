//! The prints of a direction's packets, for as long as their copies may come.

use crate::read::Nanos;

/// A copy follows its original within this time.
pub(super) const WITHIN: Nanos = 50_000_000;

/// Packets that a set of the table holds. With fewer, some sets would be full long before the others.
const WAYS: usize = 16;
/// Sets of the largest table, which has 32 kB. It remembers the last 900 packets, and nearly all of twice as many.
const MOST_SETS: usize = 256;

/// What is below the print in an entry.
const BELOW_BITS: u32 = 24;
const BELOW: u64 = (1 << BELOW_BITS) - 1;

/// Packets and when they came: the upper 40 bits of their prints, above 24 bits that hold the hop limit, where
/// there is room for it, and the time. The lowest bits of the print say in which set. With 16 in a set, one
/// packet in a billion is taken for a copy of another by chance.
///
/// Times have `TIME` bits, in units of 2 to the power of `TICK` nanoseconds.
///
/// It grows while packets come so fast that one is pushed out whose copy may still come.
#[derive(Debug, Default)]
pub(super) struct Table<const TICK: u32, const TIME: u32> {
    /// As many as a power of two, or none.
    sets: Box<[Set]>,
    /// Packets that it took since it has this size.
    taken: usize,
}

/// Without hop limits: in units of 4 µs, modulo 69 s.
pub(super) type Prints = Table<12, 24>;
/// With hop limits: in units of 66 µs, modulo 4.3 s.
pub(super) type PrintsAndHops = Table<16, 16>;

/// The newest packet is the first.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Set([u64; WAYS]);

/// The packets of a table that a later one repeats.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Found {
    /// When the last one with the same hop limit came.
    pub same: Option<Nanos>,
    /// Whether the one of both that was captured later has passed more routers.
    pub forwarded: bool,
}

impl<const TICK: u32, const TIME: u32> Table<TICK, TIME> {
    const TIMES: u64 = (1 << TIME) - 1;
    /// Times that differ by fewer ticks differ by less than [`WITHIN`].
    const LIMIT: u64 = WITHIN >> TICK;

    pub fn of(sets: usize) -> Self {
        Self {
            sets: vec![Set::default(); sets].into(),
            taken: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// The memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.sets)
    }

    #[inline]
    fn entry(print: u64, hops: u8, at: Nanos) -> u64 {
        print & !BELOW | u64::from(hops) << TIME & BELOW | at >> TICK & Self::TIMES
    }

    #[inline]
    fn place(&self, entry: u64) -> usize {
        (entry >> BELOW_BITS) as usize & (self.sets.len() - 1)
    }

    /// How many ticks two entries are apart, whichever came first: clocks of interfaces differ.
    #[inline]
    fn apart(seen: u64, entry: u64) -> u64 {
        let later = entry.wrapping_sub(seen) & Self::TIMES;
        later.min(Self::TIMES + 1 - later)
    }

    /// Whether the packet is a copy of one that is remembered; remembers it if not. For tables without hop limits.
    #[inline]
    pub fn is_copy(&mut self, print: u64, at: Nanos) -> bool {
        let copy = self.find(print, 0, at).same.is_some();
        if !copy {
            self.take(print, 0, at);
        }
        copy
    }

    /// The packets that a packet repeats, and their hop limits.
    #[inline]
    pub fn find(&self, print: u64, hops: u8, at: Nanos) -> Found {
        let entry = Self::entry(print, hops, at);
        let set = &self.sets[self.place(entry)];
        // The times are compared only where a print is the same, which it hardly ever is.
        match set.knows(entry) {
            true => Self::compare(set, entry, at),
            false => Found::default(),
        }
    }

    fn compare(set: &Set, entry: u64, at: Nanos) -> Found {
        let hops = |entry: u64| (entry & BELOW) >> TIME;
        let mut found = Found::default();
        for seen in set.alike(entry) {
            let later = entry.wrapping_sub(seen) & Self::TIMES;
            let apart = Self::apart(seen, entry);
            if apart >= Self::LIMIT {
                continue;
            }
            let [before, after] = match later == apart {
                true => [seen, entry],
                false => [entry, seen],
            };
            if hops(before) == hops(after) {
                let seen_at = match later == apart {
                    true => at.saturating_sub(apart << TICK),
                    false => at.saturating_add(apart << TICK),
                };
                found.same = found.same.max(Some(seen_at));
            }
            found.forwarded |= hops(before) > hops(after);
        }
        found
    }

    /// Remembers a packet.
    #[inline]
    pub fn take(&mut self, print: u64, hops: u8, at: Nanos) {
        self.push(Self::entry(print, hops, at));
    }

    #[inline]
    fn push(&mut self, entry: u64) {
        let place = self.place(entry);
        let pushed_out = self.sets[place].push(entry);
        self.taken += 1;
        if pushed_out != 0 && Self::apart(pushed_out, entry) < Self::LIMIT {
            self.grow(pushed_out);
        }
    }

    /// Takes what was pushed out of a set into a larger table, if there may be one.
    #[cold]
    fn grow(&mut self, pushed_out: u64) {
        // A sender that makes packets collide on purpose gets no more memory than its packets are worth.
        if self.sets.len() >= MOST_SETS || self.taken < self.sets.len() {
            return;
        }
        let larger = Self::of(self.sets.len() * 2);
        let before = std::mem::replace(self, larger);
        let place = self.place(pushed_out);
        self.sets[place].push(pushed_out);
        for set in before.sets {
            for entry in set.0.into_iter().rev().filter(|&entry| entry != 0) {
                let place = self.place(entry);
                self.sets[place].push(entry);
            }
        }
    }
}

impl Set {
    /// Whether it holds a packet with this print.
    #[inline]
    fn knows(&self, entry: u64) -> bool {
        // No branches: all at once.
        let mut known = false;
        for &seen in &self.0 {
            known |= (seen ^ entry) >> BELOW_BITS == 0;
        }
        known
    }

    /// The entries with this print.
    fn alike(&self, entry: u64) -> impl Iterator<Item = u64> {
        let alike = move |&seen: &u64| seen ^ entry <= BELOW;
        self.0.iter().copied().filter(alike)
    }

    /// Takes an entry, and returns the oldest in its place; 0 if there was room.
    #[inline]
    fn push(&mut self, entry: u64) -> u64 {
        let oldest = self.0[WAYS - 1];
        self.0.copy_within(..WAYS - 1, 1);
        self.0[0] = entry;
        oldest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MS, START};

    /// All packets in one set, by prints that a sender chose.
    #[test]
    fn packets_that_collide_get_no_large_table() {
        let mut table = Prints::of(1);
        for n in 0..120u64 {
            table.is_copy(n << 40, START);
        }
        assert!(table.sets.len() * WAYS <= 16 * 120, "{}", table.sets.len());
        assert!(table.sets.len() < MOST_SETS);
    }

    #[test]
    fn what_was_captured_later_has_passed_more_routers() {
        const PRINT: u64 = 5 << 40;
        let mut table = PrintsAndHops::of(1);
        table.take(PRINT, 60, START);
        let find = |hops, at| {
            let found = table.find(PRINT, hops, at);
            (found.same.is_some(), found.forwarded)
        };
        assert_eq!(find(59, START + 49 * MS), (false, true));
        assert_eq!(find(0, START + MS), (false, true));
        assert_eq!(find(60, START + MS), (true, false));
        assert_eq!(find(61, START + MS), (false, false));
        assert_eq!(find(59, START + 51 * MS), (false, false));
        // It was read first, because the clocks of two interfaces differ.
        assert_eq!(find(61, START - MS), (false, true));
        assert_eq!(find(59, START - MS), (false, false));
        assert!(!table.find(6 << 40, 59, START).forwarded);
        let same = table.find(PRINT, 60, START + 3 * MS).same.unwrap();
        assert!(same.abs_diff(START) < MS / 10);
    }
}
