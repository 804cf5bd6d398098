//! The round trip of an empty path, and PROBE_RTT, which empties it.

use tidegate_limiter::Nanos;

use super::super::{AckSample, Window, micros};
use super::{Bbr, MIN_WINDOW, Mode, clamped};
use crate::MILLISECOND;

/// Milliseconds after which the smallest round trip is measured again.
const WINDOW: u64 = 10_000;
/// Milliseconds PROBE_RTT lasts with little in flight.
const DURATION: u64 = 200;

impl Bbr {
    /// Linux `bbr_update_min_rtt`.
    pub(super) fn update_min_rtt(&mut self, now: Nanos, sample: &AckSample, window: &mut Window) {
        let now = now / MILLISECOND;
        let expired = now > self.min_rtt_at.saturating_add(WINDOW);
        if let Some(rtt) = sample.rtt.map(|rtt| clamped(micros(rtt)))
            && (self.min_rtt.is_none_or(|least| rtt < least) || expired && !sample.maybe_delayed)
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = now;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_window(window);
            self.probe_rtt_until = None;
            self.probe_rtt_sent = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.probe_rtt(now, sample, window);
        }
        if sample.delivered_over.is_some_and(|delivered| delivered > 0) {
            self.idle_restart = false;
        }
    }

    fn probe_rtt(&mut self, now: u64, sample: &AckSample, window: &mut Window) {
        let from = self.probe_rtt_sent.map_or(self.delivered, |sent| sent.0);
        let to = self.delivered.saturating_add(u64::from(sample.in_flight));
        self.probe_rtt_sent = Some((from, to));
        if self.probe_rtt_until.is_none() {
            if sample.in_flight <= MIN_WINDOW {
                self.probe_rtt_until = Some(now.saturating_add(DURATION));
                self.probe_rtt_round_done = false;
                self.round_end = self.delivered;
            }
            return;
        }
        self.probe_rtt_round_done |= self.round_start;
        if self.probe_rtt_round_done {
            self.end_probe_rtt(now, window);
        }
    }

    /// Returns to the state before if the time, in milliseconds, is over (Linux
    /// `bbr_check_probe_rtt_done`).
    pub(super) fn end_probe_rtt(&mut self, now: u64, window: &mut Window) {
        if self.probe_rtt_until.is_none_or(|until| now <= until) {
            return;
        }
        self.min_rtt_at = now;
        window.cwnd = window.cwnd.max(self.prior_cwnd);
        if self.full {
            self.probe_bandwidth();
        } else {
            self.mode = Mode::Startup;
        }
    }
}
