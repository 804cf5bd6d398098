//! The one timer of the sending half, as in Linux (`icsk_pending`): a retransmission timeout, a
//! tail loss probe, the wait for reordered segments, or a probe of a closed window.

use tidegate_limiter::Nanos;

use super::super::Sacks;
use super::super::cc::LossState;
use super::{Forced, MAX_RTO, Outgoing, REORDERING, Resend, Sender};
use crate::{MILLISECOND, SECOND};

#[cfg(test)]
mod tests;

/// Added to the shorter timers (Linux `TCP_TIMEOUT_MIN_US`).
pub(super) const TIMER_MARGIN: Nanos = 2 * MILLISECOND;
/// Timers of Linux fire at ticks: every 4 ms with the usual `CONFIG_HZ` of 250. This is much for
/// the shorter timers.
const TICK: Nanos = 4 * MILLISECOND;

/// When Linux wakes a task that at `now` asks to be woken after `wait`. Linux rounds up to ticks
/// (`usecs_to_jiffies`), counts from the last tick, and adds one, so that it is never early
/// (kernel/time/timer.c `calc_index`).
fn at_tick(now: Nanos, wait: Nanos) -> Nanos {
    (now / TICK + wait.div_ceil(TICK) + 1).saturating_mul(TICK)
}

/// The purpose of the timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// Retransmission timeout, RFC 6298.
    Retransmit,
    /// Tail loss probe, RFC 8985 §7.
    Probe,
    /// Reordering window of RACK, RFC 8985 §6.2.
    Reorder,
    /// Zero-window probe, RFC 9293 §3.8.6.1.
    ClosedWindow,
}

impl Sender {
    /// Pacing delays segments that the timer waits for, so it delays the timer
    /// (`tcp_pacing_delay`).
    fn pacing_delay(&self, now: Nanos) -> Nanos {
        if self.is_paced() {
            self.pacer.burst_at().saturating_sub(now)
        } else {
            0
        }
    }

    pub(super) fn set_timer(&mut self, timer: Timer, at: Nanos) {
        self.timer = Some((timer, at));
    }

    /// Sets one of the shorter timers.
    pub(super) fn set_short_timer(&mut self, timer: Timer, now: Nanos, wait: Nanos) {
        self.timer = Some((timer, at_tick(now, wait)));
    }

    /// Restarts the retransmission timer, RFC 6298 §5.3. If it replaces a shorter timer, it counts
    /// from the time when the first segment was sent (`tcp_rearm_rto`).
    pub(super) fn rearm_rto(&mut self, now: Nanos) {
        if self.quic.is_some() {
            self.set_quic_timer(now);
            return;
        }
        let Some(first) = self.board.front() else {
            self.timer = None;
            return;
        };
        let at = match self.timer {
            Some((Timer::Reorder | Timer::Probe, _)) => {
                (first.sent_at + self.rtt.rto()).max(now + 1000)
            }
            _ => now + self.rtt.rto(),
        };
        self.set_timer(Timer::Retransmit, at + self.pacing_delay(now));
    }

    /// Sets the timer of a tail loss probe: two round trips from now, and time for a delayed
    /// acknowledgement if one segment is in flight, but not after the timeout
    /// (`tcp_schedule_loss_probe`).
    pub(super) fn schedule_probe(&mut self, now: Nanos, restarted: bool) -> bool {
        if self.quic.is_some() {
            self.set_quic_timer(now);
            return true;
        }
        let Some(first) = self.board.front() else {
            return false;
        };
        if !self.by_time || !matches!(self.state, LossState::Open | LossState::Cwr) {
            return false;
        }
        let wait = match self.rtt.smoothed() {
            Some(smoothed) if self.board.out() == 1 => 2 * smoothed + self.rtt.min_rto(),
            Some(smoothed) => 2 * smoothed + TIMER_MARGIN,
            None => SECOND,
        };
        let rto = if restarted {
            self.rtt.rto()
        } else {
            (first.sent_at + self.rtt.rto()).saturating_sub(now)
        };
        let wait = if rto > 0 { wait.min(rto) } else { wait };
        self.set_short_timer(Timer::Probe, now, wait + self.pacing_delay(now));
        true
    }

    /// After an acknowledgement: sets the timer of the probe, or else of the timeout
    /// (`tcp_set_xmit_timer`).
    pub(super) fn restart_timer(&mut self, now: Nanos) {
        if !self.schedule_probe(now, true) {
            self.rearm_rto(now);
        }
    }

    /// Time has passed.
    pub(in crate::tcp) fn on_timeout(&mut self, now: Nanos) {
        self.end_burst(now);
        if self.blocked_until.is_some_and(|at| at <= now) {
            self.blocked_until = None;
            // Segments that pacing delayed continue when pacing's timer fires (`tcp_tsq_write`).
            if self.resend == Resend::Nothing {
                self.resend = Resend::Lost;
            }
        }
        let Some((timer, _)) = self.timer.filter(|&(_, at)| at <= now) else {
            return;
        };
        if self.quic.is_some() && timer != Timer::ClosedWindow {
            self.on_quic_timer(now, timer);
            return;
        }
        match timer {
            Timer::Retransmit => {
                self.timer = None;
                self.time_out(now);
            }
            Timer::Probe => {
                // One probe at a time.
                if self.probe_high.is_none() && self.board.front().is_some() {
                    self.forced = Some(Forced::Tail);
                    self.timer = None;
                } else {
                    self.rearm_rto(now);
                }
            }
            Timer::Reorder => self.stop_waiting(now),
            Timer::ClosedWindow => {
                self.timer = None;
                self.forced = Some(Forced::Window);
            }
        }
    }

