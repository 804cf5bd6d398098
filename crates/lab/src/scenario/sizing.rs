//! Sizes for `auto`: the limiters' own advice, but at least the size that an initial window needs.

use tidegate_limiter::{Nanos, Rate, sizing};

/// Bytes of a full packet.
const PACKET: u32 = 1500;
/// With a smaller size, a part of the initial window would be lost at once.
const LEAST: u64 = 10 * PACKET as u64;
/// No queue needs more than a terabyte.
const MOST: u64 = 1 << 40;

/// A bandwidth-delay product: of links, and of policers and shapers as in [BCPQP §6.1].
pub(super) fn bdp(rate: Rate, rtt: Nanos) -> u64 {
    sizing::bdp(rate, rtt).clamp(LEAST, MOST)
}

/// The size at which both Reno and CUBIC reach their average rate.
pub(super) fn phantom(rate: Rate, rtt: Nanos) -> u64 {
    sizing::correct_rate(rate, sizing::Path { rtt, mss: PACKET }).clamp(LEAST, MOST)
}

/// The same if burst control keeps bursts from filling the queue.
pub(super) fn controlled(rate: Rate, rtt: Nanos) -> u64 {
    sizing::phantom_queue(rate, sizing::Path { rtt, mss: PACKET }).clamp(10 * LEAST, MOST)
}
