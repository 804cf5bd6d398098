//! Link layers: where the IP packet begins.

use super::bytes::bytes;
use super::packet::Skip;
use crate::read::{Frame, LinkType};

/// The IP packet in a frame.
pub(super) struct Network<'a> {
    /// The bytes kept, from the IP header on.
    pub data: &'a [u8],
    /// Bytes from the IP header to the end of the frame on the wire, padding included.
    pub wire_len: usize,
    /// Bytes around the IP packet on the wire.
    pub framing: u16,
    /// Whether what carries it was cut by a mirror or tap.
    pub sliced: bool,
}

pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86dd;
const MPLS: [u16; 2] = [0x8847, 0x8848];
const PPPOE_SESSION: u16 = 0x8864;
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;

/// A frame check sequence of Ethernet.
pub(super) const FCS: usize = 4;
/// Ethernet's header and frame check sequence, assumed where the capture has no link layer.
const ETHERNET: usize = 14 + FCS;
/// More tags or labels than any network stacks.
const MAX_TAGS: usize = 16;

#[inline(always)]
pub(super) fn network<'a>(frame: &Frame<'a>) -> Result<Network<'a>, Skip> {
    let data = frame.data;
    match frame.link {
        LinkType::ETHERNET => {
            let kind = u16::from_be_bytes(bytes(data, 12)?);
            // Nearly always IPv4 or IPv6 at once.
            let start = if kind == IPV4 || kind == IPV6 {
                14
            } else {
                typed(data, 14, kind)?
            };
            at(frame, start, start + FCS)
        }
        LinkType::LINUX_SLL => {
            let protocol = u16::from_be_bytes(bytes(data, 14)?);
            let start = typed(data, 16, protocol)?;
            at(frame, start, start - 16 + ETHERNET)
        }
        LinkType::LINUX_SLL2 => {
            let protocol = u16::from_be_bytes(bytes(data, 0)?);
            let start = typed(data, 20, protocol)?;
            at(frame, start, start - 20 + ETHERNET)
        }
        LinkType::RAW | LinkType::RAW_12 | LinkType::RAW_14 | LinkType::IPV4 | LinkType::IPV6 => {
            at(frame, 0, ETHERNET)
        }
        LinkType::NULL | LinkType::LOOP => {
            // The address family is in the capturing host's byte order, and differs by system:
            // 2 is IPv4 everywhere; 10, 24, 28 and 30 are IPv6 on Linux, NetBSD, FreeBSD, macOS.
            let family: [u8; 4] = bytes(data, 0)?;
            match u32::from_le_bytes(family).min(u32::from_be_bytes(family)) {
                2 | 10 | 24 | 28 | 30 => at(frame, 4, ETHERNET),
                _ => Err(Skip::NotIp),
            }
        }
        LinkType::PPP | LinkType::PPP_HDLC => {
            let start = ppp(data, 0)?;
            // Flag and frame check sequence, RFC 1662.
            at(frame, start, start + 3)
        }
        LinkType::PPP_ETHER => {
            let start = ppp(data, 6)?;
            at(frame, start, start + ETHERNET)
        }
        _ => Err(Skip::NotIp),
    }
}

#[inline(always)]
fn at<'a>(frame: &Frame<'a>, start: usize, framing: usize) -> Result<Network<'a>, Skip> {
    Ok(Network {
        data: frame.data.get(start..).ok_or(Skip::Cut)?,
        wire_len: (frame.wire_len as usize).saturating_sub(start),
        framing: framing as u16,
        sliced: false,
    })
}

/// Of a capture of all interfaces (`tcpdump -i any`): the number of that on which the frame was seen, 0 if it does not say which.
/// Older captures do not.
#[inline]
pub(crate) fn interface(frame: &Frame<'_>) -> Option<u32> {
    match frame.link {
        LinkType::LINUX_SLL => Some(0),
        LinkType::LINUX_SLL2 => Some(bytes(frame.data, 4).map_or(0, u32::from_be_bytes)),
        _ => None,
    }
}

/// The Ethernet type behind any VLAN tags, of a frame whose link layer has one.
pub(super) fn ethernet_type(frame: &Frame<'_>) -> Option<u16> {
    let mut i = match frame.link {
        LinkType::ETHERNET => 12,
        LinkType::LINUX_SLL => 14,
        LinkType::LINUX_SLL2 => return bytes(frame.data, 0).ok().map(u16::from_be_bytes),
        _ => return None,
    };
    for _ in 0..MAX_TAGS {
        match u16::from_be_bytes(bytes(frame.data, i).ok()?) {
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => i += 4,
            kind => return Some(kind),
        }
    }
    None
}

