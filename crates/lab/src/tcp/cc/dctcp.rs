//! DCTCP: the window shrinks by half the share of marked packets.

use super::reno::Reno;
use super::{AckSample, LossState, Window};

#[cfg(test)]
mod tests;

/// All packets marked.
const ALL: u32 = 1024;
/// The share is averaged over 2^4 round trips: g of RFC 8257 §4.1.
const SHIFT: u32 = 4;

/// RFC 8257 as in Linux `tcp_dctcp.c`.
#[derive(Debug, Clone)]
pub struct Dctcp {
    reno: Reno,
    /// α: the share of marked packets, of [`ALL`].
    share: u32,
    /// The round trip ends when this byte is acknowledged.
    round_end: u64,
    /// Of this round trip.
    delivered: u64,
    marked: u64,
    /// The window before the last reduction, to undo it.
    prior_cwnd: u32,
}

impl Default for Dctcp {
    fn default() -> Self {
        Self {
            reno: Reno::default(),
            share: ALL,
            round_end: 0,
            delivered: 0,
            marked: 0,
            prior_cwnd: 0,
        }
    }
}

impl Dctcp {
    /// Less by half the share (`dctcp_ssthresh`).
    pub(super) fn ssthresh(&mut self, window: &Window) -> u32 {
        self.reno.reduced(window);
        self.prior_cwnd = window.cwnd;
        let less = (u64::from(window.cwnd) * u64::from(self.share)) >> 11;
        (window.cwnd - less as u32).max(2)
    }

    /// Losses halve the window, RFC 8257 §3.5 (`dctcp_react_to_loss`).
    pub(super) fn on_state(&mut self, state: LossState, window: &mut Window) {
        self.reno.on_state(state);
        if state == LossState::Recovery {
            self.prior_cwnd = window.cwnd;
        }
        if matches!(state, LossState::Recovery | LossState::Loss) {
            window.ssthresh = window.ssthresh.min((self.prior_cwnd / 2).max(2));
        }
    }

    /// Counts marks, and averages them at the end of each round trip (`dctcp_update_alpha`).
    pub(super) fn on_acked(&mut self, sample: &AckSample) {
        self.delivered += u64::from(sample.acked);
        self.marked += u64::from(sample.marked);
        if sample.snd_una < self.round_end {
            return;
        }
        let part = (self.marked << (10 - SHIFT)) / self.delivered.max(1);
        // A share below 2^4 of 1024 goes at once, as in Linux (`min_not_zero`).
        let less = match self.share >> SHIFT {
            0 => self.share,
            less => less,
        };
        self.share = (self.share - less + part as u32).min(ALL);
        self.round_end = sample.snd_nxt;
        (self.delivered, self.marked) = (0, 0);
    }

    /// As Reno.
    pub(super) fn cong_avoid(&mut self, sample: &AckSample, window: &mut Window) {
        self.reno.cong_avoid(sample, window);
    }

    pub(super) fn undo(&self, window: &Window) -> u32 {
        window.cwnd.max(self.prior_cwnd)
    }
}
