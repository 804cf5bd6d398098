//! A queue drawn by a hash, and another one after a while.

use crate::Nanos;

/// A flow without a queue shares another one after 2^33 ns, which are 8.6 s.
const WHILE: u32 = 33;

/// Another hash for each while.
pub(super) fn drawn(hash: u32, now: Nanos) -> u32 {
    let epoch = (now >> WHILE) as u32;
    let drawn = (hash ^ epoch.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b);
    (drawn ^ drawn >> 15).wrapping_mul(0xc2b2_ae35)
}

/// A hash as a fraction of a number.
pub(super) fn fraction(hash: u32, of: u16) -> u16 {
    ((u64::from(hash) * u64::from(of)) >> 32) as u16
}
