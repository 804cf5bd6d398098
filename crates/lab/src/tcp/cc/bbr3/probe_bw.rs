//! The cycle that probes for bandwidth: §5.3.3.

use rand::RngCore;

use super::super::bbr::bandwidth::GAIN;
use super::super::{AckSample, Window};
use super::loss::is_too_high;
use super::state::State;
use super::{Bbr3, Delivery, INFINITE, MIN_WINDOW};

/// Most rounds between probes, so that Reno and CUBIC have time to recover between losses.
const MOST_ROUNDS: u32 = 63;
/// Microseconds between probes, and what is drawn in addition.
const WAIT: u64 = 2_000_000;
const MORE_WAIT: u64 = 1_000_000;
/// Percent of the bound that stays free for others (`Headroom`).
const HEADROOM: u64 = 15;
/// Most doublings of the bound's growth.
const MOST_DOUBLINGS: u32 = 30;

/// What the arriving acknowledgements say of a probe (`ack_phase`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Feedback {
    /// Nothing.
    #[default]
    None,
    Refilling,
    Starting,
    Arriving,
    Stopping,
}

/// The state of probes.
#[derive(Debug, Clone, Default)]
pub(super) struct Probe {
    feedback: Feedback,
    /// Losses are those of a probe that was not answered yet (`is_bw_probe_sample`).
    pub(super) is_sample: bool,
    /// The last probe ended by losses (`prev_probe_too_high`).
    pub(super) was_too_high: bool,
    /// It stopped before it could (`prev_probe_precautionary`).
    precautionary: bool,
    /// When the cycle began, and how long it waits.
    start: u64,
    wait: u64,
    /// Rounds since the last probe.
    pub(super) rounds: u32,
    doublings: u32,
    acked: u32,
    /// Segments acknowledged for each by which the bound grows.
    acked_per_segment: u32,
}

impl Probe {
    /// `ack_phase = ACKS_PROBE_STOPPING`.
    pub(super) fn stop(&mut self) {
        self.feedback = Feedback::Stopping;
    }

    /// `PickProbeWait`.
    fn draw_wait(&mut self, random: &mut impl RngCore) {
        self.rounds = random.next_u32() & 1;
        self.wait = WAIT + ((u64::from(random.next_u32()) * MORE_WAIT) >> 32);
    }
}

impl Bbr3 {
    /// `StartProbeBW_DOWN`.
    pub(super) fn start_down(&mut self) {
        self.losses.reset();
        self.probe.acked_per_segment = INFINITE;
        self.probe.draw_wait(&mut self.random);
        self.probe.start = self.now;
        self.probe.stop();
        self.rounds.begin(self.delivered);
        self.state = State::Down;
    }

    /// `StartProbeBW_CRUISE`.
    pub(super) fn start_cruise(&mut self) {
        self.state = State::Cruise;
    }

    /// `StartProbeBW_REFILL`.
    pub(super) fn start_refill(&mut self) {
        self.forget_short();
        (self.probe.doublings, self.probe.acked) = (0, 0);
        self.probe.precautionary = false;
        self.probe.feedback = Feedback::Refilling;
        self.rounds.begin(self.delivered);
        self.state = State::Refill;
    }

    /// `StartProbeBW_UP`.
    fn start_up(&mut self, delivery: Delivery, window: &Window) {
        self.probe.is_sample = true;
        self.probe.feedback = Feedback::Starting;
        self.rounds.begin(self.delivered);
        self.full.reset(delivery.rate);
        self.state = State::Up;
        self.raise_slope(window);
    }

    /// `UpdateProbeBWCyclePhase`.
    pub(super) fn update_cycle(&mut self, sample: &AckSample, delivery: Delivery, window: &Window) {
        if !self.full.reached || self.adapt_long(sample, window) {
            return;
        }
        match self.state {
            State::Down | State::Cruise if self.is_time_to_probe(window) => self.start_refill(),
            State::Down if self.is_time_to_cruise(window) => self.start_cruise(),
            // After one round.
            State::Refill if self.rounds.start => self.start_up(delivery, window),
            _ => self.check_up(sample, delivery, window),
        }
    }

