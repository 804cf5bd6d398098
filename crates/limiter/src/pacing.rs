//! How a server of progressive video keeps a rate [Trickle §2]: the ways to pace, when a server may write how much,
//! and what a viewer sees of it.

mod blocks;
mod bursts;
pub mod playback;
mod trickle;
mod way;
mod writer;

pub use trickle::{HEADROOM, Target, Trickle};
pub use way::{Way, WayError};
pub use writer::{Hold, Packets, Phase, Ready, Settings, Writer};

use crate::{Nanos, Rate};

/// The rate R of the throttling phase, in thousandths of the encoding rate; the paper's is 1250.
#[must_use]
pub fn throttled_rate(encoding: Rate, per_mille: u64) -> Rate {
    let rate = u128::from(encoding.bits_per_second()) * u128::from(per_mille) / 1000;
    Rate::from_bits_per_second(u64::try_from(rate).unwrap_or(u64::MAX))
}

/// The time in which this many bytes come at a rate of bytes per second, above 0.
fn time_of(rate: u64, bytes: u64) -> Nanos {
    let time = u128::from(bytes) * 1_000_000_000;
    u64::try_from(time.div_ceil(u128::from(rate))).unwrap_or(Nanos::MAX)
}
