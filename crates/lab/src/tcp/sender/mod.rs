//! The sending half of a connection: what to send next, and when.
//!
//! Its steps are those of Linux (tcp_input.c, tcp_output.c, tcp_timer.c, about 6.12), because a
//! policer makes visible every one of them. Left out: ECN, FastOpen, MTU probing, Nagle's
//! algorithm (off, as servers of bulk data set it) and the queues of the sending host.

mod ack;
mod pacing;
mod prr;
mod rack;
mod rate;
mod recovery;
mod rtt;
mod scoreboard;
mod timeout;
mod window;

use tidegate_limiter::Nanos;

use super::cc::{CongestionControl, State, Window};
use super::{Algorithm, Recovery, Sacks, TcpConfig};
use pacing::Pacer;
use prr::Reduction;
use rack::Rack;
use rate::Delivery;
use rtt::RoundTrip;
pub(super) use rtt::{INITIAL_RTO, MAX_RTO};
use scoreboard::{Scoreboard, Sent};
use timeout::Timer;

/// Segments that may be overtaken without being deemed lost, at first (RFC 5681 §3.2).
const REORDERING: u32 = 3;
/// Most of them (Linux `tcp_max_reordering`).
const MAX_REORDERING: u32 = 300;
/// The first byte of data: the SYN is number 0.
const FIRST: u64 = 1;

/// A segment to be sent, without what the receiving half adds to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub(super) seq: u64,
    pub(super) payload: u32,
    pub(super) fin: bool,
    pub(super) psh: bool,
    pub(super) again: bool,
}

/// What the last acknowledgement allows beyond new data (Linux `REXMIT_…`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resend {
    /// Nothing.
    Nothing,
    /// Lost segments.
    Lost,
    /// New data first; lost segments only if there is none (F-RTO).
    New,
}

/// A segment that is sent whatever windows and pacing say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forced {
    /// The first, after a timeout.
    First,
    /// A tail loss probe.
    Tail,
    /// A probe of a window that is closed.
    Window,
}

/// Counts for those who watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Segments with payload or FIN sent, retransmissions included.
    pub sent: u64,
    /// Segments retransmitted.
    pub retransmitted: u64,
    /// Segments marked lost.
    pub lost: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Tail loss probes.
    pub probes: u64,
    /// Fast recoveries begun.
    pub recoveries: u64,
    /// Window reductions taken back.
    pub undone: u64,
}

/// The sending half.
#[derive(Debug, Clone)]
pub(super) struct Sender {
    mss: u32,
    initial_window: u32,
    sack: bool,
    by_time: bool,
    recovery: Recovery,
    paced: bool,

    cc: CongestionControl,
    window: Window,
    /// The algorithm sets window and rate itself.
    controlled: bool,

    /// First byte not acknowledged, next byte to send, byte behind what the application wrote.
    una: u64,
    next: u64,
    written: u64,
    closed: bool,
    fin_sent: bool,

    peer_window: u32,
    /// The largest window the peer ever had.
    max_window: u32,
    /// Sequence number of the peer's segment that set the window last.
    window_seq: u64,

    board: Scoreboard,
    /// Selective acknowledgements of the last that had any.
    known_sacks: Sacks,
    rtt: RoundTrip,
    rack: Rack,
    rate: Delivery,
    reduction: Reduction,
    pacer: Pacer,

    state: State,
    /// The recovery ends when all before it is acknowledged.
    high: u64,
    /// Segments that may be overtaken without being lost, and how often any were.
    reordering: u32,
    reordering_seen: u32,
    /// Threshold before the reduction, to be restored if it was needless.
    prior_ssthresh: Option<u32>,
    /// Where the reduction began; none if it cannot be undone.
    undo_from: Option<u64>,
    /// Retransmissions since that no duplicate was reported of; none if there was none at all.
    undo_retransmissions: Option<u32>,
    /// Timestamp of the first retransmission.
    first_again: Option<u32>,
    /// Timestamp echoed by the acknowledgement at hand.
    echo: Option<u32>,
    total_again: u64,
    duplicates: u64,
    /// Timeouts in a row.
    timeouts: u32,
    frto: bool,
    reneged: bool,
    /// Segments below are marked where time is not used (RFC 6675).
    marked_below: u64,

