//! CUBIC: the window grows with the cube of the time since the last loss, independent of the round trip.

use tidegate_limiter::Nanos;

use super::reno::Reno;
use super::{AckSample, LossState, Window, micros};
use crate::MILLISECOND;

mod cube_root;
mod hystart;
#[cfg(test)]
mod tests;

use cube_root::cube_root;
use hystart::HyStart;

/// The part of the window that stays after a loss, of 1024: 0.7, RFC 9438 §4.6.
const BETA: u64 = 717;
const BETA_SCALE: u64 = 1024;
/// C = 0.4 segments/s³, RFC 9438 §5.1, times 1024, times Linux's scale of 10.
const C_SCALED: u64 = 410;
/// Segments · 2^40 / 410 is the cube of K in 1024ths of a second (Linux `cube_factor`).
const CUBE_FACTOR: u64 = (1 << 40) / C_SCALED;
/// In the Reno-friendly region the window grows by a segment each 15/8 windows acknowledged:
/// (1 + β) / (3 (1 − β)), RFC 9438 §4.3, in eighths as Linux truncates it.
const FRIENDLY_EIGHTHS: u64 = 8 * (BETA_SCALE + BETA) / 3 / (BETA_SCALE - BETA);
/// Ticks of Linux's coarse clock in a second: the window's target moves once a tick.
const HZ: u64 = 1000;

/// RFC 9438 as Linux `tcp_cubic.c`. Coarse times are in ticks of a millisecond.
#[derive(Debug, Clone)]
pub struct Cubic {
    reno: Reno,
    hystart: HyStart,
    /// Segments to be acknowledged before the window grows by one.
    per: u32,
    /// W_max: the window at the last loss, or less by fast convergence; 0 before the first.
    last_max_cwnd: u32,
    last_cwnd: u32,
    last_update: u64,
    /// The window of the plateau.
    origin: u32,
    /// K, from the beginning of the epoch to the plateau, in 1024ths of a second.
    k: u64,
    /// The least round trip in microseconds.
    delay_min: Option<u64>,
    /// When the window began to grow after the last loss.
    epoch_start: Option<u64>,
    /// Acknowledged segments by which `reno_cwnd` has not grown yet.
    acked: u64,
    /// W_est: the window that Reno would have.
    reno_cwnd: u32,
}

impl Cubic {
    pub(super) fn new(mss: u32, now: Nanos) -> Self {
        Self {
            reno: Reno::default(),
            hystart: HyStart::new(mss, micros(now)),
            per: 0,
            last_max_cwnd: 0,
            last_cwnd: 0,
            last_update: 0,
            origin: 0,
            k: 0,
            delay_min: None,
            epoch_start: None,
            acked: 0,
            reno_cwnd: 0,
        }
    }

    pub(super) fn use_hystart_plus(&mut self, paced: bool) {
        self.reno.use_hystart_plus(paced);
    }

    /// Linux `cubictcp_recalc_ssthresh`, RFC 9438 §4.6 and §4.7.
    pub(super) fn ssthresh(&mut self, window: &Window) -> u32 {
        self.reno.reduced(window);
        self.epoch_start = None;
        // Fast convergence: a flow that loses before it reaches its old window leaves room for
        // others.
        self.last_max_cwnd = if window.cwnd < self.last_max_cwnd {
            of_window(window.cwnd, BETA_SCALE + BETA, 2 * BETA_SCALE)
        } else {
            window.cwnd
        };
        of_window(window.cwnd, BETA, BETA_SCALE).max(2)
    }

    pub(super) fn undo(&self, window: &Window) -> u32 {
        self.reno.undo(window)
    }

    /// Linux `cubictcp_state`: after a timeout the whole state is reset.
    pub(super) fn on_state(&mut self, now: Nanos, state: LossState) {
        self.reno.on_state(state);
        if state == LossState::Loss {
            *self = Self {
                reno: std::mem::take(&mut self.reno),
                hystart: self.hystart.next_round(micros(now)),
                ..Self::new(0, now)
            };
        }
    }

    /// The window does not grow for a time in which nothing was sent: RFC 9438 §5.8, Linux
    /// `cubictcp_cwnd_event`.
    pub(super) fn on_restart(&mut self, now: Nanos, idle: Nanos) {
        if let Some(start) = &mut self.epoch_start {
            // In the ticks of Linux's clock, not to the nanosecond.
            let idle = ticks(now) - ticks(now.saturating_sub(idle));
            *start = start.saturating_add(idle).min(ticks(now));
        }
    }

