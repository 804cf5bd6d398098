//! The ways to pace a connection, and when a response may write its next bytes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How a connection is kept to its rate in the throttling phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// A bound on the congestion window [Trickle §2].
    Trickle,
    /// Application pacing: blocks of so many bytes, each written at once when the token bucket has enough for it [Trickle §2].
    Application(u32),
    /// The kernel spaces packets (`SO_MAX_PACING_RATE`).
    MaxPacingRate,
    /// As fast as TCP can.
    None,
}

/// No such way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no way to pace: use trickle, application-64k, application-16k, max-pacing-rate or none"
)]
pub struct WayError(String);

impl FromStr for Way {
    type Err = WayError;

    fn from_str(text: &str) -> Result<Self, WayError> {
        Ok(match text {
            "trickle" => Self::Trickle,
            "application-64k" => Self::Application(64 << 10),
            "application-16k" => Self::Application(16 << 10),
            "max-pacing-rate" => Self::MaxPacingRate,
            "none" => Self::None,
            _ => return Err(WayError(text.to_owned())),
        })
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trickle => f.pad("trickle"),
            Self::Application(block) => f.pad(&format!("application-{}k", block >> 10)),
            Self::MaxPacingRate => f.pad("max-pacing-rate"),
            Self::None => f.pad("none"),
        }
    }
}

/// What a response may do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Write so many bytes, at once.
    Write(usize),
    /// Nothing before this time since the throttling phase began.
    Wait(Duration),
}

/// Bytes that go out when nobody holds them back: what is read from the disk at once.
pub(super) const UNPACED: usize = 64 << 10;

/// The pace of one response in its throttling phase.
pub(super) trait Turns: fmt::Debug + Send + Sync {
    /// What may be done at `now`, a time since the phase began, of `left` bytes.
    fn next(&mut self, now: Duration, left: u64) -> Turn;
    /// So many bytes were written.
    fn wrote(&mut self, bytes: usize);
}

/// Application pacing: a bucket of tokens that fills at a rate, and is never full, so that what was not sent in time is made up for as soon
/// as the network takes it [Trickle §2].
#[derive(Debug)]
pub(super) struct Blocks {
    bytes_per_second: u64,
    block: u32,
    sent: u64,
}

impl Blocks {
    pub fn new(bytes_per_second: u64, block: u32) -> Self {
        Self {
            bytes_per_second: bytes_per_second.max(1),
            block,
            sent: 0,
        }
    }
}

impl Turns for Blocks {
    fn next(&mut self, now: Duration, left: u64) -> Turn {
        let block = u64::from(self.block).min(left);
        let nanos = u128::from(self.sent + block) * 1_000_000_000;
        let due = nanos.div_ceil(u128::from(self.bytes_per_second));
        let due = Duration::from_nanos(u64::try_from(due).unwrap_or(u64::MAX));
        if now < due {
            return Turn::Wait(due);
        }
        Turn::Write(block as usize)
    }

    fn wrote(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }
}

/// No pace in the application: the socket keeps it, or nobody.
#[derive(Debug)]
pub(super) struct Free;

impl Turns for Free {
    fn next(&mut self, _: Duration, left: u64) -> Turn {
        Turn::Write(UNPACED.min(usize::try_from(left).unwrap_or(UNPACED)))
    }

    fn wrote(&mut self, _: usize) {}
}
