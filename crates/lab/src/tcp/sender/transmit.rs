//! The next segment: lost segments and new data, as windows and pacing allow (Linux
//! `tcp_xmit_retransmit_queue`, `tcp_write_xmit`).

use tidegate_limiter::Nanos;

use super::super::cc::{LossState, Restart};
use super::super::clock;
use super::scoreboard::Sent;
use super::timeout::Timer;
use super::{Forced, Outgoing, Resend, Sender};

impl Sender {
    /// The segment to send at this time, if there is one.
    pub(in crate::tcp) fn transmit(&mut self, now: Nanos) -> Option<Outgoing> {
        self.blocked_until = None;
        if let Some(forced) = self.forced.take()
            && let Some(outgoing) = self.transmit_forced(now, forced)
        {
            return Some(outgoing);
        }
        if self.resend == Resend::New {
            // F-RTO, RFC 5682 §3.1 step 2b: if new data was sent, nothing else is.
            let new = self.transmit_new(now);
            if new.is_some() || self.next > self.high {
                return new;
            }
            self.frto = false;
            self.resend = Resend::Lost;
        }
        if self.resend == Resend::Lost
            && let Some(outgoing) = self.transmit_lost(now)
        {
            return Some(outgoing);
        }
        self.transmit_new(now)
    }

    fn transmit_forced(&mut self, now: Nanos, forced: Forced) -> Option<Outgoing> {
        match forced {
            Forced::First if self.quic.is_some() => {
                let number = self.board.next_to_resend()?;
                let outgoing = self.send_again(now, number, true);
                self.set_quic_timer(now);
                Some(outgoing)
            }
            Forced::First => {
                self.board.front()?;
                Some(self.send_again(now, self.board.first(), true))
            }
            Forced::Tail if self.quic.is_some() => self.transmit_probe_quic(now),
            Forced::Tail => {
                let new = self.next_length().filter(|&(payload, fin)| {
                    self.next + u64::from(payload) + u64::from(fin) <= self.window_end()
                });
                self.probe_again = new.is_none();
                let outgoing = match new {
                    Some((payload, fin)) => self.send_new(now, payload, fin),
                    None => {
                        self.board.front()?;
                        self.send_again(now, self.board.behind() - 1, false)
                    }
                };
                self.probe_high = Some(self.next);
                self.counts.probes += 1;
                self.timer = None;
                self.rearm_rto(now);
                Some(outgoing)
            }
            Forced::Window => Some(self.probe_window(now)),
        }
    }

    /// Retransmits lost segments, as far as the window allows (`tcp_xmit_retransmit_queue`).
    fn transmit_lost(&mut self, now: Nanos) -> Option<Outgoing> {
        let room = self.window.cwnd.saturating_sub(self.board.in_flight());
        let number = self.board.next_to_resend().filter(|_| room > 0)?;
        // A window that was shrunk allows only the first segment, which then probes it.
        if self.board.get(number)?.seq >= self.window_end() && number != self.board.first() {
            return None;
        }
        self.may_leave(now)?;
        if self.burst_left == 0 {
            self.burst_left = room.min(self.burst_size());
        }
        let first = number == self.board.first();
        let outgoing = self.send_again(now, number, true);
        if self.quic.is_some() {
            self.set_quic_timer(now);
        } else if first && !matches!(self.timer, Some((Timer::Reorder, _))) {
            self.set_timer(Timer::Retransmit, now + self.rtt.rto());
        }
        Some(outgoing)
    }

    /// Sends new data, as far as both windows allow (`tcp_write_xmit`).
    fn transmit_new(&mut self, now: Nanos) -> Option<Outgoing> {
        let mut limited = false;
        let (payload, fin) = match self.next_new(now, &mut limited) {
            Some(next) => next,
            None => {
                // The use of the window is judged when no more can be sent at once.
                let in_flight = self.board.in_flight();
                limited |= in_flight >= self.window.cwnd;
                if std::mem::take(&mut self.sent_since) || limited {
                    self.judge_usage(now, limited);
                }
                if self.board.front().is_none() && self.timer.is_none() {
                    self.watch_closed_window(now);
                }
                return None;
            }
        };
        self.sent_since = true;
        let outgoing = self.send_new(now, payload, fin);
        self.schedule_probe(now, false);
        Some(outgoing)
    }