    /// Linux `cubictcp_acked`.
    pub(super) fn on_acked(&mut self, now: Nanos, sample: &AckSample, window: &mut Window) {
        self.hystart.sent(sample.snd_nxt);
        self.reno.on_acked(sample, window);
        let Some(rtt) = sample.rtt else { return };
        // Right after a recovery, round trips are those of a queue that has changed since.
        if self
            .epoch_start
            .is_some_and(|start| ticks(now).saturating_sub(start) < HZ)
        {
            return;
        }
        let delay = micros(rtt).max(1);
        let delay_min = self.delay_min.map_or(delay, |least| least.min(delay));
        self.delay_min = Some(delay_min);
        if window.in_slow_start() && !self.reno.has_hystart_plus() {
            self.hystart
                .update(micros(now), delay, delay_min, sample, window);
        }
    }

    /// Linux `cubictcp_cong_avoid`.
    pub(super) fn cong_avoid(&mut self, now: Nanos, sample: &AckSample, window: &mut Window) {
        if !sample.cwnd_limited {
            return;
        }
        let acked = self.reno.slow_start(sample.acked, window);
        if acked == 0 {
            return;
        }
        self.update(ticks(now), window.cwnd, acked);
        self.reno.increase(self.per, acked, window);
    }

    /// Sets the number of segments to be acknowledged before the window grows by one (Linux
    /// `bictcp_update`).
    fn update(&mut self, now: u64, cwnd: u32, acked: u32) {
        self.acked = self.acked.saturating_add(u64::from(acked));
        let elapsed = now.saturating_sub(self.last_update);
        if self.last_cwnd == cwnd && elapsed <= HZ / 32 {
            return;
        }
        if self.epoch_start.is_none() || now != self.last_update {
            self.last_cwnd = cwnd;
            self.last_update = now;
            let start = self.begin_epoch(now, cwnd, acked);
            self.per = self.cubic(now.saturating_sub(start), cwnd);
        }
        self.befriend_reno(cwnd);
        // The target is at most 1.5 times the window in a round trip.
        self.per = self.per.max(2);
    }

    /// When the epoch began. If there is none, it begins now, and K is computed (RFC 9438 §4.2).
    fn begin_epoch(&mut self, now: u64, cwnd: u32, acked: u32) -> u64 {
        if let Some(start) = self.epoch_start {
            return start;
        }
        self.acked = u64::from(acked);
        self.reno_cwnd = cwnd;
        self.k = cube_root(CUBE_FACTOR * u64::from(self.last_max_cwnd.saturating_sub(cwnd)));
        self.origin = self.last_max_cwnd.max(cwnd);
        self.epoch_start = Some(now);
        now
    }

    /// Acknowledgements for one more segment, to reach the W_cubic of the next round trip.
    fn cubic(&self, elapsed: u64, cwnd: u32) -> u32 {
        // The least round trip in ticks, rounded up (Linux usecs_to_jiffies).
        let rtt = self.delay_min.unwrap_or(0).div_ceil(1_000_000 / HZ);
        let time = u128::from(elapsed.saturating_add(rtt)) * 1024 / u128::from(HZ);
        let from_origin = time.abs_diff(u128::from(self.k));
        // The kernel's 64 bits overflow after 350 s beyond K, when the window is at its bounds.
        let delta = from_origin
            .saturating_pow(3)
            .saturating_mul(u128::from(C_SCALED))
            >> 40;
        let delta = u32::try_from(delta).unwrap_or(u32::MAX);
        let target = if time < u128::from(self.k) {
            self.origin.saturating_sub(delta)
        } else {
            self.origin.saturating_add(delta)
        };
        let per = if target > cwnd {
            cwnd / (target - cwnd)
        } else {
            cwnd.saturating_mul(100)
        };
        // Before the first loss, at least 5 % in a round trip.
        if self.last_max_cwnd == 0 {
            per.min(20)
        } else {
            per
        }
    }

    /// Never slower than Reno: RFC 9438 §4.3.
    fn befriend_reno(&mut self, cwnd: u32) {
        let step = (u64::from(cwnd) * FRIENDLY_EIGHTHS / 8).max(1);
        let steps = self.acked.saturating_sub(1) / step;
        self.acked -= steps * step;
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        self.reno_cwnd = self.reno_cwnd.saturating_add(steps);
        if self.reno_cwnd > cwnd {
            self.per = self.per.min(cwnd / (self.reno_cwnd - cwnd));
        }
    }
}

fn of_window(cwnd: u32, numerator: u64, denominator: u64) -> u32 {
    u32::try_from(u64::from(cwnd) * numerator / denominator).unwrap_or(u32::MAX)
}

fn ticks(time: Nanos) -> u64 {
    time / (1000 * MILLISECOND / HZ)
}
