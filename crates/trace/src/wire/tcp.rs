//! TCP (RFC 9293) and its options.

use super::bytes::{bytes, header};
use super::ip::{Address, Datagram};
use super::options::{Flags, Options, SackBlock, Sacks, Timestamps};
use super::packet::{Endpoint, Packet, Skip};
use crate::read::Nanos;

/// The largest super-packets (IPv6 BIG TCP) have 512 KiB; what claims more is no packet.
const MAX_SEGMENT: usize = 512 << 10;

#[inline(always)]
pub(super) fn packet(
    at: Nanos,
    outbound: Option<bool>,
    framing: u16,
    ip: &Datagram<'_>,
) -> Result<Packet, Skip> {
    // Up to the flags; the window is worth having, but not at the price of the packet.
    let head: &[u8; 14] = header(ip.data, 0)?;
    let length = usize::from(head[12] >> 4) * 4;
    if length < 20 || length > ip.length || ip.length > MAX_SEGMENT {
        return Err(Skip::Malformed);
    }
    // A mirror or tap keeps headers: otherwise the length is wrong, not the frame.
    if ip.sliced && length > ip.data.len() {
        return Err(Skip::Malformed);
    }
    let (source, destination) = (
        u16::from_be_bytes([head[0], head[1]]),
        u16::from_be_bytes([head[2], head[3]]),
    );
    let end = |address: &Address, port| match *address {
        Address::V4(address) => Endpoint::v4(address, port),
        Address::V6(address) => Endpoint::v6(address, port),
    };
    let options = match length {
        20 => Options::default(),
        _ => options(
            ip.data
                .get(20..length.min(ip.data.len()))
                .unwrap_or_default(),
            length - 20,
        ),
    };
    Ok(Packet {
        at,
        outbound,
        src: end(&ip.source, source),
        dst: end(&ip.destination, destination),
        seq: u32::from_be_bytes(bytes(head, 4)?),
        ack: u32::from_be_bytes(bytes(head, 8)?),
        flags: Flags(head[13]),
        window: bytes(ip.data, 14).map_or(u16::MAX, u16::from_be_bytes),
        payload: u32::try_from(ip.length - length).map_err(|_| Skip::Malformed)?,
        headers: u16::try_from(ip.header + length).map_err(|_| Skip::Malformed)?,
        framing,
        ip_id: ip.id,
        hops: ip.hops,
        sliced: ip.sliced,
        options,
    })
}

/// Parses options; `length` is what the header says they are long, of which `data` was kept.
#[inline(always)]
fn options(data: &[u8], length: usize) -> Options {
    let mut found = Options {
        cut: data.len() < length,
        ..Options::default()
    };
    // What nearly every data packet has, alone and aligned (RFC 7323 appendix A).
    if let Some([1, 1, 8, 10, rest @ ..]) = data.first_chunk::<12>() {
        found.timestamps = timestamps(rest);
        if data.len() > 12 {
            walk(&data[12..], &mut found);
        }
    } else {
        walk(data, &mut found);
    }
    found
}

fn walk(mut data: &[u8], found: &mut Options) {
    while let [kind, rest @ ..] = data {
        match kind {
            0 => return,
            1 => {
                data = rest;
                continue;
            }
            _ => {}
        }
        let Some(length) = rest.first().map(|&length| usize::from(length)) else {
            return;
        };
        if length < 2 {
            return;
        }
        let value = &data[2..length.min(data.len()).max(2)];
        match (kind, length) {
            (2, 4) => found.mss = value.try_into().ok().map(u16::from_be_bytes),
            (3, 3) => found.window_scale = value.first().copied(),
            (8, 10) => found.timestamps = timestamps(value),
            (5, 10 | 18 | 26 | 34) => {
                found.sacks = Sacks::default();
                value
                    .chunks_exact(8)
                    .filter_map(words)
                    .for_each(|[start, end]| found.sacks.push(SackBlock { start, end }));
            }
            _ => {}
        }
        data = data.get(length..).unwrap_or_default();
    }
}

#[inline(always)]
fn timestamps(value: &[u8]) -> Option<Timestamps> {
    words(value).map(|[value, echo]| Timestamps { value, echo })
}

#[inline(always)]
fn words(value: &[u8]) -> Option<[u32; 2]> {
    let [a, b, c, d, e, f, g, h] = *value.first_chunk::<8>()?;
    (value.len() == 8).then_some([
        u32::from_be_bytes([a, b, c, d]),
        u32::from_be_bytes([e, f, g, h]),
    ])
}
