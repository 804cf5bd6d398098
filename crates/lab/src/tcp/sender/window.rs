//! Whether the congestion window is in use, and how it shrinks when it is not: RFC 2861 and 7661 as
//! in Linux. Also the pacing rate that follows from the window.

use tidegate_limiter::Nanos;

use super::super::cc::LossState;
use super::Sender;
use crate::SECOND;

/// How much of the window was used.
#[derive(Debug, Clone, Default)]
pub(super) struct Usage {
    /// Whether the window was full in the round trip that ends at `round_end`.
    limited: bool,
    max_out: u32,
    round_end: u64,
    /// Most segments in flight since the window was last full or moved, and the time of that
    /// (`snd_cwnd_stamp`).
    used: u32,
    at: Nanos,
}

impl Sender {
    /// Called after everything that could be sent was sent (`tcp_cwnd_validate`).
    pub(super) fn judge_usage(&mut self, now: Nanos, limited: bool) {
        let out = self.board.out();
        let usage = &mut self.usage;
        if self.una >= usage.round_end || limited || !usage.limited && out > usage.max_out {
            usage.limited = limited;
            usage.max_out = out;
            usage.round_end = self.next;
        }
        if self.is_window_used() {
            self.usage.used = 0;
            self.usage.at = now;
        } else {
            self.usage.used = self.usage.used.max(out);
            let idle = now.saturating_sub(self.usage.at);
            if self.forgetful && !self.controlled && idle >= self.rtt.rto() {
                self.shrink_unused(now);
            }
        }
    }

    /// Whether the window limits sending (`tcp_is_cwnd_limited`). In slow start it is enough that
    /// half of it is in use, so that it can double.
    pub(super) fn is_window_used(&self) -> bool {
        self.usage.limited
            || self.window.in_slow_start() && self.window.cwnd < 2 * self.usage.max_out
    }

    /// The window moved for another reason. Its use is judged from now on.
    pub(super) fn window_moved(&mut self, now: Nanos) {
        self.usage.at = now;
    }

    /// RFC 2861 §3.2: halfway to the used part (`tcp_cwnd_application_limited`).
    fn shrink_unused(&mut self, now: Nanos) {
        if self.state == LossState::Open {
            let used = self.usage.used.max(self.initial_window);
            if used < self.window.cwnd {
                self.window.ssthresh = self.current_ssthresh();
                self.window.cwnd = (self.window.cwnd + used) / 2;
            }
            self.usage.used = 0;
        }
        self.usage.at = now;
    }

    /// RFC 5681 §4.1: after a silence of more than a timeout the window starts again, halved for
    /// each timeout as in RFC 2861 (`tcp_slow_start_after_idle_check`, `tcp_cwnd_restart`).
    pub(super) fn restart_after_idle(&mut self, now: Nanos) {
        let rto = self.rtt.rto();
        let mut idle = now.saturating_sub(self.last_data);
        if !self.forgetful || self.controlled || self.board.front().is_some() || idle <= rto {
            return;
        }
        let least = self.initial_window.min(self.window.cwnd);
        self.window.ssthresh = self.current_ssthresh();
        let mut cwnd = self.window.cwnd;
        while idle > rto && cwnd > least {
            idle -= rto;
            cwnd /= 2;
        }
        self.window.cwnd = cwnd.max(least);
        self.usage.at = now;
        self.usage.used = 0;
    }

    /// The threshold to remember: at least three quarters of the window, unless the window is being
    /// reduced (`tcp_current_ssthresh`).
    pub(super) fn current_ssthresh(&self) -> u32 {
        if self.in_reduction() {
            self.window.ssthresh
        } else {
            let cwnd = self.window.cwnd;
            self.window.ssthresh.max(cwnd / 2 + cwnd / 4)
        }
    }

    /// The pacing rate (`tcp_update_pacing_rate`): twice the window over a round trip in slow
    /// start, otherwise 1.2 times. It decides the size of bursts even without pacing.
    pub(super) fn update_pacing(&mut self) {
        let most = self.most_rate.unwrap_or(u64::MAX);
        if let Some(rate) = self.window.pacing_rate {
            self.pacer.set_rate(rate.min(most));
            return;
        }
        let Some(smoothed) = self.rtt.smoothed() else {
            return;
        };
        let percent = if self.window.cwnd < self.window.ssthresh / 2 {
            200
        } else {
            120
        };
        let segments = self.window.cwnd.max(self.board.out());
        let bytes = u128::from(segments) * u128::from(self.mss) * percent;
        let rate = bytes * u128::from(SECOND) / 100 / u128::from(smoothed.max(1));
        self.pacer
            .set_rate(u64::try_from(rate).unwrap_or(u64::MAX).min(most));
    }
}
