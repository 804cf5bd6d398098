//! IPv4 (RFC 791) and IPv6 (RFC 8200) with its extension headers.

use super::bytes::{bytes, header};
use super::link::Network;
use super::packet::Skip;

pub(super) const TCP: u8 = 6;
/// Protocols of tunnels.
pub(super) const IP_IN_IP: u8 = 4;
pub(super) const UDP: u8 = 17;
pub(super) const IPV6_IN_IP: u8 = 41;
pub(super) const GRE: u8 = 47;
/// The authentication header (RFC 4302).
const AUTHENTICATION: u8 = 51;
/// More extension headers than any packet has.
const MAX_EXTENSIONS: usize = 16;
/// The length of a packet of which only the first fragment is there. No TCP packet is as long, so what a tunnel carries must
/// state its own length.
const UNKNOWN: usize = 1 << 20;

/// A whole IP packet, or the first fragment of a tunnel's packet, which has the headers of the packet inside.
pub(super) struct Datagram<'a> {
    /// The protocol of what it carries.
    pub protocol: u8,
    pub source: Address,
    pub destination: Address,
    pub id: u16,
    /// The time to live, or the hop limit.
    pub hops: u8,
    /// Bytes of the IP header with options or extension headers.
    pub header: usize,
    /// The bytes kept of what it carries.
    pub data: &'a [u8],
    /// The length in bytes on the wire of what it carries.
    pub length: usize,
    /// Whether it claims more than the frame holds on the wire: a mirror or tap cut the frame.
    pub sliced: bool,
}

impl Datagram<'_> {
    /// What is behind the authentication header. That of IPv6 is an extension header, and already skipped.
    pub fn authenticated(mut self) -> Result<Self, Skip> {
        if self.protocol == AUTHENTICATION {
            let [next, words] = bytes(self.data, 0)?;
            let header = 8 + usize::from(words) * 4;
            self.protocol = next;
            self.header += header;
            self.data = self.data.get(header..).ok_or(Skip::Cut)?;
            self.length = self.length.checked_sub(header).ok_or(Skip::Malformed)?;
        }
        Ok(self)
    }
}

pub(super) enum Address {
    V4([u8; 4]),
    V6([u8; 16]),
}

#[inline(always)]
pub(super) fn datagram<'a>(network: &Network<'a>) -> Result<Datagram<'a>, Skip> {
    match bytes::<1>(network.data, 0)?[0] >> 4 {
        4 => v4(network),
        6 => v6(network),
        _ => Err(Skip::NotIp),
    }
}

#[inline(always)]
fn v4<'a>(network: &Network<'a>) -> Result<Datagram<'a>, Skip> {
    let head: &[u8; 20] = header(network.data, 0)?;
    let length = usize::from(head[0] & 15) * 4;
    let mut total = usize::from(u16::from_be_bytes([head[2], head[3]]));
    if total == 0 {
        // A super-packet that the field cannot hold (BIG TCP): the frame's length is the only one.
        total = network.wire_len;
    }
    if length < 20 || total < length {
        return Err(Skip::Malformed);
    }
    // More than the frame holds on the wire is a part of a packet, or a lie.
    let sliced = total > network.wire_len;
    if sliced && !is_sound(network.data.get(..length).ok_or(Skip::Cut)?) {
        return Err(Skip::Malformed);
    }
    // More fragments, or an offset.
    let fragment = u16::from_be_bytes([head[6], head[7]]) & 0x3fff;
    if fragment != 0 {
        total = first_fragment(fragment & 0x1fff, head[9])?;
    }
    Ok(Datagram {
        protocol: head[9],
        source: Address::V4(bytes(head, 12)?),
        destination: Address::V4(bytes(head, 16)?),
        id: u16::from_be_bytes([head[4], head[5]]),
        hops: head[8],
        header: length,
        data: network.data.get(length..).ok_or(Skip::Cut)?,
        length: total - length,
        sliced: sliced || network.sliced,
    })
}

/// Whether the checksum of an IPv4 header is that of its bytes, or was left to a network card.
#[cold]
fn is_sound(header: &[u8]) -> bool {
    let words = || {
        header
            .chunks_exact(2)
            .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
    };
    // At most 30 words: two folds are enough.
    let folded = |sum: u32| (sum & 0xffff) + (sum >> 16);
    words().nth(5) == Some(0) || folded(folded(words().sum())) == 0xffff
}

fn v6<'a>(network: &Network<'a>) -> Result<Datagram<'a>, Skip> {
    let head: &[u8; 40] = header(network.data, 0)?;
    let mut length = usize::from(u16::from_be_bytes([head[4], head[5]]));
    let mut next = head[6];
    let mut i = 40;
    let mut sliced = network.sliced;
    for _ in 0..MAX_EXTENSIONS {
        match next {
            // Hop-by-hop, routing, destination options, mobility, HIP, shim6: length in 8 bytes
            // behind the first 8. A jumbo payload (RFC 2675) states its length in the first.
            0 | 43 | 60 | 135 | 139 | 140 => {
                let extension: [u8; 8] = bytes(network.data, i)?;
                if next == 0 && length == 0 && extension[2..4] == [0xc2, 4] {
                    length = u32::from_be_bytes(bytes(&extension, 4)?) as usize;
                }
                next = extension[0];
                i += 8 + usize::from(extension[1]) * 8;
            }
            // Authentication: length in 4 bytes behind the first 8.
            AUTHENTICATION => {
                let extension: [u8; 2] = bytes(network.data, i)?;
                next = extension[0];
                i += 8 + usize::from(extension[1]) * 4;
            }
            44 => {
                let extension: [u8; 8] = bytes(network.data, i)?;
                // Offset or more fragments; an atomic fragment (RFC 6946) is a whole packet.
                let fragment = u16::from_be_bytes([extension[2], extension[3]]);
                if fragment & 0xfff9 != 0 {
                    sliced |= length + 40 > network.wire_len;
                    length = first_fragment(fragment & 0xfff8, extension[0])?;
                }
                next = extension[0];
                i += 8;
            }
            _ => {
                if length == 0 {
                    length = network.wire_len.saturating_sub(40);
                }
                // There is no checksum that tells a part of a packet from a lie. TCP's header is still to be whole.
                sliced |= length != UNKNOWN && length + 40 > network.wire_len;
                return Ok(Datagram {
                    protocol: next,
                    source: Address::V6(bytes(head, 8)?),
                    destination: Address::V6(bytes(head, 24)?),
                    id: 0,
                    hops: head[7],
                    header: i,
                    data: network.data.get(i..).ok_or(Skip::Cut)?,
                    length: (length + 40).checked_sub(i).ok_or(Skip::Malformed)?,
                    sliced,
                });
            }
        }
    }
    Err(Skip::Malformed)
}

/// The length of a packet of which this is the first fragment, if a tunnel's headers are in it. The other fragments of a tunnel's
/// packet have nothing that is needed.
#[cold]
fn first_fragment(offset: u16, protocol: u8) -> Result<usize, Skip> {
    match protocol {
        TCP | AUTHENTICATION => Err(Skip::Fragment),
        IP_IN_IP | UDP | IPV6_IN_IP | GRE if offset == 0 => Ok(UNKNOWN),
        _ => Err(Skip::NotTcp),
    }
}
