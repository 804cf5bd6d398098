//! Round-trip time and retransmission timeout, RFC 6298 as in Linux (`tcp_rtt_estimator`).

use tidegate_limiter::Nanos;

use crate::SECOND;

#[cfg(test)]
mod tests;

/// Longest retransmission timeout, RFC 6298 §2.5 leaves it above 60 s (Linux `TCP_RTO_MAX`).
pub(crate) const MAX_RTO: Nanos = 120 * SECOND;
/// Timeout before there is a sample, RFC 6298 §2.1.
pub(crate) const INITIAL_RTO: Nanos = SECOND;
/// Timeout as data begins without a sample, because the SYN was sent again: RFC 6298 §5.7 (Linux `TCP_TIMEOUT_FALLBACK`).
const FALLBACK_RTO: Nanos = 3 * SECOND;
/// How long the smallest round trip is remembered (Linux `tcp_min_rtt_wlen`).
const MIN_RTT_WINDOW: Nanos = 300 * SECOND;

/// The state of the round-trip estimation.
#[derive(Debug, Clone)]
pub(super) struct RoundTrip {
    min_rto: Nanos,
    smoothed: Option<Nanos>,
    /// Mean deviation, and its maximum over a round trip.
    deviation: i64,
    deviation_max: i64,
    /// The addition to the smoothed round trip. It follows the largest deviation of a round trip,
    /// up at once and down by a quarter, and never falls below the smallest timeout. So the timeout
    /// is never below the round trip plus 200 ms.
    variance: i64,
    /// The end of the round trip after which `deviation_max` starts again.
    round_end: u64,
    rto: Nanos,
    smallest: Option<(Nanos, Nanos)>,
}

impl RoundTrip {
    pub(super) fn new(min_rto: Nanos) -> Self {
        Self {
            min_rto: min_rto.min(MAX_RTO),
            smoothed: None,
            deviation: 0,
            deviation_max: 0,
            variance: 0,
            round_end: 0,
            rto: INITIAL_RTO.max(min_rto).min(MAX_RTO),
            smallest: None,
        }
    }

    /// Smoothed round trip.
    pub(super) fn smoothed(&self) -> Option<Nanos> {
        self.smoothed
    }

    /// The smallest of the last five minutes.
    pub(super) fn smallest(&self) -> Option<Nanos> {
        self.smallest.map(|(rtt, _)| rtt)
    }

    /// Retransmission timeout, doubled for each time that it fired.
    pub(super) fn rto(&self) -> Nanos {
        self.rto
    }

    /// Lower bound of the timeout.
    pub(super) fn min_rto(&self) -> Nanos {
        self.min_rto
    }

    /// The handshake gave no sample.
    pub(super) fn fall_back(&mut self) {
        self.rto = FALLBACK_RTO.max(self.min_rto);
    }

    /// Doubles the timeout, RFC 6298 §5.5.
    pub(super) fn back_off(&mut self) {
        self.rto = self.rto.saturating_mul(2).min(MAX_RTO);
    }

    /// A sample only for the smallest round trip.
    pub(super) fn sample_smallest(&mut self, now: Nanos, rtt: Nanos) {
        match self.smallest {
            Some((smallest, at)) if rtt > smallest && now.saturating_sub(at) <= MIN_RTT_WINDOW => {}
            _ => self.smallest = Some((rtt, now)),
        }
    }

    /// A sample, when bytes before `una` are acknowledged and those before `next` are sent. The
    /// timeout is computed again, so that it is no longer backed off, RFC 6298 §5.7.
    pub(super) fn sample(&mut self, rtt: Nanos, una: u64, next: u64) {
        let rtt = i64::try_from(rtt)
            .unwrap_or(i64::MAX / 16)
            .min(i64::MAX / 16);
        let min = self.min_rto as i64;
        match self.smoothed {
            Some(smoothed) => {
                let mut error = rtt - smoothed as i64;
                // 7/8 of the old, 1/8 of the new.
                self.smoothed = Some((smoothed as i64 + (error >> 3)).max(1) as Nanos);
                if error < 0 {
                    error = -error - self.deviation;
                    // A shorter round trip is no reason for a longer timeout: Linux follows it with
                    // only an eighth of the usual gain (Eifel, RFC 3522's companion).
                    if error > 0 {
                        error >>= 3;
                    }
                } else {
                    error -= self.deviation;
                }
                self.deviation += error >> 2;
                // Linux keeps four times the mean deviation in one variable: so here.
                let four = self.deviation.saturating_mul(4);
                if four > self.deviation_max {
                    self.deviation_max = four;
                    self.variance = self.variance.max(four);
                }
                if una > self.round_end {
                    if self.deviation_max < self.variance {
                        self.variance -= (self.variance - self.deviation_max) >> 2;
                    }
                    self.round_end = next;
                    self.deviation_max = min;
                }
            }
            None => {
                self.smoothed = Some(rtt.max(1) as Nanos);
                // RFC 6298 §2.2: half of the sample, so that the timeout is three times it.
                self.deviation = rtt / 2;
                self.variance = (rtt * 2).max(min);
                self.deviation_max = self.variance;
                self.round_end = next;
            }
        }
        let rto = self
            .smoothed
            .unwrap_or(0)
            .saturating_add(self.variance.max(0) as Nanos);
        self.rto = rto.min(MAX_RTO);
    }
}
