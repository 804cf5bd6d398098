//! TCP (RFC 9293) and its options.

use super::ip::{Address, Datagram};
use super::{Endpoint, Packet, Skip, bytes};
use crate::read::Nanos;

/// TCP's control bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronises sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Resets the connection.
    pub const RST: u8 = 0x04;
    /// The sender has nothing more to add for now.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number is valid.
    pub const ACK: u8 = 0x10;

    /// Whether any of these bits is set.
    #[inline]
    pub fn has(self, bits: u8) -> bool {
        self.0 & bits != 0
    }
}

/// The selective acknowledgements of one packet (RFC 2018): up to four ranges of received bytes,
/// each from its first sequence number to the one behind its last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sacks {
    blocks: [(u32, u32); 4],
    count: u8,
}

impl Sacks {
    /// The first four of these blocks.
    pub fn new(blocks: &[(u32, u32)]) -> Self {
        let mut sacks = Self::default();
        for (slot, &block) in sacks.blocks.iter_mut().zip(blocks) {
            *slot = block;
            sacks.count += 1;
        }
        sacks
    }

    /// The blocks, in the option's order.
    #[inline]
    pub fn blocks(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.count)]
    }
}

/// The TCP options that the annotator uses, as far as the capture kept them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size that the sender of a SYN offers to receive.
    pub mss: Option<u16>,
    /// Window scale of a SYN.
    pub window_scale: Option<u8>,
    /// TSval and TSecr (RFC 7323).
    pub timestamps: Option<(u32, u32)>,
    /// Selective acknowledgements.
    pub sacks: Sacks,
    /// Whether the capture cut the options, so that some may be missing here.
    pub cut: bool,
}

/// The largest super-packets (IPv6 BIG TCP) have 512 KiB; what claims more is no packet.
const MAX_SEGMENT: usize = 512 << 10;

#[inline(always)]
pub(super) fn packet(at: Nanos, framing: u16, ip: &Datagram<'_>) -> Result<Packet, Skip> {
    // Up to the flags; the window is worth having, but not at the price of the packet.
    let head: &[u8; 14] = super::header(ip.data, 0)?;
    let header = usize::from(head[12] >> 4) * 4;
    if header < 20 || header > ip.length || ip.length > MAX_SEGMENT {
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
    let options = match header {
        20 => Options::default(),
        _ => options(
            ip.data
                .get(20..header.min(ip.data.len()))
                .unwrap_or_default(),
            header - 20,
        ),
    };
    Ok(Packet {
        at,
        src: end(&ip.source, source),
        dst: end(&ip.destination, destination),
        seq: u32::from_be_bytes(bytes(head, 4)?),
        ack: u32::from_be_bytes(bytes(head, 8)?),
        flags: Flags(head[13]),
        window: bytes(ip.data, 14).map_or(u16::MAX, u16::from_be_bytes),
        payload: u32::try_from(ip.length - header).map_err(|_| Skip::Malformed)?,
        headers: u16::try_from(ip.header + header).map_err(|_| Skip::Malformed)?,
        framing,
        ip_id: ip.id,
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
        found.timestamps = words(rest);
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
            (8, 10) => found.timestamps = words(value),
            (5, 10 | 18 | 26 | 34) => {
                found.sacks.count = 0;
                for (block, slot) in value.chunks_exact(8).zip(&mut found.sacks.blocks) {
                    if let Some(range) = words(block) {
                        *slot = range;
                        found.sacks.count += 1;
                    }
                }
            }
            _ => {}
        }
        data = data.get(length..).unwrap_or_default();
    }
}

#[inline(always)]
fn words(value: &[u8]) -> Option<(u32, u32)> {
    let [a, b, c, d, e, f, g, h] = *value.first_chunk::<8>()?;
    (value.len() == 8).then_some((
        u32::from_be_bytes([a, b, c, d]),
        u32::from_be_bytes([e, f, g, h]),
    ))
}
