//! A frame through all its headers.

use super::packet::{Packet, Skip};
use super::{ip, link, tcp};
use crate::read::Frame;

/// Decodes a frame.
///
/// # Errors
/// The reason to skip it, where it holds no (whole) TCP header.
// Inlined all the way, or the packet is written and copied twice: that took four times as long.
#[inline(always)]
pub fn decode(frame: &Frame<'_>) -> Result<Packet, Skip> {
    let network = link::network(frame)?;
    let ip = ip::datagram(&network)?;
    tcp::packet(frame.at, network.framing, &ip)
}
