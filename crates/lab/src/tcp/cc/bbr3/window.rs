//! From the model to the window and the pacing rate: §5.5.9 and §5.6.

use super::super::bbr::bandwidth::{self, GAIN};
use super::super::bbr::filter::MaxFilter;
use super::super::{AckSample, Window};
use super::state::State;
use super::{Bbr3, INFINITE, MIN_WINDOW, is_repairing};

/// Rounds over which the largest aggregation is kept, in Startup and later.
const STARTUP_ROUNDS: u64 = 1;
const ROUNDS: u64 = 10;
/// Bytes of the largest burst.
const MOST_QUANTUM: u64 = 65_536;

/// How many more segments are acknowledged at once than expected (`extra_acked`).
#[derive(Debug, Clone)]
pub(super) struct Aggregation {
    pub(super) start: u64,
    pub(super) delivered: u64,
    pub(super) largest: MaxFilter,
}

impl Bbr3 {
    /// `UpdateACKAggregation`, §5.5.9.
    pub(super) fn update_aggregation(&mut self, sample: &AckSample, window: &Window) {
        let elapsed = self.now.saturating_sub(self.aggregation.start);
        let mut expected = u64::from(bandwidth::segments(self.bandwidth(), elapsed));
        let aggregation = &mut self.aggregation;
        if aggregation.delivered <= expected {
            (aggregation.delivered, aggregation.start, expected) = (0, self.now, 0);
        }
        aggregation.delivered += u64::from(sample.acked);
        let extra = aggregation.delivered.saturating_sub(expected);
        let extra = extra.min(window.cwnd.into()) as u32;
        let rounds = if self.full.reached {
            ROUNDS
        } else {
            STARTUP_ROUNDS
        };
        aggregation.largest.update(rounds, self.rounds.count, extra);
    }

    /// `InitPacingRate`, §5.6.2: the initial window in a round trip, or in a millisecond if none was measured.
    pub(super) fn pace_from_rtt(&mut self, window: &mut Window) {
        self.seen_rtt |= self.srtt.is_some();
        let rtt = self.srtt.map_or(1000, |srtt| srtt.max(1));
        let rate = bandwidth::of(window.cwnd.into(), rtt);
        let gain = State::Startup.pacing_gain();
        window.pacing_rate = Some(bandwidth::bytes_per_second(rate, self.mss, gain).max(1));
    }

    /// `SetPacingRateWithGain`, §5.6.2: until the path is full, the rate only rises.
    pub(super) fn pace_with(&mut self, gain: u32, window: &mut Window) {
        if window.pacing_rate.is_none() || !self.seen_rtt && self.srtt.is_some() {
            self.pace_from_rtt(window);
        }
        let rate = bandwidth::bytes_per_second(self.bandwidth(), self.mss, gain).max(1);
        if self.full.reached || window.pacing_rate.is_none_or(|before| rate > before) {
            window.pacing_rate = Some(rate);
        }
    }

    /// `SetSendQuantum`, §5.6.3: the segments of a millisecond.
    pub(in super::super) fn quantum(&self, window: &Window) -> u32 {
        let bytes = (window.pacing_rate.unwrap_or(0) / 1000).min(MOST_QUANTUM);
        ((bytes / u64::from(self.mss)) as u32).max(2)
    }

    /// `BBR.bdp`, with the present bandwidth.
    pub(super) fn bdp(&self) -> u32 {
        self.bdp_of(self.bandwidth(), GAIN)
    }

    /// `BDPMultiple`, §5.6.4.2.
    pub(super) fn bdp_of(&self, bandwidth: u32, gain: u32) -> u32 {
        let Some(min_rtt) = self.min_rtt.least else {
            return self.initial_window;
        };
        let product = u128::from(bandwidth) * u128::from(min_rtt) * u128::from(gain);
        let segments = (product / u128::from(GAIN)).div_ceil(u128::from(bandwidth::UNIT));
        u32::try_from(segments).unwrap_or(u32::MAX)
    }

    /// `QuantizationBudget`, §5.6.4.2.
    pub(super) fn quantized(&self, in_flight: u32, window: &Window) -> u32 {
        let budget = self.quantum(window).saturating_mul(3);
        let in_flight = in_flight.max(budget).max(MIN_WINDOW);
        in_flight.saturating_add(if self.state == State::Up { 2 } else { 0 })
    }

    /// `Inflight`, §5.6.4.2.
    pub(super) fn in_flight_for(&self, gain: u32, window: &Window) -> u32 {
        self.quantized(self.bdp_of(self.bandwidth(), gain), window)
    }

    /// `ProbeRTTCwnd`, §5.6.4.5.
    pub(super) fn probe_rtt_window(&self) -> u32 {
        self.bdp_of(self.bandwidth(), State::ProbeRtt.cwnd_gain())
            .max(MIN_WINDOW)
    }

    /// `SaveCwnd`, §5.6.4.4.
    pub(super) fn save_window(&mut self, window: &Window) {
        self.prior_cwnd = if is_repairing(self.loss_state) || self.state == State::ProbeRtt {
            self.prior_cwnd.max(window.cwnd)
        } else {
            window.cwnd
        };
    }

    /// `SetCwnd`, §5.6.4.6.
    pub(super) fn set_window(&mut self, sample: &AckSample, window: &mut Window) {
        let most = self.bdp_of(self.bandwidth(), self.state.cwnd_gain());
        let most = most.saturating_add(self.aggregation.largest.get());
        let most = self.quantized(most, window);
        let grown = window.cwnd.saturating_add(sample.acked);
        if self.full.reached {
            window.cwnd = grown.min(most);
        } else if window.cwnd < most || sample.delivered < u64::from(self.initial_window) {
            window.cwnd = grown;
        }
        window.cwnd = window.cwnd.max(MIN_WINDOW);
        if self.state == State::ProbeRtt {
            window.cwnd = window.cwnd.min(self.probe_rtt_window());
        }
        window.cwnd = window.cwnd.min(self.bound());
    }

    /// `BoundCwndForModel`, §5.6.4.7.
    fn bound(&self) -> u32 {
        let long = match self.state {
            State::Down | State::Refill | State::Up => self.bounds.long,
            State::Cruise | State::ProbeRtt => self.with_headroom(),
            State::Startup | State::Drain => INFINITE,
        };
        long.min(self.bounds.short).max(MIN_WINDOW)
    }
}
