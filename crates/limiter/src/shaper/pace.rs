//! When the next packet may leave.

use crate::{Meter, Nanos, Rate};

/// What a caller may come too late by without loss of rate. Tokens of this time are kept while
/// packets wait: the time was theirs. What a longer stall leaves is not made up for, since to do so
/// would be a burst.
pub(super) const LATENESS: Nanos = 10_000_000;

/// A token bucket that lets a packet go as soon as there are tokens for the largest so far, and
/// charges what it is. So the time of a release does not depend on which packet it will be: that is
/// only known then, since one of higher priority may come in between. Smaller packets are no later
/// for it than the rate demands: after each, only what it took is missing.
///
/// In every interval the packets that leave are at most r·Δt + max(burst, largest packet) bytes,
/// plus what was late; while packets wait, never less than r·Δt − largest packet.
#[derive(Debug)]
pub(super) struct Pace {
    meter: Meter,
    tokens: u64,
    burst: u64,
}

impl Pace {
    /// As after a long silence.
    pub(super) fn new(rate: Rate, burst: u64, now: Nanos) -> Self {
        Self {
            meter: Meter::new(rate, now),
            tokens: u64::MAX,
            burst,
        }
    }

    /// To be called when there is something to send after nothing was: only now it is known how
    /// much of the silence counts.
    pub(super) fn resume(&mut self, now: Nanos, largest: u32) {
        self.refill(now, self.burst.max(u64::from(largest)));
    }

    /// Whether a packet may leave. Only to be called while some wait.
    #[inline]
    pub(super) fn ready(&mut self, now: Nanos, largest: u32) -> bool {
        const BIT_TIMES_PER_BYTE: u64 = 8 * 1_000_000_000 / LATENESS;
        let late = self.meter.rate().bits_per_second() / BIT_TIMES_PER_BYTE;
        let full = self.burst.max(u64::from(largest));
        self.refill(now, full.saturating_add(late));
        self.tokens >= u64::from(largest)
    }

    /// Charges a packet that leaves: no more than the largest.
    #[inline]
    pub(super) fn spend(&mut self, bytes: u32) {
        self.tokens -= u64::from(bytes);
    }

    /// When a packet may leave, as far as is known: the time of the last refill if it may already.
    /// `None` if never, because the rate is 0.
    #[inline]
    pub(super) fn next(&self, largest: u32) -> Option<Nanos> {
        let missing = u64::from(largest).saturating_sub(self.tokens);
        let at = self.meter.at().checked_add(self.meter.until(missing))?;
        (at < Nanos::MAX).then_some(at)
    }

    pub(super) fn set_burst(&mut self, burst: u64) {
        self.burst = burst;
    }

    pub(super) fn set_rate(&mut self, now: Nanos, rate: Rate) {
        self.refill(now, u64::MAX);
        self.meter.set_rate(rate);
    }

    #[inline]
    fn refill(&mut self, now: Nanos, most: u64) {
        self.tokens = self.tokens.saturating_add(self.meter.advance(now));
        if self.tokens >= most {
            self.tokens = most;
            self.meter.forget();
        }
    }
}