    /// What is sent when a tail loss probe went out; the probe was a retransmission.
    probe_high: Option<u64>,
    probe_again: bool,
    /// Probes of a closed window in a row.
    window_probes: u32,

    timer: Option<(Timer, Nanos)>,
    resend: Resend,
    forced: Option<Forced>,
    /// Segments and bytes sent of the burst at hand, and what it still may have.
    burst: (u32, u64),
    burst_left: u32,
    /// Something was sent since the use of the window was judged.
    sent_since: bool,
    usage: window::Usage,
    last_data: Nanos,
    /// Sending waits for this time and nothing else.
    blocked_until: Option<Nanos>,
    latest_rtt: Option<Nanos>,
    counts: Counts,
}

impl Sender {
    pub(super) fn new(config: &TcpConfig, now: Nanos) -> Self {
        let mss = config.mss.max(1);
        Self {
            mss,
            initial_window: config.initial_window.max(1),
            sack: config.sack,
            by_time: config.sack && config.rack,
            recovery: config.recovery,
            paced: config.pacing,
            cc: CongestionControl::new(config.algorithm, mss, now, 0),
            window: Window {
                cwnd: config.initial_window.max(1),
                ssthresh: u32::MAX,
                pacing_rate: None,
            },
            controlled: false,
            una: FIRST,
            next: FIRST,
            written: FIRST,
            closed: false,
            fin_sent: false,
            peer_window: 0,
            max_window: 0,
            window_seq: 0,
            board: Scoreboard::new(),
            known_sacks: Sacks::default(),
            rtt: RoundTrip::new(config.min_rto),
            rack: Rack::new(),
            rate: Delivery::new(now),
            reduction: Reduction::default(),
            pacer: Pacer::new(config.rate_limit),
            state: State::Open,
            high: FIRST,
            reordering: REORDERING,
            reordering_seen: 0,
            prior_ssthresh: None,
            undo_from: None,
            undo_retransmissions: None,
            first_again: None,
            echo: None,
            total_again: 0,
            duplicates: 0,
            timeouts: 0,
            frto: false,
            reneged: false,
            marked_below: 0,
            probe_high: None,
            probe_again: false,
            window_probes: 0,
            timer: None,
            resend: Resend::Nothing,
            forced: None,
            burst: (0, 0),
            burst_left: 0,
            sent_since: false,
            usage: window::Usage::default(),
            last_data: now,
            blocked_until: None,
            latest_rtt: None,
            counts: Counts::default(),
        }
    }

    /// The handshake is done: with the peer's window, a round trip if its segment was sent once,
    /// and how often it was lost.
    pub(super) fn establish(&mut self, now: Nanos, window: u32, rtt: Option<Nanos>, losses: u32) {
        self.peer_window = window;
        self.max_window = window;
        self.rate.delivered_at = now;
        self.last_data = now;
        if let Some(rtt) = rtt {
            self.rtt.sample_smallest(now, rtt);
            self.rtt.sample(rtt, self.una, self.next);
            self.latest_rtt = Some(rtt);
        }
        // RFC 6928 §2: a lost SYN is a sign of congestion; Linux forgives the first.
        if losses > 1 {
            self.window.cwnd = 1;
        }
        self.cc.on_established(now, rtt, &mut self.window);
        self.update_pacing();
    }

    /// Has the algorithm draw from this seed.
    pub(super) fn seed(&mut self, algorithm: Algorithm, now: Nanos, seed: u64) {
        self.cc = CongestionControl::new(algorithm, self.mss, now, seed);
    }