    /// Payload and FIN of the next new segment, if there is one.
    pub(super) fn next_length(&self) -> Option<(u32, bool)> {
        let left = self.buffered.saturating_sub(self.data_sent());
        let payload = left.min(u64::from(self.mss)) as u32;
        let fin = self.closed
            && !self.fin_sent
            && self.buffered == self.written
            && u64::from(payload) == left;
        (payload > 0 || fin).then_some((payload, fin))
    }

    pub(super) fn window_end(&self) -> u64 {
        self.una.saturating_add(u64::from(self.peer_window))
    }

    fn next_new(&mut self, now: Nanos, limited: &mut bool) -> Option<(u32, bool)> {
        let (payload, fin) = self.next_length()?;
        let room = self.window.cwnd.saturating_sub(self.board.in_flight());
        if room == 0 {
            return None;
        }
        // A FIN needs no space: Linux sends it after a full window.
        if self.next + u64::from(payload) > self.window_end() {
            return None;
        }
        self.may_leave(now)?;
        if self.burst_left == 0 {
            // At least two bursts in a window (`tcp_cwnd_test`).
            let quota = room
                .min((self.window.cwnd / 2).max(1))
                .min(self.burst_size());
            if self.defers(now, room, limited) {
                return None;
            }
            self.burst_left = quota;
        }
        Some((payload, fin))
    }

    /// Whether pacing and rate limit let a segment leave now. If not, notes the time when they
    /// will.
    fn may_leave(&mut self, now: Nanos) -> Option<()> {
        let mut at = self.pacer.packet_at();
        if self.burst_left == 0 && self.is_paced() {
            at = at.max(self.pacer.burst_at());
        }
        if at > now {
            self.blocked_until = Some(at);
            return None;
        }
        Some(())
    }

    pub(super) fn is_paced(&self) -> bool {
        self.paced || self.window.pacing_rate.is_some()
    }

    fn burst_size(&self) -> u32 {
        let own_rate = self.window.pacing_rate.is_some();
        if let Some(segments) = self.cc.burst(&self.window, self.mss) {
            return segments;
        }
        self.pacer.burst(self.mss, self.rtt.smallest(), own_rate)
    }

    /// Waits for the next acknowledgement, to send more at once (`tcp_tso_should_defer`). It waits
    /// if that is due within a millisecond, the last burst is as recent, and less than a third of
    /// the window is free.
    fn defers(&self, now: Nanos, room: u32, limited: &mut bool) -> bool {
        const RECENT: Nanos = crate::MILLISECOND;
        /// Data of an application is held in pieces of this size.
        const PIECE: u64 = 65_536;
        let left = self.buffered.saturating_sub(self.data_sent());
        let piece = left.min(PIECE);
        if matches!(self.state, LossState::Recovery | LossState::Loss)
            || piece <= u64::from(self.mss)
            || now.saturating_sub(self.pacer.burst_at()) > RECENT
        {
            return false;
        }
        let mss = u64::from(self.mss);
        let receive = self.window_end().saturating_sub(self.next);
        let congestion = u64::from(room) * mss;
        let free = receive.min(congestion);
        let third = u64::from(self.peer_window).min(u64::from(self.window.cwnd) * mss) / 3;
        if free >= u64::from(self.burst_size()) * mss
            || left > piece && free >= piece
            || free >= third
        {
            return false;
        }
        let (Some(first), Some(smoothed)) = (self.board.front(), self.rtt.smoothed()) else {
            return false;
        };
        if first.sent_at + smoothed > now + RECENT.min(smoothed / 2) {
            return false;
        }
        if congestion < receive && congestion <= piece {
            *limited = true;
            return true;
        }
        let ends = self.closed && left == piece;
        receive <= congestion && receive <= piece || !ends
    }

