//! The way back: TCP packets and datagrams to frames, and frames to a capture.
//!
//! For simulations, benchmarks and tests. What is written is plain enough for every reader and
//! sound enough for a strict one: lengths and checksums are right, payloads are zeros.

pub mod pcapng;

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};

use crate::read::{LinkType, Nanos};
use crate::wire::{Flags, Sacks, Timestamps};

/// Where a packet goes from and to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// The sender. Both ends must be of the same IP version.
    pub src: SocketAddr,
    /// The receiver.
    pub dst: SocketAddr,
}

/// A TCP packet to be written as an Ethernet frame.
///
/// ```
/// use tidegate_trace::read::LinkType;
/// use tidegate_trace::wire::Timestamps;
/// use tidegate_trace::write::{Ends, PcapWriter, Resolution, TcpFrame};
///
/// let frame = TcpFrame {
///     seq: 1,
///     payload: 1448,
///     timestamps: Some(Timestamps { value: 7, echo: 3 }),
///     ..TcpFrame::new(Ends { src: ([10, 0, 0, 1], 443).into(), dst: ([10, 0, 0, 2], 50_000).into() })
/// };
/// let mut bytes = Vec::new();
/// let wire_len = frame.encode(&mut bytes);
/// let mut capture = PcapWriter::new(Vec::new(), LinkType::ETHERNET, Resolution::Nanos)?;
/// capture.frame(1_000_000_000, &bytes, wire_len)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct TcpFrame {
    /// The sender. Both ends must be of the same IP version.
    pub src: SocketAddr,
    /// The receiver.
    pub dst: SocketAddr,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// The TCP flags, of [`Flags`]' constants.
    pub flags: u8,
    /// The flag of accurate ECN (AE), RFC 9768, which is not in the byte of the others.
    pub accurate: bool,
    /// The window field, as scaled for the wire.
    pub window: u16,
    /// Payload bytes, all zero. More than the IP length field can state is written as BIG TCP
    /// super-packets are: with a length of 0.
    pub payload: u32,
    /// The IPv4 identification.
    pub ip_id: u16,
    /// The time to live, or the hop limit.
    pub hops: u8,
    /// Differentiated services code point, below 64.
    pub dscp: u8,
    /// ECN field, below 4 (RFC 3168).
    pub ecn: u8,
    /// An 802.1Q tag with this VLAN.
    pub vlan: Option<u16>,
    /// Maximum segment size option.
    pub mss: Option<u16>,
    /// Window scale option.
    pub window_scale: Option<u8>,
    /// SACK-permitted option.
    pub sack_permitted: bool,
    /// Timestamp option: TSval and TSecr.
    pub timestamps: Option<Timestamps>,
    /// SACK option, with as many of these blocks as the header has space for.
    pub sacks: Sacks,
    /// Bytes of the frame to keep, as a capture with this snapshot length would.
    pub snaplen: usize,
}

/// The longest TCP header, RFC 9293 §3.1.
const MAX_HEADER: usize = 60;
/// TCP's protocol number.
const TCP: u8 = 6;
/// UDP's protocol number.
const UDP: u8 = 17;
/// The hop limit that most systems begin with.
const HOPS: u8 = 64;

impl TcpFrame {
    /// A bare acknowledgement of number 0, to be given the fields that matter.
    pub fn new(Ends { src, dst }: Ends) -> Self {
        Self {
            src,
            dst,
            seq: 0,
            ack: 0,
            flags: Flags::ACK,
            window: u16::MAX,
            payload: 0,
            ip_id: 0,
            hops: HOPS,
            dscp: 0,
            ecn: 0,
            vlan: None,
            mss: None,
            window_scale: None,
            sack_permitted: false,
            timestamps: None,
            accurate: false,
            sacks: Sacks::default(),
            snaplen: usize::MAX,
        }
    }

