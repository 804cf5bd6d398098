//! Trickle's bound on a congestion window [Trickle §2, Algorithm 1]: the same steps as in the kernel
//! (`crates/pace/bpf/pace.bpf.c`), for senders outside of it.

use super::Hold;
use crate::Nanos;

#[cfg(test)]
mod tests;

/// The bound is never smaller, so that losses can be found by duplicates [Trickle §2].
const FLOOR: u32 = 10;
/// The paper's bound over R times the round trip, in thousandths [Trickle §2].
pub const HEADROOM: u32 = 1200;
/// Thousandths.
const ONE: u128 = 1000;
const SECOND: u128 = 1_000_000_000;

/// The settings of the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// R in bytes per second.
    pub rate: u64,
    /// The bound over R times the round trip, in thousandths, such as [`HEADROOM`].
    pub headroom: u32,
    /// Leaves out the headroom while the connection is ahead of R, so that its average is R.
    pub hold_average: bool,
    /// Bytes that a server writes at once if its writes are throttled too.
    pub block: u64,
}

/// The bound on the window of a connection in its throttling phase.
#[derive(Debug, Clone)]
pub struct Trickle {
    target: Target,
    hold: Hold,
}

impl Trickle {
    /// A connection is clamped from the beginning of its phase.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self {
            target,
            hold: Hold::Clamped,
        }
    }

    /// What bounds the rate of the connection: the clamp, the clamp at its floor, or nothing while goodput
    /// is below R.
    #[must_use]
    pub fn hold(&self) -> Hold {
        self.hold
    }

    /// The bound in segments of `mss` bytes, for a smoothed round trip and the time and the bytes delivered since the
    /// phase began. Must be asked once in a round trip. Notes what bounds the rate: the bound does not hold while that is
    /// [`Hold::Behind`].
    pub fn segments(&mut self, mss: u32, rtt: Nanos, elapsed: Nanos, delivered: u64) -> u32 {
        let target = &self.target;
        let mss = u128::from(mss.max(1));
        let bytes = |time: Nanos| u128::from(target.rate) * u128::from(time) / SECOND;
        let (round, due, delivered) = (bytes(rtt), bytes(elapsed), u128::from(delivered));
        // The paper compares goodput, delivered over elapsed, with R. The last bytes cannot be
        // acknowledged yet, nor can bytes that a block waits for. Without an allowance for both, a
        // connection whose writes are throttled to R would always count as behind.
        let slack = round + u128::from(target.block).max(u128::from(FLOOR) * mss);
        let allowed = match self.hold {
            Hold::Behind => 0,
            _ => slack,
        };
        let held = target.hold_average && delivered > due + slack;
        let segments = if held {
            round / mss
        } else {
            (round.saturating_mul(u128::from(target.headroom)) / ONE + mss / 2) / mss
        };
        let segments = u32::try_from(segments).unwrap_or(u32::MAX);
        self.hold = if due > delivered + allowed {
            Hold::Behind
        } else if segments < FLOOR {
            Hold::Floor
        } else {
            Hold::Clamped
        };
        segments.max(FLOOR)
    }
}
