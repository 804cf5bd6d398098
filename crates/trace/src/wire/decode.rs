//! A frame through all its headers.

use super::ip::Datagram;
use super::link::Network;
use super::packet::{Packet, Skip};
use super::{ip, link, tcp, tunnel};
use crate::read::{Frame, Nanos};

/// Tunnels in tunnels that are followed: a mirrored packet of an overlay in a mobile network has three.
const MAX_TUNNELS: usize = 4;

/// Decodes a frame. What it holds in a tunnel is decoded as if it were there without (see
/// docs/reference/annotations.md for the tunnels).
///
/// # Errors
/// The reason to skip it, where it holds no (whole) TCP header.
// Inlined all the way, or the packet is written and copied twice: that took four times as long.
#[inline(always)]
pub fn decode(frame: &Frame<'_>) -> Result<Packet, Skip> {
    let network = link::network(frame)?;
    match ip::datagram(&network)? {
        ip if ip.protocol == ip::TCP => tcp::packet(frame.at, frame.outbound, network.framing, &ip),
        _ => tunnelled(frame.at, frame.outbound, network),
    }
}

/// The Ethernet type of a frame whose link layer has one.
pub fn ethernet_type(frame: &Frame<'_>) -> Option<u16> {
    link::ethernet_type(frame)
}

/// Where the outermost IP packet begins in the frame's bytes.
pub fn ip_start(frame: &Frame<'_>) -> Option<usize> {
    let network = link::network(frame).ok()?;
    frame.data.len().checked_sub(network.data.len())
}

/// The protocol of a frame's outermost IP packet.
pub fn ip_protocol(frame: &Frame<'_>) -> Option<u8> {
    let network = link::network(frame).ok()?;
    ip::datagram(&network)
        .ok()
        .map(|datagram| datagram.protocol)
}

/// The TCP packet in a tunnel, or behind an authentication header.
#[cold]
fn tunnelled(at: Nanos, outbound: Option<bool>, network: Network<'_>) -> Result<Packet, Skip> {
    let (network, ip) = carried(network)?;
    tcp::packet(at, outbound, network.framing, &ip)
}

/// The IP packet with TCP in a frame's outermost one: this itself, or one in a tunnel.
pub(super) fn with_tcp(network: Network<'_>) -> Result<(Network<'_>, Datagram<'_>), Skip> {
    match ip::datagram(&network)? {
        ip if ip.protocol == ip::TCP => Ok((network, ip)),
        _ => carried(network),
    }
}

/// The IP packet with TCP in a tunnel, or behind an authentication header.
fn carried(mut network: Network<'_>) -> Result<(Network<'_>, Datagram<'_>), Skip> {
    for tunnels in 0.. {
        let ip = ip::datagram(&network)?.authenticated()?;
        if ip.protocol == ip::TCP {
            return Ok((network, ip));
        }
        if tunnels == MAX_TUNNELS {
            break;
        }
        network = tunnel::inner(network.framing, &ip)?;
    }
    Err(Skip::Malformed)
}
