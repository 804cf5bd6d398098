//! Vegas: it keeps a number of segments in queues, estimated from the round trip.

use super::reno::{Reno, slow_start};
use super::{AckSample, LossState, Window, micros};

#[cfg(test)]
mod tests;

/// Segments in queues below which the window grows.
const ALPHA: u64 = 2;
/// Segments in queues above which it shrinks.
const BETA: u64 = 4;
/// Segments in queues above which slow start ends.
const GAMMA: u64 = 1;

/// Linux `tcp_vegas.c`, after Brakmo and Peterson 1995. Round trips are in microseconds, one more
/// than measured, so that none is 0.
#[derive(Debug, Clone)]
pub struct Vegas {
    reno: Reno,
    /// Whether rounds are measured. They are not while losses are suspected or repaired.
    measuring: bool,
    /// The round ends when this is acknowledged (`beg_snd_nxt`).
    round_end: u64,
    /// The smallest round trip of this round.
    round_rtt: u64,
    /// The number of round trips in it.
    samples: u32,
    /// The smallest round trip since the connection began or was idle: that of an empty path.
    base_rtt: u64,
    snd_nxt: u64,
}

impl Default for Vegas {
    fn default() -> Self {
        Self {
            reno: Reno::default(),
            measuring: true,
            round_end: 0,
            round_rtt: u64::MAX,
            samples: 0,
            base_rtt: u64::MAX,
            snd_nxt: 0,
        }
    }
}

impl Vegas {
    pub(super) fn ssthresh(&mut self, window: &Window) -> u32 {
        self.reno.ssthresh(window)
    }

    pub(super) fn undo(&self, window: &Window) -> u32 {
        self.reno.undo(window)
    }

    /// Linux `tcp_vegas_state`: after any suspicion of loss it behaves like Reno until the state is
    /// Open again.
    pub(super) fn on_state(&mut self, state: LossState) {
        self.reno.on_state(state);
        self.measuring = state == LossState::Open;
        if self.measuring {
            self.round_end = self.snd_nxt;
            self.next_round();
        }
    }

    /// Linux `tcp_vegas_cwnd_event`: after an idle time the path may be another, so all is measured
    /// again. With nothing in flight, the sent bytes are those that the last acknowledgement knew.
    pub(super) fn on_restart(&mut self) {
        self.base_rtt = u64::MAX;
        self.on_state(LossState::Open);
    }

    pub(super) fn on_acked(&mut self, sample: &AckSample) {
        self.snd_nxt = sample.snd_nxt;
        if let Some(rtt) = sample.rtt {
            let rtt = micros(rtt) + 1;
            self.base_rtt = self.base_rtt.min(rtt);
            self.round_rtt = self.round_rtt.min(rtt);
            self.samples = self.samples.saturating_add(1);
        }
    }

    /// Linux `tcp_vegas_cong_avoid`.
    pub(super) fn cong_avoid(&mut self, sample: &AckSample, window: &mut Window) {
        if !self.measuring {
            return self.reno.cong_avoid(sample, window);
        }
        if sample.snd_una <= self.round_end {
            slow_start(sample.acked, window);
            return;
        }
        self.round_end = sample.snd_nxt;
        // One or two round trips in a round are most likely those of delayed acknowledgements.
        if self.samples <= 2 {
            self.reno.cong_avoid(sample, window);
        } else {
            self.adjust(sample, window);
        }
        self.next_round();
    }

    /// Once a round: compares the segments in queues with the wanted number.
    fn adjust(&self, sample: &AckSample, window: &mut Window) {
        let (base, rtt) = (
            u128::from(self.base_rtt),
            u128::from(self.round_rtt.max(self.base_rtt)),
        );
        let cwnd = u128::from(window.cwnd);
        let queued = u64::try_from(cwnd * (rtt - base) / base).unwrap_or(u64::MAX);
        if window.in_slow_start() {
            if queued > GAMMA {
                // The window the path holds without a queue; one more against truncation.
                let target = u32::try_from(cwnd * base / rtt).unwrap_or(u32::MAX);
                window.cwnd = window.cwnd.min(target.saturating_add(1));
                window.ssthresh = window.ssthresh.min(window.cwnd);
            } else {
                slow_start(sample.acked, window);
            }
        } else if queued > BETA {
            window.cwnd = window.cwnd.saturating_sub(1);
            window.ssthresh = window.ssthresh.min(window.cwnd);
        } else if queued < ALPHA {
            window.cwnd = window.cwnd.saturating_add(1);
        }
        window.cwnd = window.cwnd.max(2);
        // Linux tcp_current_ssthresh.
        window.ssthresh = window.ssthresh.max(window.cwnd / 2 + window.cwnd / 4);
    }

    fn next_round(&mut self) {
        self.samples = 0;
        self.round_rtt = u64::MAX;
    }
}
