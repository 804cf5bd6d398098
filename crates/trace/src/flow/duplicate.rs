//! Packets that the capture holds twice: taken on two interfaces, or mirrored from two ports.

mod pieces;
mod table;
mod twice;

use crate::read::Nanos;
use crate::wire::{Flags, Packet, Timestamps};
use pieces::Pieces;
use table::{Prints, WITHIN};
use twice::Twice;

/// Without an IPv4 identification, which a retransmission would not share, the same packet is a copy within this
/// time: no sender retransmits so soon. Later, [`Twice`] decides.
const SOON: Nanos = 200_000;

/// The memory of a packet, in bytes, by which tables are counted.
const PACKET_BYTES: usize = 100;

/// The last few packets of one direction, and those of the time in which copies come, where there may be such copies.
///
/// Copies come far behind where a packet waits in a queue between two interfaces of which both are
/// captured. Directions whose packets are few and far between need no table for that.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    prints: [u64; 4],
    times: [Nanos; 4],
    next: u8,
    /// The hop limit of the last packet without an identification; 0 before the first.
    hops: u8,
    /// Too few packets without an identification came again.
    hopeless: bool,
    /// Those with an identification. Empty until one of the last few would be forgotten while its copy may still come.
    table: Prints,
    /// Those without, once two had different hop limits, or the SYN came again: in most captures never.
    twice: Option<Box<Twice>>,
    /// Super-packets, where they may be divided on their way from one interface to another.
    pieces: Option<Box<Pieces>>,
}

