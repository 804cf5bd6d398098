//! BBR version 1: a model of the path's bandwidth and round trip, probed in turn.

use rand::RngCore;
use rand_pcg::Pcg32;
use tidegate_limiter::Nanos;

use super::{AckSample, LossState, Window, micros};
use crate::MILLISECOND;

mod aggregation;
pub(super) mod bandwidth;
pub(super) mod filter;
mod lt_bw;
mod min_rtt;
#[cfg(test)]
mod tests;
mod window;

use aggregation::Aggregation;
use bandwidth::GAIN;
use filter::MaxFilter;
use lt_bw::{Event, LongTerm, Verdict};

/// Rounds over which the largest bandwidth is kept: a gain cycle and two.
const BANDWIDTH_ROUNDS: u64 = CYCLE.len() as u64 + 2;
/// 2/ln 2, the smallest gain that doubles the rate each round.
const HIGH_GAIN: u32 = GAIN * 2885 / 1000 + 1;
/// Drains in a round the queue that [`HIGH_GAIN`] built.
const DRAIN_GAIN: u32 = GAIN * 1000 / 2885;
/// Twice what the path holds: acknowledgements may be delayed and come in bunches.
const CWND_GAIN: u32 = 2 * GAIN;
/// Pacing gains of PROBE_BW, a round each: probe, drain what that queued, and cruise.
const CYCLE: [u32; 8] = [
    GAIN * 5 / 4,
    GAIN * 3 / 4,
    GAIN,
    GAIN,
    GAIN,
    GAIN,
    GAIN,
    GAIN,
];
/// The cycle starts in any phase but the one that drains.
const START_PHASES: u64 = 7;
/// Rounds without a quarter more bandwidth, after which the path counts as full.
const FULL_ROUNDS: u32 = 3;
/// Segments to keep in flight at least.
const MIN_WINDOW: u32 = 4;
/// Linux `TCP_INIT_CWND`.
const INITIAL_WINDOW: u32 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The rate doubles each round.
    Startup,
    /// The queue of STARTUP drains.
    Drain,
    /// Cycles of gains around the bandwidth.
    ProbeBandwidth,
    /// Almost nothing in flight, to see the round trip of an empty path.
    ProbeRtt,
}

/// Linux `tcp_bbr.c`. Times are in microseconds unless said otherwise, bandwidths as in
/// [`bandwidth`].
#[derive(Debug, Clone)]
pub struct Bbr {
    mss: u32,
    random: Pcg32,
    mode: Mode,

    // The last values from the sender.
    delivered: u64,
    delivered_at: u64,
    lost: u64,
    srtt: Option<u64>,
    /// The sender's state, and its state at the last acknowledgement.
    state: LossState,
    prior_state: LossState,

    // The model.
    max_bandwidth: MaxFilter,
    policer: LongTerm,
    aggregation: Aggregation,
    min_rtt: Option<u32>,
    /// When it was measured, in milliseconds.
    min_rtt_at: u64,

    // Rounds: a round is over when data that was sent after its start is acknowledged.
    rounds: u64,
    round_end: u64,
    round_start: bool,

    // Gains.
    pacing_gain: u32,
    cwnd_gain: u32,
    phase: usize,
    phase_start: u64,

    // The end of STARTUP.
    full: bool,
    full_bandwidth: u32,
    full_rounds: u32,

    // PROBE_RTT.
    /// When it may end, in milliseconds, once little is in flight.
    probe_rtt_until: Option<u64>,
    probe_rtt_round_done: bool,
    /// The data sent in it, by the count delivered then. Its bandwidth is not used.
    probe_rtt_sent: Option<(u64, u64)>,

    // The window in recovery and PROBE_RTT.
    prior_cwnd: u32,
    packet_conservation: bool,

    idle_restart: bool,
    seen_rtt: bool,
}

impl Bbr {
    pub(super) fn new(mss: u32, now: Nanos, seed: u64) -> Self {
        Self {
            mss: mss.max(1),
            // Written out, as seed_from_u64 may change with the library.
            random: Pcg32::new(seed, 0x0a02_bdbf_7bb3_c0a7),
            mode: Mode::Startup,
            delivered: 0,
            delivered_at: micros(now),
            lost: 0,
            srtt: None,
            state: LossState::Open,
            prior_state: LossState::Open,
            max_bandwidth: MaxFilter::default(),
            policer: LongTerm::default(),
            aggregation: Aggregation::default(),
            min_rtt: None,
            min_rtt_at: now / MILLISECOND,
            rounds: 0,
            round_end: 0,
            round_start: false,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            phase: 0,
            phase_start: 0,
            full: false,
            full_bandwidth: 0,
            full_rounds: 0,
            probe_rtt_until: None,
            probe_rtt_round_done: false,
            probe_rtt_sent: None,
            prior_cwnd: 0,
            packet_conservation: false,
            idle_restart: false,
            seen_rtt: false,
        }
    }

