//! The fields of a packet that networks rewrite on the way, and a print of its payload: what two
//! captures of the same packet are compared by.

use super::packet::Skip;
use super::{decode, link};
use crate::read::Frame;

/// Payload bytes that a print is made of. Captures that keep 96 bytes of a frame hold that much.
const PRINTED: usize = 16;

/// What routers and middleboxes may change of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marking {
    /// The time to live, or the hop limit.
    pub hops: u8,
    /// The traffic class: DSCP in the upper six bits, ECN in the lower two (RFC 2474, RFC 3168).
    pub class: u8,
    /// A hash of the first bytes of the payload; 0 where there is none, or too little was captured.
    pub print: u32,
}

impl Marking {
    /// Reads them from a frame that holds a TCP packet: from the packet that [`decode`](super::decode)
    /// finds, which may be in a tunnel.
    ///
    /// # Errors
    /// The reason to skip the frame, as of [`decode`](super::decode).
    pub fn of(frame: &Frame<'_>) -> Result<Self, Skip> {
        let (network, datagram) = decode::with_tcp(link::network(frame)?)?;
        // A whole IP header was seen.
        let (hops, class) = match network.data {
            [first, second, _, _, _, _, _, hops, ..] if first >> 4 == 6 => {
                (*hops, first << 4 | second >> 4)
            }
            [_, class, _, _, _, _, _, _, hops, ..] => (*hops, *class),
            _ => return Err(Skip::Cut),
        };
        let header = datagram.data.get(12).ok_or(Skip::Cut)? >> 4;
        let from = usize::from(header) * 4;
        let wanted = datagram.length.saturating_sub(from).min(PRINTED);
        let payload = datagram.data.get(from..from + wanted).unwrap_or_default();
        Ok(Self {
            hops,
            class,
            print: print(payload),
        })
    }
}

/// FNV-1a (Fowler, Noll, Vo), folded; never 0 for bytes.
fn print(bytes: &[u8]) -> u32 {
    if bytes.is_empty() {
        return 0;
    }
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    ((hash >> 32) as u32 ^ hash as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::LinkType;
    use crate::write::{Ends, TcpFrame};

    fn marking(frame: &TcpFrame, change: impl Fn(&mut Vec<u8>)) -> Marking {
        let mut bytes = Vec::new();
        let wire_len = frame.encode(&mut bytes);
        change(&mut bytes);
        Marking::of(&Frame {
            outbound: None,
            at: 0,
            link: LinkType::ETHERNET,
            data: &bytes,
            wire_len,
        })
        .expect("a sound packet")
    }

    #[test]
    fn reads_what_networks_change() {
        let v4 = TcpFrame {
            payload: 100,
            dscp: 46,
            ..TcpFrame::new(Ends {
                src: ([10, 0, 0, 1], 1).into(),
                dst: ([10, 0, 0, 2], 2).into(),
            })
        };
        let found = marking(&v4, |_| {});
        assert_eq!((found.hops, found.class), (64, 46 << 2));
        assert_ne!(found.print, 0);
        let other = marking(&v4, |bytes| bytes[54] = 1);
        assert_ne!(found.print, other.print, "the first byte of the payload");
        let cut = marking(&v4, |bytes| bytes.truncate(60));
        assert_eq!(cut.print, 0, "too little was captured");

        // In a tunnel, the fields are those of the packet inside, which is also what is decoded.
        let mut inner = Vec::new();
        v4.encode(&mut inner);
        let length = (20 + inner.len() - 14) as u16;
        let [high, low] = length.to_be_bytes();
        let outer = [
            0x45, 0, high, low, 0, 1, 0x40, 0, 9, 4, 0, 0, 10, 9, 9, 1, 10, 9, 9, 2,
        ];
        inner.splice(14..14, outer);
        let tunnelled = Marking::of(&Frame {
            outbound: None,
            at: 0,
            link: LinkType::ETHERNET,
            wire_len: inner.len() as u32,
            data: &inner,
        });
        assert_eq!(tunnelled, Ok(marking(&v4, |_| {})));

        let v6 = TcpFrame {
            dscp: 10,
            ..TcpFrame::new(Ends {
                src: "[2001:db8::1]:1".parse().expect("an address"),
                dst: "[2001:db8::2]:2".parse().expect("an address"),
            })
        };
        let found = marking(&v6, |bytes| bytes[21] = 9);
        assert_eq!((found.hops, found.class, found.print), (9, 10 << 2, 0));
    }
}