    pub(super) fn send_new(&mut self, now: Nanos, payload: u32, fin: bool) -> Outgoing {
        let nothing_out = self.board.front().is_none();
        if self.board.in_flight() == 0 {
            let idle = now.saturating_sub(self.last_data);
            self.cc.on_restart(Restart { now, idle }, &mut self.window);
        }
        self.last_data = now;
        let in_flight = self.board.in_flight() + 1;
        let snapshot = self.rate.on_sent(now, nothing_out, in_flight);
        let end = self.next + u64::from(payload);
        // Linux also pushes the end of every burst of several segments (`__tcp_transmit_skb`).
        let ends_burst = self.burst.0 > 0 && self.burst_left == 1;
        let psh = payload > 0 && (end == self.buffered || ends_burst);
        let segment = Sent::new(self.next, payload, fin, psh, now, snapshot);
        let outgoing = Outgoing {
            seq: self.next,
            payload,
            fin,
            psh,
            again: false,
            cwr: payload > 0 && std::mem::take(&mut self.cwr_due),
        };
        self.next = segment.end();
        self.fin_sent |= fin;
        self.board.push(segment);
        if self.in_reduction() {
            self.reduction.on_sent();
        }
        if nothing_out || matches!(self.timer, Some((Timer::Probe, _))) {
            self.rearm_rto(now);
        }
        self.on_left(now, payload);
        outgoing
    }

    /// Sends a segment again, counted as in flight unless it is a probe (`tcp_retransmit_skb`).
    pub(super) fn send_again(&mut self, now: Nanos, number: u64, counted: bool) -> Outgoing {
        let in_flight = self.board.in_flight() + u32::from(counted);
        let snapshot = self.rate.on_sent(now, false, in_flight);
        self.board.on_resent(number, now, snapshot, counted);
        if counted {
            self.first_again.get_or_insert(clock(now));
            self.undo_retransmissions = Some(self.undo_retransmissions.unwrap_or(0) + 1);
            if self.in_reduction() {
                self.reduction.on_sent();
            }
        }
        self.total_again += 1;
        self.counts.retransmitted += 1;
        self.last_data = now;
        let outgoing = match self.board.get(number) {
            Some(sent) => Outgoing {
                seq: sent.seq,
                payload: sent.payload,
                fin: sent.fin,
                psh: sent.psh,
                again: true,
                cwr: false,
            },
            None => unreachable!("only segments of the scoreboard are sent again"),
        };
        self.on_left(now, outgoing.payload);
        outgoing
    }

    fn on_left(&mut self, now: Nanos, payload: u32) {
        self.counts.sent += 1;
        if self.burst.0 == 0 {
            self.burst_began = now;
        }
        self.burst.0 += 1;
        self.burst.1 += u64::from(payload);
        self.burst_left = self.burst_left.saturating_sub(1);
        if self.burst_left == 0 {
            self.end_burst(now);
        }
    }

    /// Charges the pacer for the present burst.
    pub(super) fn end_burst(&mut self, now: Nanos) {
        self.burst_left = 0;
        let (segments, payload) = std::mem::take(&mut self.burst);
        if segments > 0 {
            let paced = self.is_paced();
            // A rate limit spreads a burst over the time that the burst is charged for.
            let spread = paced && self.pacer.is_limited();
            let at = if spread { self.burst_began } else { now };
            self.pacer.on_burst(at, paced, segments, payload);
        }
    }

    /// A packet of this many bytes at the IP layer left.
    pub(in crate::tcp) fn on_packet(&mut self, now: Nanos, bytes: u32) {
        self.pacer.on_packet(now, bytes);
    }
}