    /// Writes the frame over what the buffer held. Returns its length on the wire in bytes,
    /// without frame check sequence, as captures state it.
    ///
    /// # Panics
    /// If one end has an IPv4 address and the other an IPv6 address.
    pub fn encode(&self, out: &mut Vec<u8>) -> u32 {
        let ip = Ip {
            src: self.src.ip(),
            dst: self.dst.ip(),
            protocol: TCP,
            class: self.dscp << 2 | self.ecn & 3,
            id: self.ip_id,
            hops: self.hops,
            vlan: self.vlan,
        };
        let tcp = ip.begin(out);
        self.header(out);
        let length = out.len() - tcp + self.payload as usize;
        // The payload's zeros add nothing. RFC 9293 §3.1
        let check = checksum(ip.end(out, tcp, length));
        out[tcp + 16..tcp + 18].copy_from_slice(&check);
        out.resize((tcp + length).min(self.snaplen), 0);
        (tcp + length) as u32
    }

    /// Writes the TCP header, with a checksum of 0 and options aligned as Linux does.
    fn header(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend(
            [self.src.port(), self.dst.port()]
                .map(u16::to_be_bytes)
                .as_flattened(),
        );
        out.extend([self.seq, self.ack].map(u32::to_be_bytes).as_flattened());
        let [high, low] = self.window.to_be_bytes();
        out.extend([0, self.flags, high, low, 0, 0, 0, 0]);
        if let Some(mss) = self.mss {
            out.extend([2, 4]);
            out.extend(mss.to_be_bytes());
        }
        if let Some(Timestamps { value, echo }) = self.timestamps {
            out.extend(if self.sack_permitted { [4, 2] } else { [1, 1] });
            out.extend([8, 10]);
            out.extend([value, echo].map(u32::to_be_bytes).as_flattened());
        } else if self.sack_permitted {
            out.extend([1, 1, 4, 2]);
        }
        if let Some(scale) = self.window_scale {
            out.extend([1, 3, 3, scale]);
        }
        let space = (MAX_HEADER - 4 - (out.len() - start)) / 8;
        let blocks = self.sacks.blocks();
        let blocks = &blocks[..blocks.len().min(space)];
        if !blocks.is_empty() {
            out.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
        }
        for block in blocks {
            out.extend(
                [block.start, block.end]
                    .map(u32::to_be_bytes)
                    .as_flattened(),
            );
        }
        out[start + 12] = ((out.len() - start) as u8 / 4) << 4 | u8::from(self.accurate);
    }
}

/// A datagram to be written as an Ethernet frame.
#[derive(Debug, Clone, Copy)]
pub struct UdpFrame {
    /// The sender. Both ends must be of the same IP version.
    pub src: SocketAddr,
    /// The receiver.
    pub dst: SocketAddr,
    /// Payload bytes, all zero.
    pub payload: u16,
    /// The IPv4 identification.
    pub ip_id: u16,
    /// Differentiated services code point, below 64.
    pub dscp: u8,
    /// Bytes of the frame to keep, as a capture with this snapshot length would.
    pub snaplen: usize,
}

impl UdpFrame {
    /// A datagram without payload, to be given the fields that matter.
    pub fn new(Ends { src, dst }: Ends) -> Self {
        Self {
            src,
            dst,
            payload: 0,
            ip_id: 0,
            dscp: 0,
            snaplen: usize::MAX,
        }
    }

    /// Writes the frame over what the buffer held. Returns its length on the wire in bytes,
    /// without frame check sequence.
    ///
    /// # Panics
    /// If one end has an IPv4 address and the other an IPv6 address.
    pub fn encode(&self, out: &mut Vec<u8>) -> u32 {
        let ip = Ip {
            src: self.src.ip(),
            dst: self.dst.ip(),
            protocol: UDP,
            class: self.dscp << 2,
            id: self.ip_id,
            hops: HOPS,
            vlan: None,
        };
        let udp = ip.begin(out);
        let length = 8 + usize::from(self.payload);
        let field = u16::try_from(length).unwrap_or(0);
        let words = [self.src.port(), self.dst.port(), field, 0];
        out.extend(words.map(u16::to_be_bytes).as_flattened());
        let check = match checksum(ip.end(out, udp, length)) {
            // 0 would say that there is none, RFC 768.
            [0, 0] => [0xff, 0xff],
            check => check,
        };
        out[udp + 6..udp + 8].copy_from_slice(&check);
        out.resize((udp + length).min(self.snaplen), 0);
        (udp + length) as u32
    }
}

