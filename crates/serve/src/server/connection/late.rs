//! How far a transfer is behind a rate that bounds it.
//!
//! `SO_MAX_PACING_RATE` at the rate never makes up for what a network missed that was slower for a while. So
//! the kernel is asked for a fifth more, as the clamp leaves it, until nothing is missing any more.

use std::time::Duration;

use tokio::time::Instant;

/// The rate while something is missing, in thousandths.
const CATCHES_UP: u64 = 1_200;
/// What may be missing, as time at the rate: acknowledgements come in bursts.
const TOLERATED: Duration = Duration::from_millis(250);

/// A transfer beside its rate.
#[derive(Debug, Default)]
pub(super) struct Late {
    since: Option<Since>,
    is_late: bool,
}

/// A time, and what the rate and the transfer came to from then on.
#[derive(Debug)]
struct Since {
    at: Instant,
    /// In bit/s.
    rate: u64,
    acknowledged: u64,
    /// By how many bytes the transfer was behind at least: what was under way at the beginning.
    least: i64,
}

impl Late {
    /// The transfer begins again, or has another rate.
    pub fn restart(&mut self) {
        *self = Self::default();
    }

    /// At this time so many bytes were acknowledged, and the rate in bit/s is this.
    pub fn note(&mut self, now: Instant, rate: u64, acknowledged: u64) {
        let since = self.since.get_or_insert(Since {
            at: now,
            rate,
            acknowledged,
            least: 0,
        });
        if since.rate != rate {
            return self.restart();
        }
        let due = |time: Duration| {
            let bytes = time.as_nanos().saturating_mul(u128::from(rate)) / 8_000_000_000;
            i64::try_from(bytes).unwrap_or(i64::MAX)
        };
        let passed = acknowledged.saturating_sub(since.acknowledged);
        let behind = due(now - since.at).saturating_sub_unsigned(passed);
        since.least = since.least.min(behind);
        let missing = behind.saturating_sub(since.least);
        self.is_late = missing > if self.is_late { 0 } else { due(TOLERATED) };
    }

    /// The rate that the kernel is asked for, in place of this one.
    pub fn asked(&self, rate: u64) -> u64 {
        match self.is_late {
            true => rate.saturating_mul(CATCHES_UP) / 1_000,
            false => rate,
        }
    }
}

#[cfg(test)]
mod tests;
