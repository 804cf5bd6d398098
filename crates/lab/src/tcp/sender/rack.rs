//! Loss by time, RFC 8985 as in Linux tcp_recovery.c. A segment is lost if one that was sent after
//! it was delivered, and if it is in flight for longer than that one's round trip and the
//! reordering window.

use tidegate_limiter::Nanos;

use super::super::cc::LossState;
use super::Sender;
use super::scoreboard::Sent;
use super::timeout::{TIMER_MARGIN, Timer};

/// Recoveries for which a window grown by DSACK is kept (`TCP_RACK_RECOVERY_THRESH`).
const PERSIST: u8 = 16;

/// The delivered segment that was sent last, and the reordering to expect.
#[derive(Debug, Clone)]
pub(super) struct Rack {
    order: u64,
    rtt: Nanos,
    /// There is news since the last search for losses.
    pub(super) advanced: bool,
    /// A duplicate was reported that reordering may have caused.
    pub(super) duplicate_seen: bool,
    /// Reordering window in quarters of the smallest round trip.
    steps: u8,
    pub(super) persist: u8,
    last_delivered: u64,
}

impl Rack {
    pub(super) fn new() -> Self {
        Self {
            order: 0,
            rtt: 0,
            advanced: false,
            duplicate_seen: false,
            steps: 1,
            persist: 0,
            last_delivered: 0,
        }
    }

    /// A segment is delivered, RFC 8985 §6.2 step 2. A retransmitted one may be acknowledged for
    /// its first transmission, so it does not count if the acknowledgement comes too soon.
    pub(super) fn on_delivered(&mut self, now: Nanos, sent: &Sent, smallest: Option<Nanos>) {
        let rtt = now.saturating_sub(sent.sent_at);
        let doubtful = sent.ever_again && smallest.is_some_and(|smallest| rtt < smallest);
        if sent.order <= self.order || doubtful {
            return;
        }
        self.order = sent.order;
        self.rtt = rtt;
        self.advanced = true;
    }

    /// Adapts the reordering window once a round trip, RFC 8985 §6.2 step 4. It grows by a quarter
    /// for every round trip with duplicates, and returns to one quarter after 16 recoveries
    /// without.
    pub(super) fn adapt(&mut self, prior_delivered: u64, delivered: u64) {
        if prior_delivered == 0 {
            return;
        }
        if prior_delivered < self.last_delivered {
            self.duplicate_seen = false;
        }
        if self.duplicate_seen {
            self.steps = self.steps.saturating_add(1);
            self.duplicate_seen = false;
            self.last_delivered = delivered;
            self.persist = PERSIST;
        } else if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// A recovery ended without being undone.
    pub(super) fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
    }

    /// A recovery was undone because of duplicates.
    pub(super) fn on_duplicates(&mut self) {
        self.persist = (self.persist + 1).min(PERSIST);
    }

    /// How much longer a segment may be in flight; zero if it is lost.
    pub(super) fn remaining(&self, now: Nanos, sent: &Sent, window: Nanos) -> Nanos {
        (self.rtt + window).saturating_sub(now.saturating_sub(sent.sent_at))
    }
}

impl Sender {
    /// How long to wait for segments that were overtaken (`tcp_rack_reo_wnd`). It is 0 while no
    /// reordering was seen, if losses are repaired or three segments have overtaken.
    fn reordering_window(&self) -> Nanos {
        if self.reordering_seen == 0
            && (matches!(self.state, LossState::Recovery | LossState::Loss)
                || self.board.sacked_out >= self.reordering)
        {
            return 0;
        }
        let quarter = self.rtt.smallest().unwrap_or(0) / 4;
        let window = quarter.saturating_mul(Nanos::from(self.rack.steps));
        window.min(self.rtt.smoothed().unwrap_or(0))
    }

    /// Marks segments that are lost by time. Returns the longest time to wait for others
    /// (`tcp_rack_detect_loss`).
    pub(super) fn detect_losses(&mut self, now: Nanos) -> Nanos {
        let window = self.reordering_window();
        let mut wait = 0;
        let mut next = self.board.oldest();
        while let Some(number) = next {
            next = self.board.newer(number);
            let Some(sent) = self.board.get(number) else {
                break;
            };
            if sent.order >= self.rack.order {
                break;
            }
            match self.rack.remaining(now, sent, window) {
                0 => self.mark_lost(now, number),
                remaining => wait = wait.max(remaining),
            }
        }
        wait
    }

    /// After an acknowledgement with news: marks lost segments, and sets the timer for those that
    /// may be lost. Returns whether it is set (`tcp_rack_mark_lost`).
    pub(super) fn detect_losses_and_wait(&mut self, now: Nanos) -> bool {
        if !std::mem::take(&mut self.rack.advanced) {
            return false;
        }
        let wait = self.detect_losses(now);
        if wait > 0 {
            let wait = (wait + TIMER_MARGIN).min(self.rtt.rto());
            self.set_short_timer(Timer::Reorder, now, wait);
        }
        wait > 0
    }
}