    /// Its name in results, as `ss` prints it.
    pub(super) fn phase(&self) -> &'static str {
        match self.mode {
            Mode::Startup => "startup",
            Mode::Drain => "drain",
            Mode::ProbeBandwidth => "probe-bw",
            Mode::ProbeRtt => "probe-rtt",
        }
    }

    /// Linux `bbr_init`.
    pub(super) fn on_established(&mut self, now: Nanos, rtt: Option<Nanos>, window: &mut Window) {
        self.srtt = rtt.map(micros);
        self.min_rtt = self.srtt.map(clamped);
        self.min_rtt_at = now / MILLISECOND;
        self.aggregation.restart(micros(now));
        self.pace_from_rtt(window);
    }

    /// Losses do not lower the threshold; the window is kept for afterwards (Linux
    /// `bbr_ssthresh`).
    pub(super) fn ssthresh(&mut self, window: &Window) -> u32 {
        self.save_window(window);
        window.ssthresh
    }

    pub(super) fn on_lost(&mut self, lost: u64) {
        self.lost = lost;
    }

    /// Linux `bbr_set_state`: a timeout ends a round, and is a loss to the detector of policers.
    pub(super) fn on_state(&mut self, state: LossState) {
        self.state = state;
        if state == LossState::Loss {
            self.prior_state = LossState::Loss;
            self.full_bandwidth = 0;
            self.round_start = true;
            self.look_for_policer(true, false);
        }
    }

    /// Linux `bbr_cwnd_event`: after idling there is no need for more than the bandwidth. Linux does
    /// so if the application had nothing to send; with nothing in flight that is the case unless
    /// all was lost.
    pub(super) fn on_restart(&mut self, now: Nanos, window: &mut Window) {
        if self.state == LossState::Loss {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(micros(now));
        match self.mode {
            Mode::ProbeBandwidth => self.pace(self.bandwidth(), GAIN, window),
            Mode::ProbeRtt => self.end_probe_rtt(now / MILLISECOND, window),
            Mode::Startup | Mode::Drain => {}
        }
    }

    /// Linux `bbr_main`.
    pub(super) fn control(&mut self, now: Nanos, sample: &AckSample, window: &mut Window) {
        self.state = sample.state;
        self.delivered = sample.delivered;
        self.lost = sample.lost_total;
        self.srtt = sample.srtt.map(micros).or(self.srtt);
        if sample.acked > 0 {
            self.delivered_at = micros(now);
        }
        self.update_bandwidth(sample);
        self.update_aggregation(sample, window);
        self.update_phase(now, sample, window);
        self.check_full(sample);
        self.check_drain(now, sample, window);
        self.update_min_rtt(now, sample, window);
        self.update_gains();
        let bandwidth = self.bandwidth();
        self.pace(bandwidth, self.pacing_gain, window);
        self.set_window(sample, bandwidth, window);
    }

    /// A needless slow-down: the path may not have been full (Linux `bbr_undo_cwnd`).
    pub(super) fn undo(&mut self, window: &Window) -> u32 {
        self.full_bandwidth = 0;
        self.full_rounds = 0;
        self.policer.reset();
        window.cwnd
    }

    /// The bandwidth of the path, or of a policer.
    fn bandwidth(&self) -> u32 {
        self.policer
            .bandwidth()
            .unwrap_or_else(|| self.max_bandwidth.get())
    }

    /// Linux `bbr_update_bw`.
    fn update_bandwidth(&mut self, sample: &AckSample) {
        self.round_start = false;
        let interval = micros(sample.interval);
        let Some(delivered) = sample.delivered_over.filter(|_| interval > 0) else {
            return;
        };
        if sample.prior_delivered >= self.round_end {
            self.round_end = self.delivered;
            self.rounds += 1;
            self.round_start = true;
            self.packet_conservation = false;
        }
        let app_limited = self.is_app_limited(sample);
        self.look_for_policer(sample.lost > 0, app_limited);
        let bandwidth = bandwidth::of(u64::from(delivered), interval);
        // A sample that the application limited is used only if it is larger.
        if !app_limited || bandwidth >= self.max_bandwidth.get() {
            self.max_bandwidth
                .update(BANDWIDTH_ROUNDS, self.rounds, bandwidth);
        }
    }

    /// Linux lets PROBE_RTT mark the data it sends as app-limited (`tp->app_limited`). Here the
    /// delivered count at that time shows this.
    fn is_app_limited(&self, sample: &AckSample) -> bool {
        sample.app_limited
            || self
                .probe_rtt_sent
                .is_some_and(|(from, to)| (from..=to).contains(&sample.prior_delivered))
    }

    fn look_for_policer(&mut self, losses: bool, app_limited: bool) {
        let verdict = self.policer.on_event(Event {
            losses,
            app_limited,
            round_start: self.round_start,
            probing: self.mode == Mode::ProbeBandwidth,
            delivered: self.delivered,
            lost: self.lost,
            delivered_at: self.delivered_at / 1000,
            mss: self.mss,
        });
        match verdict {
            Verdict::Nothing => {}
            Verdict::Policed => self.pacing_gain = GAIN,
            Verdict::Released => self.probe_bandwidth(),
        }
    }

    fn update_aggregation(&mut self, sample: &AckSample, window: &Window) {
        let valid = sample.delivered_over.is_some() && micros(sample.interval) > 0;
        if sample.acked > 0 && valid {
            let bandwidth = self.bandwidth();
            self.aggregation.update(
                self.delivered_at,
                sample.acked,
                self.round_start,
                bandwidth,
                window.cwnd,
            );
        }
    }

    /// The cycle goes on (Linux `bbr_update_cycle_phase`).
    fn update_phase(&mut self, now: Nanos, sample: &AckSample, window: &Window) {
        if self.mode == Mode::ProbeBandwidth && self.is_phase_over(now, sample, window) {
            self.next_phase();
        }
    }

    /// Linux `bbr_is_next_cycle_phase`.
    fn is_phase_over(&self, now: Nanos, sample: &AckSample, window: &Window) -> bool {
        let elapsed = self.delivered_at.saturating_sub(self.phase_start);
        let full_length = elapsed > u64::from(self.min_rtt.unwrap_or(u32::MAX));
        if self.pacing_gain == GAIN {
            return full_length;
        }
        let in_network = self.in_network(now, sample, sample.prior_in_flight, window);
        let target = |gain| self.in_flight_for(self.max_bandwidth.get(), gain, window);
        if self.pacing_gain > GAIN {
            // A probe lasts until enough is in flight, which takes longer than a round trip on a
            // short path, or until too much is in flight.
            full_length && (sample.lost > 0 || in_network >= target(self.pacing_gain))
        } else {
            full_length || in_network <= target(GAIN)
        }
    }

    fn next_phase(&mut self) {
        self.phase = (self.phase + 1) % CYCLE.len();
        self.phase_start = self.delivered_at;
    }

    /// Linux `bbr_reset_probe_bw_mode`; the random number as its `prandom_u32_max`.
    fn probe_bandwidth(&mut self) {
        self.mode = Mode::ProbeBandwidth;
        let random = (u64::from(self.random.next_u32()) * START_PHASES) >> 32;
        self.phase = CYCLE.len() - 1 - random as usize;
        self.next_phase();
    }

    /// Linux `bbr_check_full_bw_reached`.
    fn check_full(&mut self, sample: &AckSample) {
        if self.full || !self.round_start || self.is_app_limited(sample) {
            return;
        }
        let max = self.max_bandwidth.get();
        if u64::from(max) >= u64::from(self.full_bandwidth) * 5 / 4 {
            self.full_bandwidth = max;
            self.full_rounds = 0;
        } else {
            self.full_rounds += 1;
            self.full = self.full_rounds >= FULL_ROUNDS;
        }
    }

    /// Linux `bbr_check_drain`.
    fn check_drain(&mut self, now: Nanos, sample: &AckSample, window: &mut Window) {
        let started = self.mode == Mode::Startup && self.full;
        if !started && self.mode != Mode::Drain {
            return;
        }
        let target = self.in_flight_for(self.max_bandwidth.get(), GAIN, window);
        if started {
            self.mode = Mode::Drain;
            window.ssthresh = target;
        }
        // It may have drained already.
        if self.in_network(now, sample, sample.in_flight, window) <= target {
            self.probe_bandwidth();
        }
    }

    /// Linux `bbr_update_gains`.
    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBandwidth if self.policer.bandwidth().is_some() => (GAIN, CWND_GAIN),
            Mode::ProbeBandwidth => (CYCLE[self.phase], CWND_GAIN),
            Mode::ProbeRtt => (GAIN, GAIN),
        };
    }
}

/// As the kernel's 32 bits.
fn clamped(micros: u64) -> u32 {
    u32::try_from(micros).unwrap_or(u32::MAX)
}
