//! Datagrams at a constant rate.

use tidegate_limiter::{Nanos, Rate};

/// A sender of datagrams of one length.
#[derive(Debug)]
pub struct Datagrams {
    /// Length of the IP packet.
    pub bytes: u32,
    rate: u64,
    start: Nanos,
    stop: Nanos,
    /// Datagrams sent so far.
    pub sent: u64,
}

impl Datagrams {
    /// A sender at this rate of IP bytes, from start to stop.
    pub fn new(rate: Rate, bytes: u32, start: Nanos, stop: Option<Nanos>) -> Self {
        Self {
            bytes,
            rate: rate.bits_per_second().max(1),
            start,
            stop: stop.unwrap_or(Nanos::MAX),
            sent: 0,
        }
    }

    /// When the next one is due; `None` after the last. It is counted from the start, so that
    /// rounding does not add up.
    pub fn next_timeout(&self) -> Option<Nanos> {
        let bits = u128::from(self.sent) * u128::from(self.bytes) * 8;
        let elapsed = bits * 1_000_000_000 / u128::from(self.rate);
        let at = u128::from(self.start) + elapsed;
        (at < u128::from(self.stop)).then_some(at as Nanos)
    }
}
