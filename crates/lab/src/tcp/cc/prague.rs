//! Prague: as DCTCP for the internet, draft-briscoe-iccrg-prague-congestion-control and Linux `tcp_prague.c` of the
//! L4S team, without its detection of AQMs for RFC 3168.

use tidegate_limiter::Nanos;

use super::{AckSample, LossState, Window};
use crate::{MILLISECOND, SECOND};

#[cfg(test)]
mod tests;

/// One segment, and all packets marked, as fractions are counted.
const ONE: i64 = 1 << 20;
/// The share is averaged over 2^4 round trips.
const SHIFT: u32 = 4;
const MIN_CWND: u32 = 2;
/// Flows with shorter round trips share as if theirs were this long (draft §2.4.4).
const VIRTUAL_RTT: Nanos = 25 * MILLISECOND;
/// Round trips after slow start before they do.
const TRANSITION: u32 = 500;

/// The state of Prague.
#[derive(Debug, Clone)]
pub struct Prague {
    mss: u64,
    /// The share of marked packets, times 2^4, and when it was updated.
    share: i64,
    share_at: Nanos,
    /// The fraction of a segment that the window is above its whole number; below 0 while it must shrink.
    carry: i64,
    reduced_at: Nanos,
    /// The round trip ends when this byte is acknowledged.
    round_end: u64,
    /// Round trips since slow start.
    rounds: u32,
    delivered: u64,
    marked: u64,
    is_marked: bool,
    in_loss: bool,
    /// The window before a loss.
    prior_cwnd: u32,
}

impl Prague {
    pub(super) fn new(mss: u32) -> Self {
        Self {
            mss: mss.into(),
            share: ONE << SHIFT,
            share_at: 0,
            carry: 0,
            reduced_at: 0,
            round_end: 0,
            rounds: 0,
            delivered: 0,
            marked: 0,
            is_marked: false,
            in_loss: false,
            prior_cwnd: 0,
        }
    }

    /// The window shrinks with later acknowledgements. Slow start ends.
    pub(super) fn ssthresh(&mut self, window: &Window) -> u32 {
        self.prior_cwnd = window.cwnd;
        window.cwnd.max(MIN_CWND)
    }

    pub(super) fn on_state(&mut self, now: Nanos, state: LossState, window: &mut Window) {
        let half = |cwnd: u32| i64::from(cwnd) * ONE / 2;
        match state {
            // Half the share of marks, once in a round trip or in the virtual one.
            LossState::Cwr if !self.is_virtual() || now - self.reduced_at >= VIRTUAL_RTT => {
                self.reduced_at = now;
                let share = (self.share >> SHIFT).min(ONE);
                self.carry -= (half(window.cwnd) * share + ONE / 2) / ONE;
            }
            LossState::Recovery => {
                self.prior_cwnd = window.cwnd;
                self.carry -= half(window.cwnd) + self.carry / 2;
                self.in_loss = true;
            }
            LossState::Loss => {
                window.ssthresh = (self.prior_cwnd / 2).max(MIN_CWND);
                self.carry = 0;
                self.in_loss = false;
            }
            LossState::Open => self.in_loss = false,
            LossState::Cwr | LossState::Disorder => {}
        }
    }

    /// Whether the virtual round trip counts.
    fn is_virtual(&self) -> bool {
        self.rounds >= TRANSITION
    }

    pub(super) fn control(&mut self, now: Nanos, sample: &AckSample, window: &mut Window) {
        self.delivered += u64::from(sample.acked);
        self.marked += u64::from(sample.marked);
        self.is_marked |= sample.marked > 0;
        self.move_window(sample, window);
        let elapsed = !self.is_virtual() || now.saturating_sub(self.share_at) >= VIRTUAL_RTT;
        if sample.snd_una >= self.round_end && elapsed {
            self.end_round(now, window);
            self.round_end = sample.snd_nxt;
        }
        let Some(srtt) = sample.srtt.filter(|&srtt| srtt > 0) else {
            return;
        };
        // Twice the window over a round trip in slow start, since it doubles.
        let ahead = if window.cwnd < window.ssthresh / 2 {
            2
        } else {
            1
        };
        let segments = u64::from(window.cwnd.max(sample.in_flight)) * ahead;
        let rate = u128::from(segments * self.mss) * u128::from(SECOND) / u128::from(srtt);
        window.pacing_rate = Some(u64::try_from(rate).unwrap_or(u64::MAX).max(1));
    }

    /// Grows for packets without marks, by one segment in a round trip, and shrinks by one segment an acknowledgement.
    fn move_window(&mut self, sample: &AckSample, window: &mut Window) {
        let mut acked = sample.acked.saturating_sub(sample.marked);
        if acked > 0 && !self.in_loss && sample.cwnd_limited {
            if window.in_slow_start() {
                let room = window.ssthresh.saturating_sub(window.cwnd).min(acked);
                window.cwnd += room;
                acked -= room;
            }
            let cwnd = i64::from(window.cwnd.max(1));
            self.carry += (i64::from(acked) * self.increase(sample.srtt) + cwnd / 2) / cwnd;
        }
        if self.carry <= -ONE {
            self.carry += ONE;
            window.cwnd = window.cwnd.saturating_sub(1);
            if window.cwnd < MIN_CWND {
                (window.cwnd, self.carry) = (MIN_CWND, 0);
            }
            window.ssthresh = window.cwnd;
        } else if self.carry >= ONE {
            self.carry -= ONE;
            window.cwnd = window.cwnd.saturating_add(1);
        }
    }

    /// The growth of the window in a round trip: a segment, or less at short round trips, so that the rate grows by as
    /// much as if the round trip were the virtual one.
    fn increase(&self, srtt: Option<Nanos>) -> i64 {
        match srtt {
            Some(srtt) if self.is_virtual() && srtt < VIRTUAL_RTT => {
                let square = u128::from(srtt) * u128::from(srtt) * ONE as u128;
                (square / (u128::from(VIRTUAL_RTT) * u128::from(VIRTUAL_RTT))) as i64
            }
            _ => ONE,
        }
    }

    /// Averages the share of marks, once there was one: before, nothing is known of the path's AQM.
    fn end_round(&mut self, now: Nanos, window: &Window) {
        if self.is_marked {
            let part = self.marked * ONE as u64 / self.delivered.max(1);
            self.share += (part as i64).min(ONE) - (self.share >> SHIFT);
            self.share_at = now;
        }
        (self.delivered, self.marked) = (0, 0);
        if !window.in_slow_start() {
            self.rounds = self.rounds.saturating_add(1);
        }
    }

    pub(super) fn undo(&mut self, window: &Window) -> u32 {
        self.carry = 0;
        window.cwnd.max(self.prior_cwnd)
    }
}
