//! Packets that the capture holds twice: taken on two interfaces, or mirrored from two ports.

use crate::read::Nanos;
use crate::wire::{Packet, Timestamps};

/// A copy follows its original within this time. With an IPv4 identification, which a
/// retransmission would not share, there is time for a detour through a mirror port.
const IDENTIFIED: Nanos = 50_000_000;
/// Without one, no sender retransmits so soon.
const UNIDENTIFIED: Nanos = 200_000;

/// The memory of a packet, in bytes, by which tables are counted.
const PACKET_BYTES: usize = 100;

/// The last few packets of one direction, and those with an identification of the time in which copies come.
///
/// Copies come far behind where a packet waits in a queue between two interfaces of which both are
/// captured. Directions whose packets are few and far between need no table for that.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    prints: [u64; 4],
    times: [Nanos; 4],
    next: u8,
    /// Empty until one of the last few would be forgotten while its copy may still come.
    table: Table,
}

impl Recent {
    /// Whether the packet is a copy of one that is remembered; remembers it if not.
    #[inline]
    pub(crate) fn is_copy(&mut self, packet: &Packet) -> bool {
        let print = fingerprint(packet);
        let identified = is_identified(print);
        let limit = if identified { IDENTIFIED } else { UNIDENTIFIED };
        let mut copy = false;
        for (&seen, &at) in self.prints.iter().zip(&self.times) {
            // No branches: all four at once.
            copy |= (seen == print) & (packet.at.abs_diff(at) <= limit);
        }
        if copy {
            return true;
        }
        let next = usize::from(self.next);
        let is_early = packet.at.abs_diff(self.times[next]) <= IDENTIFIED;
        if self.table.is_empty() && is_early && is_identified(self.prints[next]) {
            self.begin_table(packet.at);
        }
        if identified && !self.table.is_empty() && self.table.is_copy(print, packet.at) {
            return true;
        }
        (self.prints[next], self.times[next]) = (print, packet.at);
        self.next = (self.next + 1) % 4;
        false
    }

    #[cold]
    fn begin_table(&mut self, now: Nanos) {
        self.table = Table::of(1);
        for (&print, &at) in self.prints.iter().zip(&self.times) {
            if is_identified(print) && now.abs_diff(at) <= IDENTIFIED {
                self.table.is_copy(print, at);
            }
        }
    }

    /// What the table takes, in packets.
    pub(crate) fn kept(&self) -> usize {
        size_of_val(&*self.table.sets).div_ceil(PACKET_BYTES)
    }
}

/// Packets that a set of the table holds. With fewer, some sets would be full long before the others.
const WAYS: usize = 16;
/// Sets of the largest table, which has 32 kB. It remembers the last 900 packets, and nearly all of twice as many.
const MOST_SETS: usize = 256;

/// Times in the table are in units of 4 µs, modulo 69 s.
const TICK_BITS: u32 = 12;
const TIME_BITS: u32 = 24;
const TIMES: u64 = (1 << TIME_BITS) - 1;
/// Times that differ by fewer ticks differ by less than [`IDENTIFIED`].
const LIMIT: u64 = IDENTIFIED >> TICK_BITS;

/// Packets with an identification and when they came: the upper 40 bits of their prints, above 24
/// bits of the time. The lowest bits of the former say in which set. With 16 in a set, one packet in a
/// billion is taken for a copy of another by chance.
///
/// It grows while packets come so fast that one is pushed out whose copy may still come.
#[derive(Debug, Default)]
struct Table {
    /// As many as a power of two, or none.
    sets: Box<[Set]>,
    /// Packets that it took since it has this size.
    taken: usize,
}

/// The newest packet is the first.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Set([u64; WAYS]);