/// What is below TCP and UDP.
struct Ip {
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    class: u8,
    id: u16,
    hops: u8,
    vlan: Option<u16>,
}

impl Ip {
    /// Writes the headers over what the buffer held, without length and checksum. Returns where
    /// they end.
    fn begin(&self, out: &mut Vec<u8>) -> usize {
        out.clear();
        // Locally administered addresses.
        out.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        if let Some(vlan) = self.vlan {
            out.extend([0x81, 0]);
            out.extend(vlan.to_be_bytes());
        }
        let class = self.class;
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let [high, low] = self.id.to_be_bytes();
                out.extend([8, 0, 0x45, class, 0, 0, high, low]);
                out.extend([0x40, 0, self.hops, self.protocol, 0, 0]);
                out.extend([src.octets(), dst.octets()].as_flattened());
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                out.extend([0x86, 0xdd, 0x60 | class >> 4, class << 4, 0, 0, 0, 0]);
                out.extend([self.protocol, self.hops]);
                out.extend([src.octets(), dst.octets()].as_flattened());
            }
            _ => panic!("one end has an IPv4 address and the other an IPv6 address"),
        }
        out.len()
    }

    /// Completes the headers now that the transport header is there too, from `at` on, and of
    /// `length` bytes with payload. Returns the sum for the transport's checksum.
    fn end(&self, out: &mut [u8], at: usize, length: usize) -> u64 {
        let field = |length: usize| u16::try_from(length).unwrap_or(0).to_be_bytes();
        let addresses = if self.src.is_ipv4() {
            out[at - 18..at - 16].copy_from_slice(&field(20 + length));
            let check = checksum(sum(&out[at - 20..at]));
            out[at - 10..at - 8].copy_from_slice(&check);
            &out[at - 8..at]
        } else {
            out[at - 36..at - 34].copy_from_slice(&field(length));
            &out[at - 32..at]
        };
        // Over a pseudo-header.
        sum(addresses) + u64::from(self.protocol) + length as u64 + sum(&out[at..])
    }
}

/// The sum of 16-bit words of the Internet checksum, RFC 1071.
fn sum(bytes: &[u8]) -> u64 {
    bytes
        .chunks(2)
        .map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u64::from(low)))
        .sum()
}

fn checksum(mut sum: u64) -> [u8; 2] {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!sum as u16).to_be_bytes()
}

/// The unit of a capture's timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Resolution {
    /// Microseconds: what every tool reads.
    #[default]
    Micros,
    /// Nanoseconds.
    Nanos,
}

/// What libpcap's tools take for the longest packet.
const SNAPLEN: u32 = 262_144;

/// Writes a classic pcap file, little endian.
#[derive(Debug)]
pub struct PcapWriter<W> {
    out: W,
    /// Nanoseconds per unit of the second field.
    unit: u32,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the file header. The output is written to for every frame, so it should be buffered.
    ///
    /// # Errors
    /// Those of the output.
    pub fn new(mut out: W, link: LinkType, resolution: Resolution) -> io::Result<Self> {
        let (magic, unit) = match resolution {
            Resolution::Micros => (0xa1b2_c3d4, 1000),
            Resolution::Nanos => (0xa1b2_3c4d, 1),
        };
        // Version 2.4, and two unused fields.
        let words = [magic, 2 | 4 << 16, 0, 0, SNAPLEN, u32::from(link.0)];
        out.write_all(&words.map(u32::to_le_bytes).concat())?;
        Ok(Self { out, unit })
    }

    /// Writes a frame: the bytes that are kept of it, and its length on the wire.
    ///
    /// # Errors
    /// Those of the output; a time beyond the year 2106, which the format cannot state.
    pub fn frame(&mut self, at: Nanos, bytes: &[u8], wire_len: u32) -> io::Result<()> {
        let kept = bytes.len().min(SNAPLEN as usize);
        let seconds = u32::try_from(at / 1_000_000_000)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "time beyond 2106"))?;
        let part = (at % 1_000_000_000) as u32 / self.unit;
        let head = [seconds, part, kept as u32, wire_len].map(u32::to_le_bytes);
        self.out.write_all(head.as_flattened())?;
        self.out.write_all(&bytes[..kept])
    }

    /// Flushes the output and gives it back.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}
