//! The states of a sender that suspects losses, as in Linux `tcp_fastretrans_alert`: RFC 6675 and
//! 8985 with SACK, RFC 6582 without; F-RTO (RFC 5682) after timeouts. Unnecessary reductions are
//! undone by timestamps (Eifel, RFC 3522) and by reported duplicates (RFC 3708).

use tidegate_limiter::Nanos;

use super::super::cc::LossState;
use super::ack::{Ack, is_before};
use super::prr::Reduction;
use super::timeout::Timer;
use super::{Resend, Sender};
use crate::MILLISECOND;

impl Sender {
    /// Judges an acknowledgement that is a duplicate, acknowledges selectively, or comes while
    /// losses are repaired (`tcp_fastretrans_alert`).
    pub(super) fn judge(&mut self, now: Nanos, duplicates: u32, ack: &mut Ack) {
        let mut mark = duplicates > 0 || ack.sacked && self.is_head_overdue();
        if ack.ece {
            self.prior_ssthresh = None;
        }
        if self.board.out() == 0 {
            self.board.sacked_out = 0;
        }
        if ack.reneging && ack.una_advanced {
            // It may be caused by reordering: wait half a round trip.
            let wait = (self.rtt.smoothed().unwrap_or(0) / 2).max(10 * MILLISECOND);
            self.set_timer(Timer::Retransmit, now + wait);
            ack.restart_timer = false;
            return;
        }
        if self.state == LossState::Open {
            self.first_again = None;
        } else if self.state == LossState::Cwr {
            // Not before the segment that told the receiver was acknowledged.
            if self.una > self.high {
                self.end_reduction(now);
                self.set_state(now, LossState::Open);
            }
        } else if self.state == LossState::Recovery && self.una >= self.high {
            if !self.sack {
                self.board.sacked_out = 0;
            }
            if self.end_recovery(now) {
                return;
            }
        }
        let mut begun = false;
        match self.state {
            LossState::Recovery => {
                if !ack.una_advanced {
                    self.add_duplicates(duplicates);
                } else if self.undo_partially(now, ack, &mut mark) {
                    return;
                }
                if self.undo_for_duplicates(now) {
                    self.keep_open(now);
                }
                self.identify(now, ack);
                if self.state != LossState::Recovery {
                    if !self.must_recover() {
                        return;
                    }
                    self.enter_recovery(now, ack.ece);
                }
            }
            LossState::Loss => {
                self.repair_after_timeout(now, duplicates, ack);
                self.identify(now, ack);
                // Continue, if it was undone, or if retransmissions were lost again.
                if self.state != LossState::Open && !ack.lost_again {
                    return;
                }
                begun = true;
            }
            LossState::Open | LossState::Disorder | LossState::Cwr => begun = true,
        }
        if begun {
            if !self.sack && ack.una_advanced {
                self.board.sacked_out = 0;
            }
            self.add_duplicates(duplicates);
            if !matches!(self.state, LossState::Loss | LossState::Cwr) {
                self.undo_for_duplicates(now);
            }
            self.identify(now, ack);
            if !self.must_recover() {
                if !self.any_sent_again() {
                    self.first_again = None;
                }
                if ack.ece {
                    self.enter_cwr(now);
                }
                if self.state != LossState::Cwr {
                    self.keep_open(now);
                }
                return;
            }
            self.enter_recovery(now, ack.ece);
        }
        if self.sack && !self.by_time && mark {
            self.mark_by_count(now, begun);
        }
        self.resend = Resend::Lost;
    }

    /// Without time as a measure: whether enough segments lie above the first hole that it counts
    /// as lost.
    fn is_head_overdue(&self) -> bool {
        let reach = u64::from(self.reordering) * u64::from(self.mss);
        self.highest_sacked_end() > self.una + reach
    }

    /// Marks lost segments (`tcp_identify_packet_loss`).
    fn identify(&mut self, now: Nanos, ack: &mut Ack) {
        if self.board.front().is_none() {
            return;
        }
        if !self.sack {
            // RFC 6582 §3.2: three duplicates, and then every partial acknowledgement.
            let lost = match self.state {
                LossState::Recovery => ack.una_advanced,
                LossState::Loss => false,
                LossState::Open | LossState::Disorder | LossState::Cwr => {
                    self.board.sacked_out >= self.reordering
                }
            };
            let first = self.board.first();
            if lost && self.board.get(first).is_some_and(|sent| !sent.lost) {
                self.mark_lost(now, first);
            }
        } else if self.by_time {
            let before = self.board.retrans_out;
            if self.detect_losses_and_wait(now) {
                ack.restart_timer = false;
            }
            ack.lost_again |= before > self.board.retrans_out;
        }
    }

    /// Whether losses must be repaired (`tcp_time_to_recover`).
    fn must_recover(&self) -> bool {
        self.board.lost_out > 0 || !self.by_time && self.board.sacked_out >= self.reordering
    }

