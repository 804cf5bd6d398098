//! Congestion marks (ECN), as the receiver's acknowledgements echo them.

use super::sent::Marks;
use crate::wire::{Flags, Packet};

/// Follows the bits of acknowledgements that tell the sender of congestion marks.
///
/// By RFC 3168 a receiver sets ECE from a mark on until the sender has answered, and by RFC 8257 as long as the latest packets were
/// marked. With accurate ECN (RFC 9768) both bits are the end of a counter, which moves with each mark. So a change tells
/// of a mark in all of them, unless it is to zero: that ends an echo in the first two.
#[derive(Debug, Default)]
pub(crate) struct Congestion {
    last: Option<u8>,
}

impl Congestion {
    /// The mark for the packet that an acknowledgement settles, if it echoes more than those before. `progress`: it acknowledges
    /// something. The counter does not run in the handshake, nor do the bits of data mean what they do there.
    #[inline]
    pub fn echo(&mut self, packet: &Packet, progress: bool) -> u16 {
        if !progress || packet.payload > 0 || packet.flags.has(Flags::SYN) {
            return 0;
        }
        let bits = packet.flags.0 & (Flags::ECE | Flags::CWR);
        let before = self.last.replace(bits);
        match before.is_some_and(|before| before != bits) && bits != 0 {
            true => Marks::CONGESTION,
            false => 0,
        }
    }
}