impl Recent {
    /// Whether the packet is a copy of one that is remembered; remembers it if not.
    #[inline]
    pub(crate) fn is_copy(&mut self, packet: &Packet) -> bool {
        let print = fingerprint(packet);
        let identified = is_identified(print);
        let limit = if identified { WITHIN } else { SOON };
        let mut copy = false;
        for (&seen, &at) in self.prints.iter().zip(&self.times) {
            // No branches: all four at once.
            copy |= (seen == print) & (packet.at.abs_diff(at) <= limit);
        }
        if !identified && self.may_be_forwarded(packet) {
            copy = self.is_copy_by_hops(packet, print, copy);
        }
        if copy {
            return true;
        }
        let next = usize::from(self.next);
        let is_early = packet.at.abs_diff(self.times[next]) <= WITHIN;
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

    /// Whether the packet is a piece of a super-packet that was seen on another interface. For captures of all interfaces; 0 if
    /// the capture does not say which one the packet was seen on.
    #[inline]
    pub(crate) fn is_piece(&mut self, packet: &Packet, interface: u32) -> bool {
        if self.pieces.is_none() && !Pieces::has(packet) {
            return false;
        }
        let pieces = self.pieces.get_or_insert_default();
        pieces.is_piece(packet, interface)
    }

    #[cold]
    fn begin_table(&mut self, now: Nanos) {
        self.table = Prints::of(1);
        for (&print, &at) in self.prints.iter().zip(&self.times) {
            if is_identified(print) && now.abs_diff(at) <= WITHIN {
                self.table.is_copy(print, at);
            }
        }
    }

    /// Whether anything but the last few packets can tell whether a packet without an identification is a copy.
    #[inline]
    fn may_be_forwarded(&self, packet: &Packet) -> bool {
        let changes = (packet.hops != self.hops) | packet.flags.has(Flags::SYN);
        !self.hopeless && (changes | self.twice.is_some())
    }

    /// Whether a packet without an identification is a copy. `soon` if it is one in any case.
    #[cold]
    fn is_copy_by_hops(&mut self, packet: &Packet, print: u64, soon: bool) -> bool {
        let before = std::mem::replace(&mut self.hops, packet.hops);
        if self.twice.is_none() {
            let last = || self.prints.into_iter().zip(self.times);
            let is_recent = |at: Nanos| packet.at.abs_diff(at) <= WITHIN;
            let changes = before != 0 && before != packet.hops;
            let opens_again = packet.flags.has(Flags::SYN)
                && last().any(|(seen, at)| seen == print && is_recent(at));
            if !changes && !opens_again {
                return soon;
            }
            let mut twice = Box::new(Twice::new());
            // All of them had the same hop limit.
            for (print, at) in last() {
                if print != 0 && !is_identified(print) && is_recent(at) {
                    twice.remember(print, before, at);
                }
            }
            self.twice = Some(twice);
        }
        let Some(twice) = &mut self.twice else {
            return soon;
        };
        let copy = twice.is_copy(packet, print, soon);
        if twice.is_over() {
            self.twice = None;
            self.hopeless = true;
        }
        copy
    }

    /// What the tables take, in packets.
    pub(crate) fn kept(&self) -> usize {
        let twice = self.twice.as_ref().map_or(0, |twice| twice.bytes());
        let pieces = self.pieces.as_ref().map_or(0, |pieces| pieces.bytes());
        let all = [self.table.bytes(), twice, pieces];
        all.map(|bytes| bytes.div_ceil(PACKET_BYTES)).iter().sum()
    }
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
            hops: 64,
            sliced: false,
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

    /// Packets without an identification, a tenth of a millisecond apart.
    fn kept_of(packets: u32, change: impl Fn(u32, &mut Packet)) -> usize {
        let mut recent = Recent::default();
        for n in 0..packets {
            let mut packet = Packet {
                ip_id: 0,
                ..at(START + Nanos::from(n) * MS / 10, nth(n))
            };
            change(n, &mut packet);
            assert!(!recent.is_copy(&packet));
        }
        recent.kept()
    }

    #[test]
    fn only_where_hop_limits_change_or_a_syn_repeats_is_more_remembered() {
        assert_eq!(kept_of(1000, |_, _| {}), 0);
        let hops = |n: u32, packet: &mut Packet| packet.hops -= u8::from(n == 10);
        assert_eq!(kept_of(10, hops), 0);
        assert_eq!(kept_of(20, hops), 2);
        assert!((70..=170).contains(&kept_of(1000, hops)));

        let syn = |later| {
            let packet = Packet {
                ip_id: 0,
                flags: Flags(Flags::SYN),
                ..at(START + later, nth(0))
            };
            let mut recent = Recent::default();
            assert!(!recent.is_copy(&at(START, packet)));
            (recent.is_copy(&packet), recent.kept())
        };
        assert_eq!(syn(49 * MS), (true, 2));
        assert_eq!(syn(51 * MS), (false, 0));
    }

    /// As where packets take paths of different lengths.
    #[test]
    fn where_no_packet_comes_again_the_table_is_given_up() {
        let hops = |n: u32, packet: &mut Packet| packet.hops -= (n % 2) as u8;
        assert_ne!(kept_of(1000, hops), 0);
        assert_eq!(kept_of(1100, hops), 0);
        assert_eq!(kept_of(5000, hops), 0);
    }

    #[test]
    fn super_packets_are_forgotten_and_what_is_kept_of_them_is_counted() {
        let mut recent = Recent::default();
        let is_piece = |recent: &mut Recent, n: u32, payload| {
            let now = START + Nanos::from(n) * MICROSECOND;
            let packet = at(now, nth(n));
            recent.is_piece(&Packet { payload, ..packet }, 0)
        };
        assert!(!is_piece(&mut recent, 0, 1448));
        assert_eq!(recent.kept(), 0, "an ordinary packet has no pieces");
        for n in 1..=1000 {
            assert!(!is_piece(&mut recent, n * 45, 45 * 1448));
        }
        assert!((10..=60).contains(&recent.kept()), "{}", recent.kept());
        assert!(!is_piece(&mut recent, 936 * 45, 1448), "it was forgotten");
        assert!(is_piece(&mut recent, 937 * 45, 1448));
    }

    #[test]
    fn copies_behind_a_bridge_are_found_when_the_clock_was_set_back() {
        let mut recent = Recent::default();
        for n in 0..100 {
            let start = if n < 50 { START } else { START / 2 };
            let packet = Packet {
                ip_id: 0,
                flags: Flags(if n == 0 { Flags::SYN } else { Flags::ACK }),
                options: Options {
                    timestamps: Some(Timestamps { value: 9, echo: 9 }),
                    ..Options::default()
                },
                ..at(start + Nanos::from(n) * 2 * MS, nth(n))
            };
            assert!(!recent.is_copy(&packet));
            assert!(recent.is_copy(&at(packet.at + MS, packet)), "{n}");
        }
    }
}
