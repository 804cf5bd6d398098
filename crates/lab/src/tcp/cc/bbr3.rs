//! BBR version 3, draft-ietf-ccwg-bbr-06: a model of the path whose upper bounds follow losses.
//!
//! Names are those of the draft, without its prefixes. Where the draft counts bytes, segments are counted here, as in
//! Google's code. Left out: the rule for connections without selective acknowledgements, and ECN, of which the draft has
//! nothing.

use rand_pcg::Pcg32;
use tidegate_limiter::Nanos;

use super::bbr::bandwidth;
use super::bbr::filter::MaxFilter;
use super::{AckSample, LossState, Window, micros};

mod loss;
mod probe_bw;
mod probe_rtt;
mod rounds;
mod state;
#[cfg(test)]
mod tests;
mod window;

use probe_bw::Probe;
use probe_rtt::MinRtt;
use rounds::{FullPipe, Rounds};
use state::State;
use window::Aggregation;

/// A bound that is not set.
const INFINITE: u32 = u32::MAX;
/// Segments to keep in flight at least (`MinPipeCwnd`).
const MIN_WINDOW: u32 = 4;

/// The bounds that losses set, and what an undone recovery restores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    /// Of the bandwidth, until the next probe (`bw_shortterm`).
    bandwidth: u32,
    /// Of the segments in flight, until the next probe (`inflight_shortterm`).
    short: u32,
    /// Of the segments in flight, as probes found it (`inflight_longterm`).
    long: u32,
}

/// The state of BBR version 3. Times are in microseconds, bandwidths as in [`bandwidth`].
#[derive(Debug, Clone)]
pub struct Bbr3 {
    mss: u32,
    random: Pcg32,
    state: State,
    initial_window: u32,

    // The last values from the sender.
    now: u64,
    delivered: u64,
    in_flight: u32,
    srtt: Option<u64>,
    seen_rtt: bool,
    loss_state: LossState,

    // The model.
    /// The largest bandwidth of the cycle before and of this one.
    max_bandwidth: [u32; 2],
    bounds: Bounds,
    min_rtt: MinRtt,
    aggregation: Aggregation,
    rounds: Rounds,
    full: FullPipe,
    probe: Probe,
    /// Rounds at the start of Drain.
    drain_start: u64,

    // Losses.
    losses: loss::Losses,

    prior_cwnd: u32,
    idle_restart: bool,
}

/// The rate sample of an acknowledgement.
#[derive(Debug, Clone, Copy, Default)]
struct Delivery {
    rate: u32,
    segments: u32,
}

impl Bbr3 {
    pub(super) fn new(mss: u32, now: Nanos, seed: u64) -> Self {
        Self {
            mss: mss.max(1),
            // Written out, as seed_from_u64 may change with the library.
            random: Pcg32::new(seed, 0x0a02_bdbf_7bb3_c0a7),
            state: State::Startup,
            initial_window: 10,
            now: micros(now),
            delivered: 0,
            in_flight: 0,
            srtt: None,
            seen_rtt: false,
            loss_state: LossState::Open,
            max_bandwidth: [0; 2],
            bounds: Bounds {
                bandwidth: INFINITE,
                short: INFINITE,
                long: INFINITE,
            },
            min_rtt: MinRtt::default(),
            aggregation: Aggregation {
                start: 0,
                delivered: 0,
                largest: MaxFilter::default(),
            },
            rounds: Rounds::default(),
            full: FullPipe::default(),
            probe: Probe::default(),
            drain_start: 0,
            losses: loss::Losses::default(),
            prior_cwnd: 0,
            idle_restart: false,
        }
    }