    /// The reordering window has passed (`tcp_rack_reo_timeout`).
    fn stop_waiting(&mut self, now: Nanos) {
        let (in_flight, lost) = (self.board.in_flight(), self.rate.lost);
        self.detect_losses(now);
        if self.board.in_flight() != in_flight {
            if self.state != LossState::Recovery {
                self.enter_recovery(now, false);
                if !self.controlled {
                    self.reduce(1, (self.rate.lost - lost) as u32, false);
                }
            }
            self.resend = Resend::Lost;
        }
        self.rearm_rto(now);
    }

    /// A retransmission timeout (`tcp_retransmit_timer`).
    fn time_out(&mut self, now: Nanos) {
        if self.board.front().is_none() {
            return;
        }
        self.probe_high = None;
        self.counts.timeouts += 1;
        self.enter_loss(now);
        self.timeouts = self.timeouts.saturating_add(1);
        self.forced = Some(Forced::First);
        self.resend = Resend::Lost;
        self.rtt.back_off();
        self.set_timer(Timer::Retransmit, now + self.rtt.rto());
    }

    /// After a timeout (`tcp_enter_loss`).
    fn enter_loss(&mut self, now: Nanos) {
        let new = !matches!(self.state, LossState::Recovery | LossState::Loss);
        self.mark_all_lost(now);
        let calm = matches!(self.state, LossState::Open | LossState::Disorder);
        // The threshold is reduced once for a window's losses.
        if calm || self.high <= self.una || self.state == LossState::Loss && self.timeouts == 0 {
            self.prior_ssthresh = Some(self.current_ssthresh());
            self.window.ssthresh = self.cc.ssthresh(now, &self.window);
            self.begin_undo();
        }
        self.window.cwnd = self.board.in_flight() + 1;
        self.window_moved(now);
        // Many duplicates and still a timeout: there is less reordering than assumed.
        if new && self.board.sacked_out >= REORDERING {
            self.reordering = self.reordering.min(REORDERING);
        }
        self.cwr_due = self.ecn;
        self.cc.on_lost(self.rate.lost);
        self.set_state(now, LossState::Loss);
        self.high = self.next;
        self.probe_high = None;
        // RFC 5682 §3.1: not during another recovery, unless it is the same timeout again.
        self.frto = new || self.timeouts > 0;
    }

    /// Marks segments that a timeout shows to be lost: all, or with RACK the first one and those in
    /// flight for longer than a round trip (`tcp_timeout_mark_lost`). If the first is acknowledged
    /// selectively, the receiver has discarded its data: RFC 2018 §8.
    fn mark_all_lost(&mut self, now: Nanos) {
        let reneged = self.board.front().is_some_and(|first| first.sacked);
        if reneged {
            self.board.forget_sacked();
            self.known_sacks = Sacks::default();
            self.reneged = true;
        } else if !self.sack {
            self.board.sacked_out = 0;
        }
        for number in self.board.first()..self.board.behind() {
            let recent = self.by_time
                && !reneged
                && number != self.board.first()
                && self
                    .board
                    .get(number)
                    .is_some_and(|sent| self.rack.remaining(now, sent, 0) > 0);
            if !recent {
                self.mark_lost(now, number);
            }
        }
        self.marked_below = self.board.first();
    }

    /// The window is closed and nothing is in flight: it must be probed (`tcp_check_probe_timer`).
    pub(super) fn watch_closed_window(&mut self, now: Nanos) {
        if let Some((payload, _)) = self.next_length()
            && self.next + u64::from(payload) > self.window_end()
        {
            // RFC 9293 §3.8.6.1: the interval grows exponentially.
            let shift = self.window_probes.min(10);
            let wait = (self.rtt.rto().max(self.rtt.min_rto()) << shift).min(MAX_RTO);
            self.set_timer(Timer::ClosedWindow, now + wait);
        }
    }

    /// Probes a window that is too small for a segment (`tcp_write_wakeup`): with the bytes that
    /// fit, or else with an empty segment from before the window, which must be answered.
    pub(super) fn probe_window(&mut self, now: Nanos) -> Outgoing {
        let space = self.window_end().saturating_sub(self.next);
        match self.next_length() {
            Some((payload, fin)) if space > 0 => {
                let fits = u64::from(payload).min(space) as u32;
                self.window_probes = 0;
                self.send_new(now, fits, fin && fits == payload)
            }
            _ => {
                self.window_probes = self.window_probes.saturating_add(1);
                self.watch_closed_window(now);
                Outgoing {
                    seq: self.una.saturating_sub(1),
                    payload: 0,
                    fin: false,
                    psh: false,
                    again: false,
                    cwr: false,
                }
            }
        }
    }
}
