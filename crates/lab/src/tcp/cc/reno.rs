//! Reno: one segment more each round trip, half the window after a loss.

use super::hystart_plus::HyStartPlus;
use super::{AckSample, LossState, Window};

#[cfg(test)]
mod tests;

/// RFC 5681 with the counters of Linux `tcp_cong.c`, which the other loss-based algorithms share.
#[derive(Debug, Clone, Default)]
pub struct Reno {
    /// Acknowledged segments that have not enlarged the window yet (`snd_cwnd_cnt`).
    credit: u32,
    /// The window before the last reduction (`prior_cwnd`).
    prior_cwnd: u32,
    /// Ends the first slow start, if it is used, which is rare.
    plus: Option<Box<HyStartPlus>>,
}

impl Reno {
    /// Half the window: RFC 5681 equation 4, with the window in place of the flight, as in Linux
    /// `tcp_reno_ssthresh`.
    pub(super) fn ssthresh(&mut self, window: &Window) -> u32 {
        self.reduced(window);
        (window.cwnd / 2).max(2)
    }

    /// Notes the window that is about to be reduced. Linux does this in `tcp_init_cwnd_reduction`
    /// and `tcp_enter_loss`, the callers of `ssthresh`.
    pub(super) fn reduced(&mut self, window: &Window) {
        self.prior_cwnd = window.cwnd;
        self.credit = 0;
    }

    pub(super) fn use_hystart_plus(&mut self, paced: bool) {
        self.plus = Some(Box::new(HyStartPlus::new(paced)));
    }

    /// Whether HyStart++ ends slow start.
    pub(super) fn has_hystart_plus(&self) -> bool {
        self.plus.is_some()
    }

    pub(super) fn on_acked(&mut self, sample: &AckSample, window: &mut Window) {
        if let Some(plus) = &mut self.plus {
            plus.on_acked(sample, window);
        }
    }

    /// Lets the window grow in slow start. Returns the segments that are left, all of them if it is over.
    pub(super) fn slow_start(&mut self, acked: u32, window: &mut Window) -> u32 {
        match &mut self.plus {
            Some(plus) if window.ssthresh == u32::MAX => {
                plus.grow(acked, window);
                0
            }
            _ => slow_start(acked, window),
        }
    }

    pub(super) fn on_state(&mut self, state: LossState) {
        // Linux tcp_enter_loss: also when a timeout follows another and the threshold stays.
        if state == LossState::Loss {
            self.credit = 0;
        }
    }

    /// Linux `tcp_reno_cong_avoid`.
    pub(super) fn cong_avoid(&mut self, sample: &AckSample, window: &mut Window) {
        if !sample.cwnd_limited {
            return;
        }
        let acked = self.slow_start(sample.acked, window);
        if acked > 0 {
            self.increase(window.cwnd, acked, window);
        }
    }

    /// One segment more for each `per` acknowledged (Linux `tcp_cong_avoid_ai`).
    pub(super) fn increase(&mut self, per: u32, acked: u32, window: &mut Window) {
        let per = per.max(1);
        // Segments that were counted for a larger step are used gently, one at once.
        if self.credit >= per {
            self.credit = 0;
            window.cwnd = window.cwnd.saturating_add(1);
        }
        self.credit = self.credit.saturating_add(acked);
        window.cwnd = window.cwnd.saturating_add(self.credit / per);
        self.credit %= per;
    }

    pub(super) fn undo(&self, window: &Window) -> u32 {
        window.cwnd.max(self.prior_cwnd)
    }
}

/// The window grows by one segment for each acknowledged one, up to the threshold. Returns the
/// segments that are left, all of them if slow start is over. Only whole segments count, which
/// guards against divided acknowledgements as RFC 3465 does, and a stretched acknowledgement counts
/// in full (Linux `tcp_slow_start`).
pub(super) fn slow_start(acked: u32, window: &mut Window) -> u32 {
    if !window.in_slow_start() {
        return acked;
    }
    let cwnd = window.cwnd.saturating_add(acked).min(window.ssthresh);
    let left = acked - (cwnd - window.cwnd);
    window.cwnd = cwnd;
    left
}