    /// The name of the state in results.
    pub(super) fn phase(&self) -> &'static str {
        self.state.name()
    }

    /// `OnInit`, §5.2.1.
    pub(super) fn on_established(&mut self, now: Nanos, rtt: Option<Nanos>, window: &mut Window) {
        self.now = micros(now);
        self.initial_window = window.cwnd;
        self.srtt = rtt.map(micros);
        self.min_rtt.begin(self.now, self.srtt);
        self.aggregation.start = self.now;
        self.pace_from_rtt(window);
    }

    /// Losses do not lower the threshold (`OnEnterFastRecovery`, `OnEnterRTO`, §5.6.4.4).
    pub(super) fn ssthresh(&mut self, window: &Window) -> u32 {
        self.save_for_undo(window);
        window.ssthresh
    }

    /// The sender's state of repair changes. The window after a recovery is the one before it.
    pub(super) fn on_state(&mut self, state: LossState, window: &mut Window) {
        if is_repairing(self.loss_state) && !is_repairing(state) {
            window.cwnd = window.cwnd.max(self.prior_cwnd);
        }
        self.loss_state = state;
        // The window of a timeout is no measure of what the path holds: Google's `bbr_set_state`.
        if state == LossState::Loss && !self.state.is_probing() && self.bounds.short == INFINITE {
            self.bounds.short = window.cwnd.max(self.prior_cwnd);
        }
    }

    /// `HandleRestartFromIdle`, §5.4.1. With nothing in flight the application had nothing to send, unless all was lost.
    pub(super) fn on_restart(&mut self, now: Nanos, window: &mut Window) {
        if self.loss_state == LossState::Loss {
            return;
        }
        self.now = micros(now);
        self.idle_restart = true;
        self.aggregation.start = self.now;
        if self.state.is_probe_bandwidth() {
            self.pace_with(bandwidth::GAIN, window);
        } else if self.state == State::ProbeRtt {
            self.end_probe_rtt(window);
        }
    }

    /// `UpdateOnACK`, §5.2.3.
    pub(super) fn control(&mut self, now: Nanos, sample: &AckSample, window: &mut Window) {
        self.now = micros(now);
        self.loss_state = sample.state;
        self.delivered = sample.delivered;
        self.in_flight = sample.in_flight;
        self.srtt = sample.srtt.map(micros).or(self.srtt);
        let delivery = delivery(sample);
        self.update_latest(sample, delivery);
        self.update_congestion(sample, delivery, window);
        self.update_aggregation(sample, window);
        self.check_full(sample, delivery);
        self.check_startup(sample, window);
        self.check_drain(window);
        self.update_cycle(sample, delivery, window);
        self.update_min_rtt(sample);
        self.check_probe_rtt(sample, window);
        self.losses.advance(delivery);
        self.pace_with(self.state.pacing_gain(), window);
        self.set_window(sample, window);
    }

    /// `BoundBWForModel`, §5.5.10.3.
    fn bandwidth(&self) -> u32 {
        self.largest_bandwidth().min(self.bounds.bandwidth)
    }

    /// `max_bw`, over two cycles: §5.5.3.
    fn largest_bandwidth(&self) -> u32 {
        self.max_bandwidth[0].max(self.max_bandwidth[1])
    }

    /// `AdvanceMaxBwFilter`, §5.5.6. A cycle without a sample does not count, as in Google's code.
    fn advance_bandwidth(&mut self) {
        if self.max_bandwidth[1] > 0 {
            self.max_bandwidth = [self.max_bandwidth[1], 0];
        }
    }

    /// `UpdateMaxBw`, §5.5.5. A sample that the application limited is used only if it is larger.
    fn update_bandwidth(&mut self, sample: &AckSample, delivery: Delivery) {
        let limited = self.is_app_limited(sample);
        if delivery.rate > 0 && (!limited || delivery.rate >= self.largest_bandwidth()) {
            self.max_bandwidth[1] = self.max_bandwidth[1].max(delivery.rate);
        }
    }

    /// `CheckStartupDone`, §5.3.1.1.
    fn check_startup(&mut self, sample: &AckSample, window: &mut Window) {
        self.check_startup_losses(sample);
        if self.state == State::Startup && self.full.reached {
            self.state = State::Drain;
            self.drain_start = self.rounds.count;
            // Google's code does so for observers.
            window.ssthresh = self.in_flight_for(bandwidth::GAIN, window);
        }
    }

    /// `CheckDrainDone`, §5.3.2.
    fn check_drain(&mut self, window: &Window) {
        if self.state == State::Drain
            && (self.in_flight <= self.in_flight_for(bandwidth::GAIN, window)
                || self.rounds.count > self.drain_start + 3)
        {
            self.start_down();
        }
    }
}

/// The sample of the delivery rate; 0 if there is none.
fn delivery(sample: &AckSample) -> Delivery {
    let interval = micros(sample.interval);
    let segments = sample.delivered_over.filter(|_| interval > 0);
    segments.map_or(Delivery::default(), |segments| Delivery {
        rate: bandwidth::of(segments.into(), interval),
        segments,
    })
}

fn is_repairing(state: LossState) -> bool {
    matches!(state, LossState::Recovery | LossState::Loss)
}
