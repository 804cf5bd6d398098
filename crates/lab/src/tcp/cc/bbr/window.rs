//! From the model to the window and the pacing rate.

use tidegate_limiter::Nanos;

use super::super::{AckSample, LossState, Window, micros};
use super::bandwidth::{self, GAIN};
use super::{Bbr, HIGH_GAIN, INITIAL_WINDOW, MIN_WINDOW, Mode};

/// Bytes per second (1.2 Mbit/s) below which super-packets are a single segment.
const MIN_TSO_RATE: u64 = 1_200_000 / 8;
/// Bytes of the largest super-packet.
const MAX_TSO_SIZE: u64 = 65_536 - 1 - 320;

impl Bbr {
    /// Linux `bbr_init_pacing_rate_from_rtt`: the initial window in a round trip, or in a
    /// millisecond if none was measured.
    pub(super) fn pace_from_rtt(&mut self, window: &mut Window) {
        self.seen_rtt |= self.srtt.is_some();
        let rtt = self.srtt.map_or(1000, |srtt| srtt.max(1));
        let bandwidth = bandwidth::of(u64::from(window.cwnd), rtt);
        window.pacing_rate = Some(self.pacing_rate(bandwidth, HIGH_GAIN));
    }

    /// Linux `bbr_set_pacing_rate`: until the path is full the rate only rises.
    pub(super) fn pace(&mut self, bandwidth: u32, gain: u32, window: &mut Window) {
        if window.pacing_rate.is_none() || !self.seen_rtt && self.srtt.is_some() {
            self.pace_from_rtt(window);
        }
        let rate = self.pacing_rate(bandwidth, gain);
        if self.full || window.pacing_rate.is_none_or(|before| rate > before) {
            window.pacing_rate = Some(rate);
        }
    }

    /// Never 0: at that rate nothing would ever leave.
    fn pacing_rate(&self, bandwidth: u32, gain: u32) -> u64 {
        bandwidth::bytes_per_second(bandwidth, self.mss, gain).max(1)
    }

    /// The last window known to be good (Linux `bbr_save_cwnd`).
    pub(super) fn save_window(&mut self, window: &Window) {
        self.prior_cwnd = if !is_repairing(self.prior_state) && self.mode != Mode::ProbeRtt {
            window.cwnd
        } else {
            self.prior_cwnd.max(window.cwnd)
        };
    }

    /// The segments that the path holds, times a gain, rounded up (Linux `bbr_bdp`).
    fn bdp(&self, bandwidth: u32, gain: u32) -> u32 {
        let Some(min_rtt) = self.min_rtt else {
            return INITIAL_WINDOW;
        };
        let product = u128::from(bandwidth) * u128::from(min_rtt) * u128::from(gain);
        let segments = (product / u128::from(GAIN)).div_ceil(u128::from(bandwidth::UNIT));
        u32::try_from(segments).unwrap_or(u32::MAX)
    }

    /// Segments that should be in flight at this bandwidth and gain (Linux `bbr_inflight`).
    pub(super) fn in_flight_for(&self, bandwidth: u32, gain: u32, window: &Window) -> u32 {
        self.quantized(self.bdp(bandwidth, gain), window)
    }

    /// Room for the super-packets that hosts at both ends hold. An even number, because every
    /// second segment is acknowledged (Linux `bbr_quantization_budget`). The lab sends single
    /// segments, but without that room its window would differ from that of Linux.
    fn quantized(&self, cwnd: u32, window: &Window) -> u32 {
        let cwnd = cwnd.saturating_add(3 * self.super_packet(window));
        let cwnd = cwnd.saturating_add(cwnd % 2);
        if self.mode == Mode::ProbeBandwidth && self.phase == 0 {
            cwnd.saturating_add(2)
        } else {
            cwnd
        }
    }

    /// Segments of a super-packet: those that leave in a millisecond (Linux `bbr_tso_segs_goal`).
    fn super_packet(&self, window: &Window) -> u32 {
        let rate = window.pacing_rate.unwrap_or(0);
        let least = if rate < MIN_TSO_RATE { 1 } else { 2 };
        let segments = (rate >> 10).min(MAX_TSO_SIZE) / u64::from(self.mss);
        segments.max(least).min(0x7f) as u32
    }

    /// The segments in flight when the next one leaves (Linux `bbr_packets_in_net_at_edt`).
    pub(super) fn in_network(
        &self,
        now: Nanos,
        sample: &AckSample,
        in_flight: u32,
        window: &Window,
    ) -> u32 {
        let wait = micros(sample.next_departure.saturating_sub(now));
        let delivered = bandwidth::segments(self.bandwidth(), wait);
        let leaving = if self.pacing_gain > GAIN {
            self.super_packet(window)
        } else {
            0
        };
        in_flight.saturating_add(leaving).saturating_sub(delivered)
    }

    /// Linux `bbr_set_cwnd`.
    pub(super) fn set_window(&mut self, sample: &AckSample, bandwidth: u32, window: &mut Window) {
        if sample.acked > 0 && !self.recover_or_restore(sample, window) {
            let extra = if self.full {
                self.aggregation.extra(bandwidth)
            } else {
                0
            };
            let target = self.bdp(bandwidth, self.cwnd_gain).saturating_add(extra);
            let target = self.quantized(target, window);
            let grown = window.cwnd.saturating_add(sample.acked);
            if self.full {
                window.cwnd = grown.min(target);
            } else if window.cwnd < target || self.delivered < u64::from(INITIAL_WINDOW) {
                window.cwnd = grown;
            }
            window.cwnd = window.cwnd.max(MIN_WINDOW);
        }
        if self.mode == Mode::ProbeRtt {
            window.cwnd = window.cwnd.min(MIN_WINDOW);
        }
    }

    /// In the first round of recovery one segment leaves for each delivered, then two at most; after
    /// it the window is what it was. True if the window is set (Linux
    /// `bbr_set_cwnd_to_recover_or_restore`).
    fn recover_or_restore(&mut self, sample: &AckSample, window: &mut Window) -> bool {
        let conserving = sample.in_flight.saturating_add(sample.acked);
        if sample.lost > 0 {
            window.cwnd = window.cwnd.saturating_sub(sample.lost).max(1);
        }
        if sample.state == LossState::Recovery && self.prior_state != LossState::Recovery {
            self.packet_conservation = true;
            self.round_end = self.delivered;
            window.cwnd = conserving;
        } else if is_repairing(self.prior_state) && !is_repairing(sample.state) {
            self.packet_conservation = false;
            window.cwnd = window.cwnd.max(self.prior_cwnd);
        }
        self.prior_state = sample.state;
        if self.packet_conservation {
            window.cwnd = window.cwnd.max(conserving);
        }
        self.packet_conservation
    }
}

fn is_repairing(state: LossState) -> bool {
    matches!(state, LossState::Recovery | LossState::Loss)
}
