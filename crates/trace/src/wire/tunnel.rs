//! Tunnels: IP packets and Ethernet frames that other IP packets carry.

use super::bytes::bytes;
use super::ip::{Datagram, GRE, IP_IN_IP, IPV6_IN_IP, UDP};
use super::link::{FCS, IPV4, IPV6, Network, ppp, typed};
use super::packet::Skip;

/// RFC 7348 §5, and the port that Linux had before.
const VXLAN_PORTS: [u16; 2] = [4789, 8472];
const GENEVE_PORT: u16 = 6081;
const GTP_U_PORT: u16 = 2152;

/// An Ethernet frame in GRE or Geneve (RFC 1701, RFC 8926 §3.4).
const BRIDGED_ETHERNET: u16 = 0x6558;
const PPP: u16 = 0x880b;
/// draft-foschiano-erspan: types I and II, and type III.
const ERSPAN: u16 = 0x88be;
const ERSPAN_3: u16 = 0x22eb;

/// More extension headers than any GTP-U packet has.
const MAX_EXTENSIONS: usize = 16;

/// What begins where in the outer packet's payload.
enum Inner {
    Ip(usize),
    Ethernet(usize),
    /// An Ethernet frame that was copied to be captured: the tunnel was not on its way.
    Mirrored(usize),
}

/// The IP packet that another one carries, given what is around that.
///
/// # Errors
/// [`Skip::NotTcp`] where it is no tunnel, or one without IP inside.
pub(super) fn inner<'a>(framing: u16, carrier: &Datagram<'a>) -> Result<Network<'a>, Skip> {
    let data = carrier.data;
    let inner = match carrier.protocol {
        IP_IN_IP | IPV6_IN_IP => Inner::Ip(0),
        GRE => gre(data)?,
        UDP => udp(data)?,
        _ => return Err(Skip::NotTcp),
    };
    let ethernet = |i: usize| typed(data, i + 14, u16::from_be_bytes(bytes(data, i + 12)?));
    let around = usize::from(framing) + carrier.header;
    let (start, framing) = match inner {
        Inner::Ip(start) => (start, around + start),
        Inner::Ethernet(i) => ethernet(i).map(|start| (start, around + start))?,
        Inner::Mirrored(i) => ethernet(i).map(|start| (start, start - i + FCS))?,
    };
    network(carrier, start, framing)
}

fn network<'a>(carrier: &Datagram<'a>, start: usize, framing: usize) -> Result<Network<'a>, Skip> {
    Ok(Network {
        data: carrier.data.get(start..).ok_or(Skip::Cut)?,
        wire_len: carrier.length.saturating_sub(start),
        framing: u16::try_from(framing).map_err(|_| Skip::Malformed)?,
        sliced: carrier.sliced,
    })
}

/// RFC 2784 and RFC 2890; version 1 is that of PPTP, RFC 2637 §4.1.
fn gre(data: &[u8]) -> Result<Inner, Skip> {
    let [flags, version, kind @ ..] = bytes::<4>(data, 0)?;
    let kind = u16::from_be_bytes(kind);
    let has = |byte: u8, bit: u8| usize::from(byte & bit != 0) * 4;
    let sequence = has(flags, 0x10);
    let (checksum, key) = (has(flags, 0x80), has(flags, 0x20));
    // Source routes were never used (RFC 2784 §2.3).
    if flags & 0x40 != 0 {
        return Err(Skip::NotTcp);
    }
    let start = 4 + checksum + key + sequence;
    match (version & 7, kind) {
        (1, PPP) => Ok(Inner::Ip(ppp(data, start + has(version, 0x80))?)),
        (0, IPV4 | IPV6) => Ok(Inner::Ip(start)),
        (0, BRIDGED_ETHERNET) => Ok(Inner::Ethernet(start)),
        // Type I has neither a sequence number nor a header.
        (0, ERSPAN) if sequence == 0 => Ok(Inner::Mirrored(start)),
        (0, ERSPAN) => Ok(Inner::Mirrored(start + 8)),
        (0, ERSPAN_3) => {
            let [.., last] = bytes::<12>(data, start)?;
            let subheader = usize::from(last & 1) * 8;
            Ok(Inner::Mirrored(start + 12 + subheader))
        }
        (0, kind) => Ok(Inner::Ip(typed(data, start, kind)?)),
        _ => Err(Skip::NotTcp),
    }
}

fn udp(data: &[u8]) -> Result<Inner, Skip> {
    let head: [u8; 8] = bytes(data, 0)?;
    let source = u16::from_be_bytes([head[0], head[1]]);
    let destination = u16::from_be_bytes([head[2], head[3]]);
    if VXLAN_PORTS.contains(&destination) {
        // The flag that says that there is a network identifier is always set. The others are reserved and
        // ignored, because extensions use them (RFC 7348 §5).
        let [flags, ..] = bytes::<8>(data, 8)?;
        return match flags & 0x08 {
            0 => Err(Skip::NotTcp),
            _ => Ok(Inner::Ethernet(16)),
        };
    }
    match (source, destination) {
        (_, GENEVE_PORT) => geneve(data),
        (GTP_U_PORT, _) | (_, GTP_U_PORT) => gtp_u(data),
        _ => Err(Skip::NotTcp),
    }
}

/// RFC 8926 §3.4.
fn geneve(data: &[u8]) -> Result<Inner, Skip> {
    let head: [u8; 8] = bytes(data, 8)?;
    if head[0] >> 6 != 0 {
        return Err(Skip::NotTcp);
    }
    let start = 16 + usize::from(head[0] & 0x3f) * 4;
    match u16::from_be_bytes([head[2], head[3]]) {
        BRIDGED_ETHERNET => Ok(Inner::Ethernet(start)),
        IPV4 | IPV6 => Ok(Inner::Ip(start)),
        _ => Err(Skip::NotTcp),
    }
}

/// 3GPP TS 29.281 §5.
fn gtp_u(data: &[u8]) -> Result<Inner, Skip> {
    let [flags, message, ..] = bytes::<8>(data, 8)?;
    // Version 1 of GTP, and a packet of a user.
    if flags >> 4 != 3 || message != 255 {
        return Err(Skip::NotTcp);
    }
    let mut start = 16;
    if flags & 7 != 0 {
        let [.., mut next] = bytes::<4>(data, start)?;
        start += 4;
        if flags & 4 == 0 {
            next = 0;
        }
        for _ in 0..MAX_EXTENSIONS {
            if next == 0 {
                return Ok(Inner::Ip(start));
            }
            let length = usize::from(bytes::<1>(data, start)?[0]) * 4;
            if length == 0 {
                return Err(Skip::Malformed);
            }
            start += length;
            next = bytes::<1>(data, start - 1)?[0];
        }
        return Err(Skip::Malformed);
    }
    Ok(Inner::Ip(start))
}