    /// RFC 6675 §4: a segment is lost if this many above it were acknowledged selectively
    /// (`tcp_mark_head_lost`); at least the first, as recovery begins.
    fn mark_by_count(&mut self, now: Nanos, begun: bool) {
        let mut left = self.reordering;
        let Some(mut number) = self.board.highest_sacked() else {
            return;
        };
        while left > 0 && number > self.board.first() {
            left -= u32::from(self.board.get(number).is_some_and(|sent| sent.sacked));
            if left > 0 {
                number -= 1;
            }
        }
        let first = self.board.first();
        if left == 0 {
            let from = self.marked_below.max(first);
            for lost in from..number {
                if self.board.get(lost).is_some_and(|sent| !sent.lost) {
                    self.mark_lost(now, lost);
                }
            }
            self.marked_below = self.marked_below.max(number);
        } else if begun && self.board.get(first).is_some_and(|sent| !sent.lost) {
            self.mark_lost(now, first);
        }
    }

    /// The window is reduced for a mark, once in a round trip: RFC 3168 §6.1.2 (`tcp_enter_cwr`).
    fn enter_cwr(&mut self, now: Nanos) {
        self.prior_ssthresh = None;
        if matches!(self.state, LossState::Open | LossState::Disorder) {
            self.counts.reduced += 1;
            self.undo_from = None;
            self.begin_reduction(now);
            self.set_state(now, LossState::Cwr);
        }
    }

    /// Fast recovery begins (`tcp_enter_recovery`). `ece`: the acknowledgement echoes a mark too, so the reduction is
    /// not to be undone.
    pub(super) fn enter_recovery(&mut self, now: Nanos, ece: bool) {
        if !self.any_sent_again() {
            self.first_again = None;
        }
        self.counts.recoveries += 1;
        self.begin_undo();
        self.prior_ssthresh = None;
        if !self.in_reduction() {
            self.prior_ssthresh = (!ece).then(|| self.current_ssthresh());
            self.begin_reduction(now);
        }
        self.set_state(now, LossState::Recovery);
    }

    /// The window will be reduced (`tcp_init_cwnd_reduction`).
    fn begin_reduction(&mut self, now: Nanos) {
        self.high = self.next;
        self.probe_high = None;
        self.reduction = Reduction::begin(self.window.cwnd);
        self.window.ssthresh = self.cc.ssthresh(now, &self.window);
        self.cwr_due = self.ecn;
    }

    /// The window was reduced (`tcp_end_cwnd_reduction`).
    fn end_reduction(&mut self, now: Nanos) {
        if !self.controlled && self.window.ssthresh < u32::MAX {
            self.window.cwnd = self.window.ssthresh;
            self.window_moved(now);
        }
    }

    /// Remembers where the reduction begins, to undo it (`tcp_init_undo`). Retransmissions in
    /// flight may be reported as duplicates too.
    pub(super) fn begin_undo(&mut self) {
        self.undo_from = Some(self.una);
        let probe = self.probe_high.is_some() && self.probe_again;
        let out = self.board.retrans_out + u32::from(probe);
        self.undo_retransmissions = (out > 0).then_some(out);
    }

    /// Everything that was sent before the recovery is acknowledged (`tcp_try_undo_recovery`).
    /// Without SACK the recovery lasts until a later byte is acknowledged, so that duplicates cause
    /// no new recovery: RFC 6582 §4. Returns whether it lasts.
    fn end_recovery(&mut self, now: Nanos) -> bool {
        let was_recovery = self.state == LossState::Recovery;
        if self.may_undo() {
            self.undo(now, false);
        } else {
            self.rack.on_recovered();
        }
        if !self.sack && self.una == self.high {
            if !self.any_sent_again() {
                self.first_again = None;
            }
            return true;
        }
        let undone = self.undo_from.is_none();
        self.set_state(now, LossState::Open);
        self.reneged = false;
        if was_recovery && !undone {
            self.end_reduction(now);
        }
        false
    }

    /// An acknowledgement after a timeout (`tcp_process_loss`).
    fn repair_after_timeout(&mut self, now: Nanos, duplicates: u32, ack: &Ack) {
        let recovered = self.una >= self.high;
        if ack.una_advanced && self.may_undo() {
            self.undo_timeout(now, false);
            return;
        }
        if self.frto {
            // RFC 5682 §3.1: segments sent before the timeout and never again arrive.
            if ack.original {
                self.undo_timeout(now, true);
                return;
            }
            if self.next > self.high {
                if ack.sacked || duplicates > 0 {
                    self.frto = false;
                }
            } else if ack.una_advanced && !recovered {
                self.high = self.next;
                if self.next_length().is_some() && self.window_end() > self.next {
                    self.resend = Resend::New;
                    return;
                }
                self.frto = false;
            }
        }
        if recovered {
            self.end_recovery(now);
            return;
        }
        if !self.sack {
            if self.next > self.high && duplicates > 0 {
                self.add_duplicates(duplicates);
            } else if ack.una_advanced {
                self.board.sacked_out = 0;
            }
        }
        self.resend = Resend::Lost;
    }

