//! What losses say of the path: §5.3.1.3, §5.5.10 and §5.5.11.

use tidegate_limiter::Nanos;

use super::super::{AckSample, LossState, LostSegment, Window, micros};
use super::state::State;
use super::{Bbr3, Bounds, Delivery, INFINITE};

/// Percent of the segments in flight that may be lost (`LossThresh`).
const THRESHOLD: u64 = 2;
/// Acknowledgements that show losses in a round, from which Startup ends (`StartupFullLossCnt`).
const STARTUP_EVENTS: u32 = 6;

/// The signals of a round, and what can be undone.
#[derive(Debug, Clone)]
pub(super) struct Losses {
    /// The largest bandwidth and number of segments delivered in the last round.
    bandwidth_latest: u32,
    pub(super) in_flight_latest: u32,
    round_end: u64,
    round_start: bool,
    in_round: bool,
    events: u32,
    undo: Bounds,
    undo_state: Option<State>,
}

impl Default for Losses {
    fn default() -> Self {
        Self {
            bandwidth_latest: 0,
            in_flight_latest: 0,
            round_end: 0,
            round_start: false,
            in_round: false,
            events: 0,
            undo: Bounds {
                bandwidth: 0,
                short: 0,
                long: 0,
            },
            undo_state: None,
        }
    }
}

impl Losses {
    /// `ResetCongestionSignals`.
    pub(super) fn reset(&mut self) {
        (self.bandwidth_latest, self.in_flight_latest) = (0, 0);
        self.in_round = false;
    }

    /// `AdvanceLatestDeliverySignals`.
    pub(super) fn advance(&mut self, delivery: Delivery) {
        if self.round_start {
            (self.bandwidth_latest, self.in_flight_latest) = (delivery.rate, delivery.segments);
        }
    }
}

impl Bbr3 {
    /// `UpdateLatestDeliverySignals`.
    pub(super) fn update_latest(&mut self, sample: &AckSample, delivery: Delivery) {
        let losses = &mut self.losses;
        losses.bandwidth_latest = losses.bandwidth_latest.max(delivery.rate);
        losses.in_flight_latest = losses.in_flight_latest.max(delivery.segments);
        losses.round_start =
            sample.prior_delivered > 0 && sample.prior_delivered >= losses.round_end;
        if losses.round_start {
            losses.round_end = sample.delivered;
        }
    }

    /// `UpdateCongestionSignals`: once a round with losses, the bounds shrink towards what was delivered, by three tenths at
    /// most, unless this sender accelerates.
    pub(super) fn update_congestion(
        &mut self,
        sample: &AckSample,
        delivery: Delivery,
        window: &Window,
    ) {
        self.rounds.update(sample);
        if self.rounds.start {
            self.probe.rounds += 1;
        }
        self.update_bandwidth(sample, delivery);
        if !self.losses.round_start {
            return;
        }
        if self.losses.in_round && !self.state.is_probing() {
            let bounds = self.bounds;
            let before = |bound, first| if bound == INFINITE { first } else { bound };
            let bandwidth = before(bounds.bandwidth, self.largest_bandwidth());
            let short = before(bounds.short, window.cwnd);
            self.bounds.bandwidth = self.losses.bandwidth_latest.max(reduced(bandwidth));
            self.bounds.short = self.losses.in_flight_latest.max(reduced(short));
        }
        self.losses.in_round = false;
    }

    /// `HandleLostPacket`, for each segment.
    pub(in super::super) fn on_segment_lost(
        &mut self,
        now: Nanos,
        lost: &LostSegment,
        window: &Window,
    ) {
        self.now = micros(now);
        self.delivered = lost.delivered;
        if !self.losses.in_round {
            self.losses.round_end = lost.delivered;
            self.save_for_undo(window);
        }
        self.losses.in_round = true;
        if self.probe.is_sample && is_too_high(lost.lost_since, lost.tx_in_flight) {
            let safe = in_flight_at_loss(lost.lost_since, lost.tx_in_flight);
            self.handle_too_high(safe, lost.app_limited, window);
        }
    }

    /// `HandleInflightTooHigh`.
    fn handle_too_high(&mut self, in_flight: u32, app_limited: bool, window: &Window) {
        self.probe.was_too_high = true;
        self.probe.is_sample = false;
        if !app_limited {
            self.bounds.long = in_flight.max(reduced(self.target(window)));
        }
        if self.state == State::Up {
            self.losses.undo_state = Some(State::Up);
            self.start_down();
        }
    }

    /// `CheckStartupHighLoss`. Acknowledgements that show losses stand for ranges, as in Google's code.
    pub(super) fn check_startup_losses(&mut self, sample: &AckSample) {
        if self.full.reached {
            return;
        }
        self.losses.events += u32::from(sample.lost > 0);
        if !self.losses.round_start {
            return;
        }
        if sample.state == LossState::Recovery
            && self.losses.events >= STARTUP_EVENTS
            && is_too_high(sample.lost_since, sample.tx_in_flight)
        {
            self.losses.undo_state = Some(State::Startup);
            self.full.reached = true;
            self.bounds.long = self.bdp().max(self.losses.in_flight_latest);
        }
        self.losses.events = 0;
    }

    /// `SaveStateUponLoss`.
    pub(super) fn save_for_undo(&mut self, window: &Window) {
        self.save_window(window);
        self.losses.undo = self.bounds;
        self.losses.undo_state = None;
    }

    /// `HandleSpuriousLossDetection`.
    pub(in super::super) fn undo(&mut self, window: &Window) -> u32 {
        self.losses.in_round = false;
        self.full.reset(0);
        let undo = self.losses.undo;
        self.bounds = Bounds {
            bandwidth: self.bounds.bandwidth.max(undo.bandwidth),
            short: self.bounds.short.max(undo.short),
            long: self.bounds.long.max(undo.long),
        };
        let before = self.losses.undo_state.take();
        if before.is_some_and(|state| state != self.state) {
            if before == Some(State::Startup) {
                self.full.reached = false;
            }
            match before {
                _ if self.state == State::ProbeRtt => {}
                Some(State::Startup) => self.state = State::Startup,
                _ => self.start_refill(),
            }
        }
        window.cwnd.max(self.prior_cwnd)
    }

    /// `ResetShortTermModel`.
    pub(super) fn forget_short(&mut self) {
        (self.bounds.bandwidth, self.bounds.short) = (INFINITE, INFINITE);
    }
}

/// `IsInflightTooHigh`.
pub(super) fn is_too_high(lost: u32, in_flight: u32) -> bool {
    u64::from(lost) * 100 > u64::from(in_flight) * THRESHOLD
}

/// `InflightAtLoss`: the segments that were in flight when losses crossed the threshold.
fn in_flight_at_loss(lost: u32, in_flight: u32) -> u32 {
    let before = in_flight.saturating_sub(1);
    let lost_before = u64::from(lost.saturating_sub(1));
    let prefix = (u64::from(before) * THRESHOLD).saturating_sub(lost_before * 100);
    before.saturating_add((prefix / (100 - THRESHOLD)) as u32)
}

/// Times `Beta`.
fn reduced(bound: u32) -> u32 {
    (u64::from(bound) * 7 / 10) as u32
}
