//! Pieces of super-packets: what one interface was given in one piece, and another one in packets.
//!
//! A capture of all interfaces has both, where the kernel divides a super-packet on its way (GSO). The kernel copies the headers to each
//! piece, and counts the IPv4 identification up from that of the super-packet. A retransmission of the same bytes looks like
//! a piece but for these signs:
//!
//! - It has another identification.
//! - Without one, it is seen on the interface of the super-packet first, and has a newer timestamp.
//!
//! Nothing is taken for a piece before one came with the first bytes of its super-packet. Where no super-packet is divided, no such packet
//! has these signs.

use std::collections::VecDeque;

use super::SOON;
use super::table::WITHIN;
use crate::read::Nanos;
use crate::wire::{Packet, Timestamps};

/// No payload above it fits a frame of 1500 bytes.
const MAX_ORDINARY: u32 = 1460;
/// Super-packets that are remembered. Of 64 KiB each, they are more than queues hold for one connection.
const MOST: usize = 64;

/// The last super-packets of one direction.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    supers: VecDeque<Super>,
    /// One was divided.
    divides: bool,
}

/// A super-packet, or any packet that is larger than ordinary ones.
#[derive(Debug, Clone, Copy)]
struct Super {
    at: Nanos,
    headers: Headers,
    payload: u32,
    ip_id: u16,
    /// The interface, 0 if unknown.
    interface: u32,
}

/// What the kernel copies to each piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Headers {
    ack: u32,
    window: u16,
    timestamps: Option<Timestamps>,
    seq: u32,
    flags: u8,
}

impl Pieces {
    /// Whether a packet can have pieces.
    #[inline]
    pub fn has(packet: &Packet) -> bool {
        packet.payload > MAX_ORDINARY
    }

    /// The memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.supers.capacity() * size_of::<Super>()
    }

    /// Whether the packet is a piece of one that is remembered; remembers it if not.
    pub fn is_piece(&mut self, packet: &Packet, interface: u32) -> bool {
        let is_near = |whole: &&Super| packet.at.abs_diff(whole.at) <= WITHIN;
        let near = self.supers.iter().rev().take_while(is_near);
        let wholes = near.filter(|whole| whole.has_piece(packet, interface));
        for offset in wholes.map(|whole| packet.seq.wrapping_sub(whole.headers.seq)) {
            self.divides |= offset == 0;
            if self.divides {
                return true;
            }
        }
        if Self::has(packet) {
            self.remember(packet, interface);
        }
        false
    }

    fn remember(&mut self, packet: &Packet, interface: u32) {
        if self.supers.len() == MOST {
            self.supers.pop_front();
        }
        self.supers.push_back(Super {
            at: packet.at,
            headers: Headers::of(packet),
            payload: packet.payload,
            ip_id: packet.ip_id,
            interface,
        });
    }
}

impl Headers {
    fn of(packet: &Packet) -> Self {
        Self {
            ack: packet.ack,
            window: packet.window,
            timestamps: packet.options.timestamps,
            seq: packet.seq,
            flags: packet.flags.0,
        }
    }
}

impl Super {
    fn has_piece(&self, packet: &Packet, interface: u32) -> bool {
        let headers = Headers::of(packet);
        let offset = headers.seq.wrapping_sub(self.headers.seq);
        let inside = packet.payload > 0
            && packet.payload < self.payload
            && offset <= self.payload - packet.payload;
        let copied = Headers {
            seq: self.headers.seq,
            // The last piece alone has those of the end, and the first one those of the beginning.
            flags: headers.flags | self.headers.flags,
            ..headers
        };
        let elsewhere = interface != self.interface || interface == 0;
        inside && copied == self.headers && elsewhere && self.is_counted(packet, offset, interface)
    }

    /// Whether the identification is that of a piece at this offset, or there is none and other signs tell.
    fn is_counted(&self, packet: &Packet, offset: u32, interface: u32) -> bool {
        if self.ip_id == 0 {
            let dated = self
                .headers
                .timestamps
                .is_some_and(|times| times.value != 0);
            let limit = if dated { WITHIN } else { SOON };
            let known = interface != 0 && self.interface != 0;
            return known && packet.ip_id == 0 && packet.at.abs_diff(self.at) <= limit;
        }
        match u32::from(packet.ip_id.wrapping_sub(self.ip_id)) {
            // That of all pieces, or of the first one.
            0 => true,
            number => {
                let size = offset / number;
                let ends = offset + packet.payload == self.payload;
                // A piece may have the size of several packets, and be divided further on.
                size > 0
                    && offset.is_multiple_of(number)
                    && (ends || packet.payload.is_multiple_of(size))
            }
        }
    }
}
