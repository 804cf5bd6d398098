//! Packets that the capture holds twice: taken on two interfaces, or mirrored from two ports.

use crate::read::Nanos;
use crate::wire::{Packet, Timestamps};

/// A copy follows its original within this time. With an IPv4 identification, which a
/// retransmission would not share, there is time for a detour through a mirror port.
const IDENTIFIED: Nanos = 50_000_000;
/// Without one, no sender retransmits so soon.
const UNIDENTIFIED: Nanos = 200_000;

/// The last few packets of one direction.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    prints: [u64; 4],
    times: [Nanos; 4],
    next: u8,
}

impl Recent {
    /// Whether the packet is a copy of one of the last few; remembers it if not.
    #[inline]
    pub(crate) fn is_copy(&mut self, packet: &Packet) -> bool {
        let print = fingerprint(packet);
        let limit = if packet.ip_id != 0 {
            IDENTIFIED
        } else {
            UNIDENTIFIED
        };
        let mut copy = false;
        for (&seen, &at) in self.prints.iter().zip(&self.times) {
            // No branches: all four at once.
            copy |= (seen == print) & (packet.at.abs_diff(at) <= limit);
        }
        if !copy {
            let next = usize::from(self.next);
            (self.prints[next], self.times[next]) = (print, packet.at);
            self.next = (self.next + 1) % 4;
        }
        copy
    }
}

/// A hash of everything that two copies of a packet share, never 0. It is not keyed: a sender
/// that makes packets collide on purpose only hides its packets.
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
    hash | 1
}