/// The offset of the IP header behind any tags, with `next` the Ethernet type of what is at `i`.
pub(super) fn typed(data: &[u8], i: usize, next: u16) -> Result<usize, Skip> {
    behind_tags(data, i, next, Labels::Follow)
}

/// Whether MPLS labels are followed.
#[derive(Clone, Copy)]
enum Labels {
    Follow,
    /// One level only: a pseudowire inside a pseudowire is not followed.
    Refuse,
}

fn behind_tags(data: &[u8], mut i: usize, mut next: u16, labels: Labels) -> Result<usize, Skip> {
    for _ in 0..MAX_TAGS {
        match next {
            IPV4 | IPV6 => return Ok(i),
            // VLAN (802.1Q), service VLAN (802.1ad) and the types used before that standard.
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => {
                next = u16::from_be_bytes(bytes(data, i + 2)?);
                i += 4;
            }
            PPPOE_SESSION => return behind_ppp(data, i + 6, labels),
            _ if MPLS.contains(&next) => return mpls(data, i, labels),
            // A length, not a type: IEEE 802.2 with the SNAP header of RFC 1042.
            0..=1535 => {
                let snap: [u8; 8] = bytes(data, i)?;
                if snap[..6] != [0xaa, 0xaa, 3, 0, 0, 0] {
                    return Err(Skip::NotIp);
                }
                next = u16::from_be_bytes([snap[6], snap[7]]);
                i += 8;
            }
            _ => return Err(Skip::NotIp),
        }
    }
    Err(Skip::Malformed)
}

/// PPP's protocol field, behind an address and control field where there is one, and in one byte
/// where it was compressed (RFC 1661 §6.5).
pub(super) fn ppp(data: &[u8], i: usize) -> Result<usize, Skip> {
    behind_ppp(data, i, Labels::Follow)
}

fn behind_ppp(data: &[u8], mut i: usize, labels: Labels) -> Result<usize, Skip> {
    if bytes(data, i) == Ok([0xff, 0x03]) {
        i += 2;
    }
    let first = bytes::<1>(data, i)?[0];
    let (protocol, length) = if first & 1 == 1 {
        (u16::from(first), 1)
    } else {
        (u16::from_be_bytes(bytes(data, i)?), 2)
    };
    match protocol {
        PPP_IPV4 | PPP_IPV6 => Ok(i + length),
        0x0281 | 0x0283 => mpls(data, i + length, labels),
        _ => Err(Skip::NotIp),
    }
}

/// Behind an MPLS label stack nothing says what follows. It is IPv4, IPv6, or an Ethernet pseudowire with a control word, whose first
/// nibble is 0, or without one (RFC 4385 §3, RFC 4448 §4). Then the first nibble is that of a MAC address, which can be any.
fn mpls(data: &[u8], mut i: usize, labels: Labels) -> Result<usize, Skip> {
    if matches!(labels, Labels::Refuse) {
        return Err(Skip::NotIp);
    }
    for _ in 0..MAX_TAGS {
        let label: [u8; 4] = bytes(data, i)?;
        i += 4;
        if label[2] & 1 == 0 {
            continue;
        }
        let first = bytes::<1>(data, i)?[0];
        return match first >> 4 {
            // Nearly always without options: then no guess is needed.
            _ if first == 0x45 => Ok(i),
            4 | 6 => Ok(pseudowire(data, i).unwrap_or(i)),
            0 => match pseudowire(data, i + 4) {
                Err(Skip::NotIp) => pseudowire(data, i),
                found => found,
            },
            _ => pseudowire(data, i),
        };
    }
    Err(Skip::Malformed)
}

/// The offset of the IP header in what may be an Ethernet frame at `i`: it is none if its type and the version of IP do not agree.
fn pseudowire(data: &[u8], i: usize) -> Result<usize, Skip> {
    let kind = u16::from_be_bytes(bytes(data, i + 12)?);
    let start = behind_tags(data, i + 14, kind, Labels::Refuse)?;
    match bytes::<1>(data, start)?[0] >> 4 {
        4 | 6 => Ok(start),
        _ => Err(Skip::NotIp),
    }
}
