//! Packets without an IP identification that come again, behind a router or a bridge.
//!
//! A retransmission may look like the packet that it repeats. What tells a copy from it:
//!
//! - A router lowers the hop limit. A retransmission has that of the packets before it, unless it takes another path.
//! - A retransmission has a newer timestamp, unless it is sent in the same tick of the sender's clock, which is a
//!   millisecond today.
//! - Where every packet is captured twice, one more that comes twice is nothing special.
//!
//! So a packet that comes again with the same timestamp and a lower hop limit is a copy. Without timestamps it
//! is one if most packets of its direction come again like this. By how much the hop limit is lower is not asked: there may be
//! several routers, and paths differ by as much. With the same hop limit, as behind a bridge, there must be
//! both signs, and the order must be that of the originals: copies leave a queue like this, but a retransmission is
//! sent when later packets have arrived.

use super::table::{PrintsAndHops, WITHIN};
use crate::read::Nanos;
use crate::wire::{Flags, Packet};

/// Packets by which it is judged how many come again. As many as that fit in no queue before their first copy.
const PERIOD: u32 = 1024;
/// Fewer packets that came again prove nothing.
const LEAST: u32 = 8;
/// Times that are this close may be in any order, in nanoseconds: the table's are rounded.
const CLOSE: Nanos = 200_000;
/// So much counts a SYN that came again. No sender repeats it within 50 ms (RFC 6298 §2.1: after a second), and the
/// packets behind it take the same way. It outweighs packets whose copies wait in the queue.
const SYN_WEIGHT: u32 = PERIOD / 2;

/// What is known of a direction where some packets came again.
#[derive(Debug)]
pub(super) struct Twice {
    /// The first of each packet.
    table: PrintsAndHops,
    /// Packets of late, without those that came again.
    packets: u32,
    /// Those that came again with a lower hop limit.
    forwarded: u32,
    /// Those that came again with the same hop limit. They count only behind such a SYN: repeated acknowledgements
    /// look like that too.
    same: u32,
    /// When the last packet that came again with the same hop limit came for the first time.
    last_same: Nanos,
}

impl Twice {
    pub fn new() -> Self {
        Self {
            table: PrintsAndHops::of(1),
            packets: 0,
            forwarded: 0,
            same: 0,
            last_same: 0,
        }
    }

    /// The memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.table.bytes()
    }

    /// Remembers a packet that came before.
    pub fn remember(&mut self, print: u64, hops: u8, at: Nanos) {
        self.table.take(print, hops, at);
    }

    /// Whether the packet is a copy; remembers it if nothing like it came before. `soon` if it is a copy in any case.
    pub fn is_copy(&mut self, packet: &Packet, print: u64, soon: bool) -> bool {
        let found = self.table.find(print, packet.hops, packet.at);
        let opens = packet.flags.has(Flags::SYN);
        let weight = if opens { SYN_WEIGHT } else { 1 };
        // A clock that stands still tells nothing.
        let dated = (packet.options.timestamps).is_some_and(|times| times.value != 0);
        if found.forwarded {
            self.forwarded = (self.forwarded + weight).min(PERIOD);
            // What is not believed is not remembered either. Otherwise the original would look like its copy when it is sent again.
            return soon || dated || self.are_most(self.forwarded);
        }
        let mut copy = soon;
        if let Some(first) = found.same {
            // A clock that was set back has no part in the order.
            let behind = self.last_same.saturating_sub(first);
            let in_order = behind <= CLOSE || behind > WITHIN;
            copy |= opens || dated && in_order && self.are_most(self.same);
            if copy && (opens || self.same > 0) {
                self.same = (self.same + weight).min(PERIOD);
                if behind == 0 || behind > WITHIN {
                    self.last_same = first;
                }
            }
        }
        if !copy {
            self.packets += 1;
            self.table.take(print, packet.hops, packet.at);
        }
        copy
    }

    /// Whether most packets came again, if this many did.
    fn are_most(&self, again: u32) -> bool {
        again >= LEAST && again * 2 >= self.packets
    }

    /// Whether so few packets came again that none will any more.
    pub fn is_over(&mut self) -> bool {
        if self.packets < PERIOD {
            return false;
        }
        let again = self.forwarded + self.same;
        for count in [&mut self.packets, &mut self.forwarded, &mut self.same] {
            *count /= 2;
        }
        again * 8 < PERIOD
    }
}
