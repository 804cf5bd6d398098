//! BBR's detector of policers: the long-term bandwidth.

use super::bandwidth;

#[cfg(test)]
mod tests;

/// An interval has at least this many rounds; after four times as many it is given up.
const MIN_ROUNDS: u32 = 4;
/// Lost of delivered segments, of 256, from which an interval is lossy: 20 %.
const LOSS_THRESHOLD: u64 = 50;
/// Two bandwidths are the same if they differ by at most this part of the former, ...
const RATIO: u64 = 8;
/// ... or by this many bytes per second.
const DIFFERENCE: u64 = 4000 / 8;
/// Rounds for which the bandwidth is held.
const HELD_ROUNDS: u32 = 48;
/// Milliseconds beyond which the kernel's microseconds would overflow.
const TOO_LONG: u64 = u32::MAX as u64 / 1000;

/// The input of the detector: an acknowledgement or a timeout.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    /// Segments were marked lost.
    pub losses: bool,
    pub app_limited: bool,
    /// A round begins.
    pub round_start: bool,
    /// Whether BBR is in PROBE_BW. Rounds are counted down only there.
    pub probing: bool,
    /// Delivered over the connection.
    pub delivered: u64,
    /// Lost over the connection.
    pub lost: u64,
    /// When segments were last delivered, in milliseconds.
    pub delivered_at: u64,
    pub mss: u32,
}

/// The conclusion of the detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Nothing,
    /// Two intervals agree: a policer's rate is known from now on.
    Policed,
    /// The bandwidth was held long enough: search for more.
    Released,
}

/// Between losses, when a policer's bucket is empty, the bandwidth is the policer's rate. Two
/// consecutive intervals with many losses and the same bandwidth count as a policer (Linux
/// `tcp_bbr.c`, `bbr_lt_bw_sampling`, after [Flach16]).
#[derive(Debug, Clone, Default)]
pub(super) struct LongTerm {
    sampling: bool,
    held: bool,
    /// The bandwidth of the interval before, or the one that is held; 0 if there is none.
    bandwidth: u32,
    /// Rounds of this interval, or rounds since the bandwidth is held.
    rounds: u32,
    /// The interval's start.
    delivered: u64,
    lost: u64,
    started: u64,
}

impl LongTerm {
    /// The policer's bandwidth, if there is one.
    pub(super) fn bandwidth(&self) -> Option<u32> {
        self.held.then_some(self.bandwidth)
    }

    /// Forgets everything (`bbr_reset_lt_bw_sampling`). The next loss sets the start of the
    /// interval.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    pub(super) fn on_event(&mut self, event: Event) -> Verdict {
        if self.held {
            return self.hold(event);
        }
        // Before the first loss there may be tokens left, which would make the rate look higher.
        if !self.sampling {
            if !event.losses {
                return Verdict::Nothing;
            }
            self.start(event);
            self.sampling = true;
        }
        if event.app_limited {
            self.reset();
            return Verdict::Nothing;
        }
        self.rounds += u32::from(event.round_start);
        if self.rounds < MIN_ROUNDS {
            return Verdict::Nothing;
        }
        if self.rounds > 4 * MIN_ROUNDS {
            self.reset();
            return Verdict::Nothing;
        }
        // The interval started with a loss, so it ends with one: with an empty bucket.
        if !event.losses {
            return Verdict::Nothing;
        }
        self.end(event)
    }

    fn hold(&mut self, event: Event) -> Verdict {
        if event.probing && event.round_start {
            self.rounds += 1;
            if self.rounds >= HELD_ROUNDS {
                self.reset();
                return Verdict::Released;
            }
        }
        Verdict::Nothing
    }

    fn start(&mut self, event: Event) {
        self.delivered = event.delivered;
        self.lost = event.lost;
        self.started = event.delivered_at;
        self.rounds = 0;
    }

    /// The interval may end here, if it was lossy and lasted a millisecond.
    fn end(&mut self, event: Event) -> Verdict {
        let delivered = event.delivered.saturating_sub(self.delivered);
        let lost = event.lost.saturating_sub(self.lost);
        let elapsed = event.delivered_at.saturating_sub(self.started);
        let lossy = lost.saturating_mul(256) >= delivered.saturating_mul(LOSS_THRESHOLD);
        if delivered == 0 || !lossy || elapsed == 0 {
            return Verdict::Nothing;
        }
        if elapsed >= TOO_LONG {
            self.reset();
            return Verdict::Nothing;
        }
        let found = bandwidth::of(delivered, elapsed * 1000);
        let before = self.bandwidth;
        let apart = found.abs_diff(before);
        if before > 0
            && (u64::from(apart) * RATIO <= u64::from(before)
                || bandwidth::bytes_per_second(apart, event.mss, bandwidth::GAIN) <= DIFFERENCE)
        {
            self.bandwidth = before.midpoint(found);
            self.held = true;
            self.rounds = 0;
            return Verdict::Policed;
        }
        self.bandwidth = found;
        self.start(event);
        Verdict::Nothing
    }
}