    fn undo_timeout(&mut self, now: Nanos, by_frto: bool) {
        self.undo(now, true);
        self.timeouts = 0;
        if !self.sack && self.una == self.high {
            return;
        }
        if by_frto || self.sack {
            self.set_state(now, LossState::Open);
            self.reneged = false;
        }
    }

    /// The first hole was filled during recovery (`tcp_try_undo_partial`). If the original filled
    /// it, wait for the retransmitted segments, or else undo the reduction. Returns whether the
    /// caller must do no more.
    fn undo_partially(&mut self, now: Nanos, ack: &Ack, mark: &mut bool) -> bool {
        if self.undo_from.is_none() || !self.is_original_delayed() {
            *mark = self.is_head_overdue();
            return false;
        }
        self.note_reordering(ack.prior_una);
        if self.board.retrans_out > 0 {
            return true;
        }
        if !self.any_sent_again() {
            self.first_again = None;
        }
        self.undo(now, true);
        self.keep_open(now);
        false
    }

    /// Duplicates were reported for all retransmissions (`tcp_try_undo_dsack`).
    fn undo_for_duplicates(&mut self, now: Nanos) -> bool {
        let all = self.undo_from.is_some() && self.undo_retransmissions == Some(0);
        if all {
            self.rack.on_duplicates();
            self.undo(now, false);
        }
        all
    }

    fn may_undo(&self) -> bool {
        self.undo_from.is_some()
            && (self.undo_retransmissions == Some(0) || self.is_original_delayed())
    }

    /// Nothing was retransmitted, or the acknowledged data was sent before the first
    /// retransmission, RFC 3522 (`tcp_packet_delayed`).
    fn is_original_delayed(&self) -> bool {
        self.first_again
            .is_none_or(|first| self.echo.is_some_and(|echo| is_before(echo, first)))
    }

    fn any_sent_again(&self) -> bool {
        self.board.retrans_out > 0 || self.board.front().is_some_and(|first| first.ever_again)
    }

    /// Restores window and threshold (`tcp_undo_cwnd_reduction`).
    fn undo(&mut self, now: Nanos, found: bool) {
        if found {
            self.board.unmark_lost();
        }
        if let Some(prior) = self.prior_ssthresh {
            self.window.cwnd = self.cc.undo(&self.window);
            if prior > self.window.ssthresh {
                self.window.ssthresh = prior;
                self.cwr_due = false;
            }
        }
        self.window_moved(now);
        self.counts.undone += 1;
        self.undo_from = None;
        // The search for losses starts again.
        self.rack.advanced = true;
    }

    /// Open, or Disorder while anything is missing (`tcp_try_keep_open`).
    fn keep_open(&mut self, now: Nanos) {
        let missing = self.board.sacked_out + self.board.lost_out > 0 || self.any_sent_again();
        let state = if missing {
            LossState::Disorder
        } else {
            LossState::Open
        };
        if self.state != state {
            self.set_state(now, state);
            self.high = self.next;
        }
    }

    /// The end of a tail loss probe, RFC 8985 §7.4 (`tcp_process_tlp_ack`).
    pub(super) fn end_probe(&mut self, now: Nanos, acked: u64, ack: &Ack) {
        let Some(high) = self.probe_high.filter(|&high| acked >= high) else {
            return;
        };
        let plain = !ack.una_advanced && ack.acked == 0 && !ack.sacked;
        if !self.probe_again || ack.probe_duplicate {
            self.probe_high = None;
        } else if acked > high {
            // The probe repaired a loss that nothing else has shown: the window is reduced.
            self.begin_reduction(now);
            self.undo_from = None;
            self.end_reduction(now);
            self.keep_open(now);
        } else if plain {
            // Both arrived.
            self.probe_high = None;
        }
    }

    /// Without SACK every duplicate acknowledgement stands for a segment delivered
    /// (`tcp_add_reno_sack`).
    fn add_duplicates(&mut self, duplicates: u32) {
        if self.sack || duplicates == 0 {
            return;
        }
        let before = self.board.sacked_out;
        self.board.sacked_out += duplicates;
        self.limit_duplicates(0);
        self.rate.delivered += u64::from(self.board.sacked_out.saturating_sub(before));
    }

    /// Without SACK: the acknowledged segments were counted as duplicates, except the one that
    /// filled the hole (`tcp_remove_reno_sacks`).
    pub(super) fn remove_duplicates(&mut self, acked: u32) {
        let counted = self.board.sacked_out;
        self.rate.delivered += u64::from(acked.saturating_sub(counted).max(1));
        self.board.sacked_out = counted.saturating_sub(acked - 1);
        self.limit_duplicates(acked);
    }

    /// There cannot be more duplicates than segments (`tcp_check_reno_reordering`).
    fn limit_duplicates(&mut self, acked: u32) {
        let out = self.board.out();
        let holes = self.board.lost_out.max(1).min(out);
        if self.board.sacked_out + holes > out {
            self.board.sacked_out = out - holes;
            self.reordering = (out + acked).clamp(1, super::MAX_REORDERING);
            self.reordering_seen = self.reordering_seen.saturating_add(1);
        }
    }
}
