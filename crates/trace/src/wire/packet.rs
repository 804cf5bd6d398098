//! A TCP packet, and why a frame gives none.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::options::{Flags, Options};
use crate::read::Nanos;

/// One end of a connection. IPv4 addresses are held as IPv4-mapped IPv6 addresses (RFC 4291
/// §2.5.5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    address: u128,
    port: u16,
}

impl Endpoint {
    pub(super) fn v4(address: [u8; 4], port: u16) -> Self {
        Self {
            address: 0xffff_0000_0000 | u128::from(u32::from_be_bytes(address)),
            port,
        }
    }

    pub(super) fn v6(address: [u8; 16], port: u16) -> Self {
        Self {
            address: u128::from_be_bytes(address),
            port,
        }
    }

    /// The address, IPv4 where it is one.
    pub fn ip(self) -> IpAddr {
        Ipv6Addr::from(self.address).to_canonical()
    }

    /// The TCP port.
    pub fn port(self) -> u16 {
        self.port
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(socket: SocketAddr) -> Self {
        match socket.ip() {
            IpAddr::V4(ip) => Self::v4(ip.octets(), socket.port()),
            IpAddr::V6(ip) => Self::v6(ip.octets(), socket.port()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::new(self.ip(), self.port).fmt(f)
    }
}

/// A TCP packet as the annotator wants it. It may be a super-packet, handed to or by the network
/// card in one piece: then `payload` exceeds what any wire packet carries.
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    /// When it was captured.
    pub at: Nanos,
    /// Whether the capturing host sent it, where the capture says so.
    pub outbound: Option<bool>,
    /// The sender.
    pub src: Endpoint,
    /// The receiver.
    pub dst: Endpoint,
    /// Sequence number of the first payload byte (of the SYN, where it is one).
    pub seq: u32,
    /// Acknowledgement number; valid if the ACK flag is set.
    pub ack: u32,
    /// The TCP flags.
    pub flags: Flags,
    /// The window field, not yet scaled.
    pub window: u16,
    /// Payload bytes, by the lengths that the headers state; the capture may have kept fewer.
    pub payload: u32,
    /// Bytes of the IP and TCP headers with their options.
    pub headers: u16,
    /// Bytes around the IP packet: link header and tags, and the frame check sequence. Ethernet's
    /// where the capture has not kept the link layer.
    pub framing: u16,
    /// The IPv4 identification; 0 in IPv6.
    pub ip_id: u16,
    /// The time to live, or the hop limit.
    pub hops: u8,
    /// Whether the frame was shorter on the wire than the packet in it: a mirror or tap cut it.
    pub sliced: bool,
    /// The TCP options.
    pub options: Options,
}

/// Why a frame gives no TCP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// Not IP: ARP, spanning tree and their like.
    NotIp,
    /// IP, but not TCP.
    NotTcp,
    /// A part of a fragmented IP packet with TCP.
    Fragment,
    /// The capture kept too few bytes to see the TCP flags.
    Cut,
    /// Headers that contradict themselves.
    Malformed,
}