    /// Ends a probe in its time.
    fn check_up(&mut self, sample: &AckSample, delivery: Delivery, window: &Window) {
        if self.state == State::Up && self.is_time_to_go_down(sample, delivery, window) {
            self.probe.was_too_high = false;
            self.start_down();
        }
    }

    /// `AdaptLongTermModel`: true if it has chosen the next state.
    fn adapt_long(&mut self, sample: &AckSample, window: &Window) -> bool {
        if self.rounds.start {
            match self.probe.feedback {
                Feedback::Starting => self.probe.feedback = Feedback::Arriving,
                Feedback::Stopping => {
                    self.probe.is_sample = false;
                    self.probe.feedback = Feedback::None;
                    if self.state.is_probe_bandwidth() {
                        if !self.is_app_limited(sample) {
                            self.advance_bandwidth();
                        }
                        // The probe that stopped early did no harm: probe again at once.
                        if self.probe.precautionary && !self.probe.was_too_high {
                            self.start_refill();
                            return true;
                        }
                    }
                }
                _ => {}
            }
        }
        if !is_too_high(sample.lost_since, sample.tx_in_flight) && self.bounds.long != INFINITE {
            self.bounds.long = self.bounds.long.max(sample.tx_in_flight);
            if self.state == State::Up {
                self.raise_long(sample, window);
            }
        }
        false
    }

    /// `ProbeInflightLongtermUpward`.
    fn raise_long(&mut self, sample: &AckSample, window: &Window) {
        if !sample.cwnd_limited || window.cwnd < self.bounds.long {
            return;
        }
        self.probe.acked = self.probe.acked.saturating_add(sample.acked);
        let per_segment = self.probe.acked_per_segment.max(1);
        self.bounds.long = (self.bounds.long).saturating_add(self.probe.acked / per_segment);
        self.probe.acked %= per_segment;
        if self.rounds.start {
            self.raise_slope(window);
        }
    }

    /// `RaiseInflightLongtermSlope`: by twice as many segments each round.
    fn raise_slope(&mut self, window: &Window) {
        self.probe.acked_per_segment = (window.cwnd >> self.probe.doublings).max(1);
        self.probe.doublings = (self.probe.doublings + 1).min(MOST_DOUBLINGS);
    }

    /// `IsTimeToProbeBW`: by the clock, or after the rounds in which Reno would recover.
    fn is_time_to_probe(&self, window: &Window) -> bool {
        self.now > self.probe.start + self.probe.wait
            || self.probe.rounds >= self.target(window).min(MOST_ROUNDS)
    }

    /// `IsTimeToCruise`.
    fn is_time_to_cruise(&self, window: &Window) -> bool {
        let most = self.quantized(self.bdp_of(self.largest_bandwidth(), GAIN), window);
        self.in_flight <= self.with_headroom().min(most)
    }

    /// `IsTimeToGoDown`.
    fn is_time_to_go_down(
        &mut self,
        sample: &AckSample,
        delivery: Delivery,
        window: &Window,
    ) -> bool {
        if self.probe.was_too_high && self.in_flight >= self.bounds.long {
            self.probe.precautionary = true;
            return true;
        }
        if sample.cwnd_limited && window.cwnd >= self.bounds.long {
            // The bound limits the bandwidth.
            self.full.reset(delivery.rate);
            return false;
        }
        self.full.now
    }

    /// `InflightWithHeadroom`.
    pub(super) fn with_headroom(&self) -> u32 {
        let long = self.bounds.long;
        if long == INFINITE {
            return INFINITE;
        }
        let headroom = ((u64::from(long) * HEADROOM / 100) as u32).max(1);
        long.saturating_sub(headroom).max(MIN_WINDOW)
    }

    /// `TargetInflight`.
    pub(super) fn target(&self, window: &Window) -> u32 {
        self.bdp().min(window.cwnd)
    }
}
