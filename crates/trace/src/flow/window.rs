//! The receive window that a packet announces.

use crate::wire::{Flags, Packet};

/// The receive window in bytes that a packet announces; `None` where its scale is not known.
///
/// `scale` is what the SYN of the packet's sender offered, and `other` what that of the other endpoint did:
/// outer `None` where the SYN was not captured, inner where it had no scale.
#[inline]
pub fn announced_window(
    packet: &Packet,
    scale: Option<Option<u8>>,
    other: Option<Option<u8>>,
) -> Option<u64> {
    let window = u64::from(packet.window);
    if packet.flags.has(Flags::SYN) {
        return Some(window);
    }
    // Scaled only if both offered to (RFC 7323 §2.2).
    match (scale, other) {
        (Some(Some(scale)), Some(Some(_))) => Some(window << scale.min(14)),
        (Some(None), Some(_)) | (Some(_), Some(None)) => Some(window),
        // A closed window is closed whatever its scale.
        _ => (window == 0).then_some(0),
    }
}

/// Whether the scale of both endpoints' windows is known, from what their SYNs offered as for
/// [`announced_window`].
#[inline]
pub(super) fn scale_is_known(scales: [Option<Option<u8>>; 2]) -> bool {
    scales.iter().all(Option::is_some)
}
