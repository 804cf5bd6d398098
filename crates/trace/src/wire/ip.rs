//! IPv4 (RFC 791) and IPv6 (RFC 8200) with its extension headers.

use super::bytes::{bytes, header};
use super::link::Network;
use super::packet::Skip;

pub(super) const TCP: u8 = 6;
/// More extension headers than any packet has.
const MAX_EXTENSIONS: usize = 16;

/// A whole IP packet.
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
    // More than the frame holds on the wire is a lie, or a part of a packet.
    if length < 20 || total < length || total > network.wire_len {
        return Err(Skip::Malformed);
    }
    // More fragments, or an offset.
    if u16::from_be_bytes([head[6], head[7]]) & 0x3fff != 0 {
        return Err(fragment(head[9]));
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
    })
}

fn v6<'a>(network: &Network<'a>) -> Result<Datagram<'a>, Skip> {
    let head: &[u8; 40] = header(network.data, 0)?;
    let mut length = usize::from(u16::from_be_bytes([head[4], head[5]]));
    let mut next = head[6];
    let mut i = 40;
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
            51 => {
                let extension: [u8; 2] = bytes(network.data, i)?;
                next = extension[0];
                i += 8 + usize::from(extension[1]) * 4;
            }
            44 => {
                let extension: [u8; 8] = bytes(network.data, i)?;
                // Offset or more fragments; an atomic fragment (RFC 6946) is a whole packet.
                if u16::from_be_bytes([extension[2], extension[3]]) & 0xfff9 != 0 {
                    return Err(fragment(extension[0]));
                }
                next = extension[0];
                i += 8;
            }
            _ => {
                if length == 0 {
                    length = network.wire_len.saturating_sub(40);
                }
                if length + 40 > network.wire_len {
                    return Err(Skip::Malformed);
                }
                return Ok(Datagram {
                    protocol: next,
                    source: Address::V6(bytes(head, 8)?),
                    destination: Address::V6(bytes(head, 24)?),
                    id: 0,
                    hops: head[7],
                    header: i,
                    data: network.data.get(i..).ok_or(Skip::Cut)?,
                    length: (length + 40).checked_sub(i).ok_or(Skip::Malformed)?,
                });
            }
        }
    }
    Err(Skip::Malformed)
}

fn fragment(protocol: u8) -> Skip {
    match protocol {
        TCP => Skip::Fragment,
        _ => Skip::NotTcp,
    }
}
