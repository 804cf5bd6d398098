//! The congestion control: a segment more in a round trip, and four fifths of the window after a loss.

use tidegate_lab::Nanos;
use tidegate_lab::tcp::cc::{AckSample, Controller, Window};

/// Additive increase, and multiplicative decrease to 80 %.
#[derive(Debug, Clone, Default)]
pub struct Gentle {
    /// Acknowledged segments that have not enlarged the window yet.
    credit: u32,
    /// The window before the last reduction, to undo it.
    before: u32,
    slow_start: bool,
}

impl Controller for Gentle {
    fn ssthresh(&mut self, _now: Nanos, window: &Window) -> u32 {
        self.before = window.cwnd;
        (window.cwnd * 4 / 5).max(2)
    }

    fn cong_avoid(&mut self, _now: Nanos, sample: &AckSample, window: &mut Window) {
        self.slow_start = window.in_slow_start();
        if !sample.cwnd_limited {
            return;
        }
        if self.slow_start {
            window.cwnd = window.cwnd.saturating_add(sample.acked);
            return;
        }
        self.credit += sample.acked;
        while self.credit >= window.cwnd {
            self.credit -= window.cwnd;
            window.cwnd += 1;
        }
    }

    fn undo(&mut self, window: &Window) -> u32 {
        window.cwnd.max(self.before)
    }

    fn phase(&self) -> Option<&'static str> {
        Some(if self.slow_start {
            "slow-start"
        } else {
            "avoidance"
        })
    }
}