impl Table {
    fn of(sets: usize) -> Self {
        Self {
            sets: vec![Set::default(); sets].into(),
            taken: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    #[inline]
    fn set(&mut self, entry: u64) -> &mut Set {
        &mut self.sets[(entry >> TIME_BITS) as usize & (self.sets.len() - 1)]
    }

    /// Whether the packet is a copy of one that is remembered; remembers it if not.
    #[inline]
    fn is_copy(&mut self, print: u64, at: Nanos) -> bool {
        let entry = print & !TIMES | at >> TICK_BITS & TIMES;
        let set = self.set(entry);
        // The times are compared only where a print is the same, which it hardly ever is.
        let mut known = false;
        for &seen in &set.0 {
            known |= (seen ^ entry) >> TIME_BITS == 0;
        }
        let copy = known && set.holds(entry);
        if !copy {
            let pushed_out = set.push(entry);
            self.taken += 1;
            if pushed_out != 0 && apart(pushed_out, entry) < LIMIT {
                self.grow(pushed_out);
            }
        }
        copy
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
        self.set(pushed_out).push(pushed_out);
        for set in before.sets {
            for entry in set.0.into_iter().rev().filter(|&entry| entry != 0) {
                self.set(entry).push(entry);
            }
        }
    }
}

impl Set {
    #[cold]
    fn holds(&self, entry: u64) -> bool {
        let copy = |&seen: &u64| (seen ^ entry) <= TIMES && apart(seen, entry) < LIMIT;
        self.0.iter().any(copy)
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

/// How many ticks two entries are apart, whichever came first: clocks of interfaces differ.
#[inline]
fn apart(seen: u64, entry: u64) -> u64 {
    let later = entry.wrapping_sub(seen) & TIMES;
    later.min(TIMES + 1 - later)
}

/// Whether the packet with this print has an identification.
#[inline]
fn is_identified(print: u64) -> bool {
    print & 2 != 0
}

/// A hash of everything that two copies of a packet share, never 0, and whether it has an identification. It is not
/// keyed: a sender that makes packets collide on purpose only hides its packets.
#[inline]
fn fingerprint(packet: &Packet) -> u64 {
    let Timestamps { value, echo } = packet.options.timestamps.unwrap_or_default();
    let words = [
        u64::from(packet.seq) << 32 | u64::from(packet.ack),
        u64::from(packet.payload) << 32 | u64::from(packet.window) << 16 | u64::from(packet.ip_id),
        u64::from(value) << 32 | u64::from(echo),
        u64::from(packet.flags.0) << 32
            | u64::from(
                packet
                    .options
                    .sacks
                    .blocks()
                    .first()
                    .map_or(0, |block| block.end),
            ),
    ];
    // Odd multipliers: independent, so that the processor takes all at once.
    const ODD: [u64; 4] = [
        0x9e37_79b9_7f4a_7c15,
        0xd6e8_feb8_6659_fd93,
        0xc2b2_ae3d_27d4_eb4f,
        0x1656_67b1_9e37_79f9,
    ];
    let hash = words.into_iter().zip(ODD).fold(0, |hash, (word, odd)| {
        let product = word.wrapping_mul(odd);
        hash ^ product ^ (product >> 32)
    });
    hash & !3 | u64::from(packet.ip_id != 0) << 1 | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{START, client, server};
    use crate::wire::{Flags, Options};

    const MICROSECOND: Nanos = 1_000;
    const MS: Nanos = 1_000_000;

    /// The n-th packet of a download.
    fn nth(n: u32) -> Packet {
        Packet {
            at: 0,
            outbound: None,
            src: server().into(),
            dst: client().into(),
            seq: n.wrapping_mul(1448),
            ack: 1,
            flags: Flags(Flags::ACK),
            window: 500,
            payload: 1448,
            headers: 40,
            framing: 18,
            ip_id: (n % 0xffff) as u16 + 1,
            options: Options::default(),
        }
    }

    fn at(at: Nanos, packet: Packet) -> Packet {
        Packet { at, ..packet }
    }

    /// For seconds, longer than the times in the table go, and at any distance.
    #[test]
    fn of_a_steady_stream_each_copy_is_found_and_nothing_else() {
        const BETWEEN: Nanos = 55 * MICROSECOND;
        for behind in [1, 4, 5, 16, 17, 100, 500, 900] {
            let mut recent = Recent::default();
            for n in 0..1_500_000 / if behind > 100 { 1 } else { 100 } {
                let now = START + Nanos::from(n) * BETWEEN;
                assert!(!recent.is_copy(&at(now, nth(n))), "{n}");
                if let Some(n) = n.checked_sub(behind) {
                    assert!(recent.is_copy(&at(now + 1, nth(n))), "{n}, {behind} behind");
                }
            }
            assert!(recent.kept() <= 328);
        }
    }

    #[test]
    fn a_copy_comes_within_50_ms_however_far_behind() {
        for (later, copies) in [(49_990, 20), (50_001, 0)] {
            let mut recent = Recent::default();
            for n in 0..20 {
                let now = START + Nanos::from(n) * MICROSECOND;
                assert!(!recent.is_copy(&at(now, nth(n))));
            }
            let again = (0..20).filter(|&n| {
                let now = START + (later + Nanos::from(n)) * MICROSECOND;
                recent.is_copy(&at(now, nth(n)))
            });
            assert_eq!(again.count(), copies, "{later} µs later");
        }
    }

    #[test]
    fn copies_may_come_first() {
        // Two capture queues: that of the second interface is read first.
        let mut recent = Recent::default();
        for n in 0..100 {
            assert!(!recent.is_copy(&at(START + 2 * MS, nth(n))));
        }
        for n in 0..100 {
            assert!(recent.is_copy(&at(START, nth(n))));
        }
    }

    #[test]
    fn only_directions_with_many_packets_at_once_have_a_table() {
        let kept = |packets: u32, between: Nanos, ip_id: Option<u16>| {
            let mut recent = Recent::default();
            for n in 0..packets {
                let packet = at(START + Nanos::from(n) * between, nth(n));
                let ip_id = ip_id.unwrap_or(packet.ip_id);
                recent.is_copy(&Packet { ip_id, ..packet });
            }
            recent.kept()
        };
        assert_eq!(kept(4, MICROSECOND, None), 0);
        assert_eq!(kept(1_000, 15 * MS, None), 0, "four packets take longer");
        assert_eq!(kept(1_000, MICROSECOND, Some(0)), 0);
        // Up to 16 packets take 128 bytes.
        assert_eq!(kept(5, MICROSECOND, None), 2);
        assert_eq!(kept(16, MICROSECOND, None), 2);
        assert_eq!(kept(10_000, 5 * MS, None), 2);
        assert!(kept(50, MICROSECOND, None) <= 11);
        assert_eq!(kept(10_000, MICROSECOND, None), 328);
    }

    /// All packets in one set, by prints that a sender chose.
    #[test]
    fn packets_that_collide_get_no_large_table() {
        let mut table = Table::of(1);
        for n in 0..120u64 {
            table.is_copy(n << 40, START);
        }
        assert!(table.sets.len() * WAYS <= 16 * 120, "{}", table.sets.len());
        assert!(table.sets.len() < MOST_SETS);
    }
}