    /// The application gives so many bytes more.
    pub(super) fn write(&mut self, now: Nanos, bytes: u64) {
        if self.closed || bytes == 0 {
            return;
        }
        self.mark_app_limited();
        self.restart_after_idle(now);
        self.written = self.written.saturating_add(bytes).min(u64::MAX / 2);
    }

    /// The application has no more to give.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Before the application writes: whether the network was idle for want of data
    /// (`tcp_rate_check_app_limited`).
    fn mark_app_limited(&mut self) {
        if self.written - self.data_sent() < u64::from(self.mss)
            && self.board.in_flight() < self.window.cwnd
            && self.board.lost_out <= self.board.retrans_out
        {
            self.rate.app_limited_until =
                Some(self.rate.delivered + u64::from(self.board.in_flight()));
        }
    }

    /// The byte behind the data sent.
    fn data_sent(&self) -> u64 {
        self.next - u64::from(self.fin_sent)
    }

    /// What is sent next at this time, if anything.
    pub(super) fn transmit(&mut self, now: Nanos) -> Option<Outgoing> {
        self.blocked_until = None;
        if let Some(forced) = self.forced.take()
            && let Some(outgoing) = self.transmit_forced(now, forced)
        {
            return Some(outgoing);
        }
        if self.resend == Resend::New {
            // F-RTO, RFC 5682 §3.1 step 2b: if new data went out, nothing else does.
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
            Forced::First => {
                self.board.front()?;
                Some(self.send_again(now, self.board.first(), true))
            }
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

    /// Retransmits what is lost, as far as the window allows (`tcp_xmit_retransmit_queue`).
    fn transmit_lost(&mut self, now: Nanos) -> Option<Outgoing> {
        let room = self.window.cwnd.saturating_sub(self.board.in_flight());
        let number = self.board.next_to_resend().filter(|_| room > 0)?;
        // A window that was shrunk holds back all but the first, which then probes it.
        if self.board.get(number)?.seq >= self.window_end() && number != self.board.first() {
            return None;
        }
        self.may_leave(now)?;
        if self.burst_left == 0 {
            self.burst_left = room.min(self.burst_size());
        }
        let first = number == self.board.first();
        let outgoing = self.send_again(now, number, true);
        if first && !matches!(self.timer, Some((Timer::Reorder, _))) {
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
                // The use of the window is judged when there is no more to send at once.
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
    fn next_length(&self) -> Option<(u32, bool)> {
        let left = self.written.saturating_sub(self.data_sent());
        let payload = left.min(u64::from(self.mss)) as u32;
        let fin = self.closed && !self.fin_sent && u64::from(payload) == left;
        (payload > 0 || fin).then_some((payload, fin))
    }

    fn window_end(&self) -> u64 {
        self.una.saturating_add(u64::from(self.peer_window))
    }

    fn next_new(&mut self, now: Nanos, limited: &mut bool) -> Option<(u32, bool)> {
        let (payload, fin) = self.next_length()?;
        let room = self.window.cwnd.saturating_sub(self.board.in_flight());
        if room == 0 {
            return None;
        }
        // A FIN needs no space: Linux sends it behind a full window.
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

    /// Whether pacing and rate limit let a segment leave now; notes when they will.
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

    fn is_paced(&self) -> bool {
        self.paced || self.window.pacing_rate.is_some()
    }

    fn burst_size(&self) -> u32 {
        let own_rate = self.window.pacing_rate.is_some();
        self.pacer.burst(self.mss, self.rtt.smallest(), own_rate)
    }

    /// Waits for the next acknowledgement to send more at once (`tcp_tso_should_defer`), if it
    /// is due within a millisecond, the last burst is as recent, and less than a third of the
    /// window is free.
    fn defers(&self, now: Nanos, room: u32, limited: &mut bool) -> bool {
        const RECENT: Nanos = crate::MILLISECOND;
        /// What an application writes is held in pieces of this size.
        const PIECE: u64 = 65_536;
        let left = self.written.saturating_sub(self.data_sent());
        let piece = left.min(PIECE);
        if matches!(self.state, State::Recovery | State::Loss)
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
        receive <= congestion && receive <= piece || !self.closed
    }

    fn send_new(&mut self, now: Nanos, payload: u32, fin: bool) -> Outgoing {
        let nothing_out = self.board.front().is_none();
        if self.board.in_flight() == 0 {
            let idle = now.saturating_sub(self.last_data);
            self.cc.on_restart(now, idle, &mut self.window);
        }
        self.last_data = now;
        let snapshot = self.rate.on_sent(now, nothing_out);
        let end = self.next + u64::from(payload);
        let psh = payload > 0 && end == self.written;
        let segment = Sent::new(self.next, payload, fin, psh, now, snapshot);
        let outgoing = Outgoing {
            seq: self.next,
            payload,
            fin,
            psh,
            again: false,
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
    fn send_again(&mut self, now: Nanos, number: u64, counted: bool) -> Outgoing {
        let snapshot = self.rate.on_sent(now, false);
        self.board.on_resent(number, now, snapshot, counted);
        if counted {
            self.first_again.get_or_insert(super::clock(now));
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
            },
            None => unreachable!("only segments of the scoreboard are sent again"),
        };
        self.on_left(now, outgoing.payload);
        outgoing
    }

    fn on_left(&mut self, now: Nanos, payload: u32) {
        self.counts.sent += 1;
        self.burst.0 += 1;
        self.burst.1 += u64::from(payload);
        self.burst_left = self.burst_left.saturating_sub(1);
        if self.burst_left == 0 {
            self.end_burst(now);
        }
    }

    /// Charges the pacer for the burst at hand.
    pub(super) fn end_burst(&mut self, now: Nanos) {
        self.burst_left = 0;
        let (segments, payload) = std::mem::take(&mut self.burst);
        if segments > 0 {
            self.pacer.on_burst(now, self.is_paced(), segments, payload);
        }
    }

    /// A packet of so many bytes at the IP layer left.
    pub(super) fn on_packet(&mut self, now: Nanos, bytes: u32) {
        self.pacer.on_packet(now, bytes);
    }

    fn in_reduction(&self) -> bool {
        self.state == State::Recovery
    }

    fn mark_lost(&mut self, number: u64) {
        if self.board.mark_lost(number) {
            self.rate.lost += 1;
            self.counts.lost += 1;
        }
    }

    fn set_state(&mut self, now: Nanos, state: State) {
        self.cc.on_state(now, state, &mut self.window);
        self.state = state;
    }

    /// Bytes acknowledged.
    pub(super) fn acked(&self) -> u64 {
        self.una - FIRST - u64::from(self.is_finished())
    }

    /// Everything written is acknowledged, the FIN too.
    pub(super) fn is_finished(&self) -> bool {
        self.fin_sent && self.una == self.next
    }

    /// First sequence number that was never sent.
    pub(super) fn next_seq(&self) -> u64 {
        self.next
    }

    /// When it wants to be called again.
    pub(super) fn next_timeout(&self) -> Option<Nanos> {
        let timer = self.timer.map(|(_, at)| at);
        timer.into_iter().chain(self.blocked_until).min()
    }

    pub(super) fn smoothed_rtt(&self) -> Option<Nanos> {
        self.rtt.smoothed()
    }

    pub(super) fn rto(&self) -> Nanos {
        self.rtt.rto()
    }

    pub(super) fn take_rtt(&mut self) -> Option<Nanos> {
        self.latest_rtt.take()
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    pub(super) fn window(&self) -> &Window {
        &self.window
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.board.in_flight()
    }

    /// Holds the counts against the marks, for tests.
    #[cfg(test)]
    pub(super) fn check(&self) {
        self.board.check(self.sack);
        assert!(self.una <= self.next);
    }
}
