//! The round trip of the empty path, and the state that looks for it: §5.3.4.

use super::super::{AckSample, Window, micros};
use super::state::State;
use super::{Bbr3, INFINITE};

/// Microseconds after which a least round trip is looked for again (`ProbeRTTInterval`).
const INTERVAL: u64 = 5_000_000;
/// Microseconds for which the least round trip counts (`MinRTTFilterLen`).
const WINDOW: u64 = 10_000_000;
/// Microseconds with little in flight (`ProbeRTTDuration`).
const DURATION: u64 = 200_000;

/// The least round trip.
#[derive(Debug, Clone, Default)]
pub(super) struct MinRtt {
    /// `min_rtt`, and when it was measured.
    pub(super) least: Option<u32>,
    at: u64,
    /// `probe_rtt_min_delay`: of the last five seconds.
    recent: Option<u32>,
    recent_at: u64,
    is_expired: bool,
    /// When the probe may end, once little is in flight.
    until: Option<u64>,
    round_done: bool,
    /// The data sent in the probe, by the count delivered then. Its bandwidth is not used.
    sent: Option<(u64, u64)>,
}

impl MinRtt {
    /// The connection begins, with the round trip of the handshake.
    pub(super) fn begin(&mut self, now: u64, rtt: Option<u64>) {
        self.least = rtt.map(|rtt| u32::try_from(rtt).unwrap_or(u32::MAX));
        (self.at, self.recent_at) = (now, now);
    }
}

impl Bbr3 {
    /// Data of the probe counts as limited by the application (`MarkConnectionAppLimited`). The delivered count at the time
    /// of sending shows it.
    pub(super) fn is_app_limited(&self, sample: &AckSample) -> bool {
        let in_probe = |(from, to)| (from..=to).contains(&sample.prior_delivered);
        sample.app_limited || self.min_rtt.sent.is_some_and(in_probe)
    }

    /// `UpdateMinRTT`. A delayed acknowledgement does not renew it, as in Google's code.
    pub(super) fn update_min_rtt(&mut self, sample: &AckSample) {
        let rtt = (sample.rtt).map(|rtt| u32::try_from(micros(rtt)).unwrap_or(u32::MAX));
        let min = &mut self.min_rtt;
        min.is_expired = self.now > min.recent_at + INTERVAL;
        if let Some(rtt) = rtt
            && (rtt < min.recent.unwrap_or(INFINITE) || min.is_expired && !sample.maybe_delayed)
        {
            (min.recent, min.recent_at) = (Some(rtt), self.now);
        }
        let is_lower = min.recent.unwrap_or(INFINITE) < min.least.unwrap_or(INFINITE);
        if is_lower || self.now > min.at + WINDOW {
            (min.least, min.at) = (min.recent, min.recent_at);
        }
    }

    /// `CheckProbeRTT`.
    pub(super) fn check_probe_rtt(&mut self, sample: &AckSample, window: &mut Window) {
        if self.state != State::ProbeRtt && self.min_rtt.is_expired && !self.idle_restart {
            self.save_window(window);
            self.state = State::ProbeRtt;
            self.min_rtt.until = None;
            self.min_rtt.sent = None;
            self.probe.stop();
            self.rounds.begin(self.delivered);
        }
        if self.state == State::ProbeRtt {
            self.probe_rtt(window);
        }
        if sample.delivered_over.is_some_and(|delivered| delivered > 0) {
            self.idle_restart = false;
        }
    }

    /// `HandleProbeRTT`.
    fn probe_rtt(&mut self, window: &mut Window) {
        let from = self.min_rtt.sent.map_or(self.delivered, |sent| sent.0);
        let to = self.delivered.saturating_add(self.in_flight.into());
        self.min_rtt.sent = Some((from, to));
        if self.min_rtt.until.is_none() {
            if self.in_flight <= self.probe_rtt_window() {
                self.min_rtt.until = Some(self.now + DURATION);
                self.min_rtt.round_done = false;
                self.rounds.begin(self.delivered);
            }
            return;
        }
        self.min_rtt.round_done |= self.rounds.start;
        if self.min_rtt.round_done {
            self.end_probe_rtt(window);
        }
    }

    /// `CheckProbeRTTDone` and `ExitProbeRTT`: little is in flight, so it cruises at once.
    pub(super) fn end_probe_rtt(&mut self, window: &mut Window) {
        if self.min_rtt.until.is_none_or(|until| self.now <= until) {
            return;
        }
        self.min_rtt.recent_at = self.now;
        window.cwnd = window.cwnd.max(self.prior_cwnd);
        self.forget_short();
        if self.full.reached {
            self.start_down();
            self.start_cruise();
        } else {
            self.state = State::Startup;
        }
    }
}
