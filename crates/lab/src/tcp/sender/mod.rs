//! The sending half of a connection: what to send next, and when.
//!
//! Its steps are those of Linux (tcp_input.c, tcp_output.c, tcp_timer.c, about 6.12), because every
//! one of them is visible behind a policer. Left out: FastOpen, MTU probing, Nagle's algorithm
//! (off, as on servers of bulk data) and the queues of the sending host.

mod ack;
mod pacing;
mod prr;
mod quic;
mod rack;
mod rate;
mod recovery;
mod rtt;
mod scoreboard;
#[cfg(test)]
mod tests;
mod timeout;
mod transmit;
mod window;

use tidegate_limiter::{Bytes, Nanos, prefetch_between};

use super::cc::{CongestionControl, LossState, Start, Window};
use super::config::Marks;
use super::{Algorithm, Recovery, Sacks, SlowStart, TcpConfig};
use pacing::Pacer;
use prr::Reduction;
use quic::Quic;
use rack::Rack;
use rate::Delivery;
use rtt::RoundTrip;
pub(super) use rtt::{INITIAL_RTO, MAX_RTO};
use scoreboard::Scoreboard;
use timeout::Timer;

/// Segments that may be overtaken without counting as lost, at first (RFC 5681 §3.2).
const REORDERING: u32 = 3;
/// Most of them (Linux `tcp_max_reordering`).
const MAX_REORDERING: u32 = 300;
/// The first byte of data: the SYN is number 0.
const FIRST: u64 = 1;

/// A segment to be sent, before the receiving half adds its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub(super) seq: u64,
    pub(super) payload: u32,
    pub(super) fin: bool,
    pub(super) psh: bool,
    pub(super) again: bool,
    /// Whether it tells the receiver that the window was reduced, RFC 3168 §6.1.2.
    pub(super) cwr: bool,
}

/// What may be sent after the last acknowledgement, besides new data (Linux `REXMIT_…`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resend {
    /// Nothing.
    Nothing,
    /// Lost segments.
    Lost,
    /// New data first; lost segments only if there is none (F-RTO).
    New,
}

/// A segment that is sent regardless of windows and pacing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forced {
    /// The first, after a timeout.
    First,
    /// A tail loss probe.
    Tail,
    /// A probe of a window that is closed.
    Window,
}

/// Counts for observers.
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
    /// Window reductions for marks, RFC 3168 §6.1.2.
    pub reduced: u64,
}

/// The segments that are not acknowledged yet, and how far they may be overtaken: `tcp_info` of Linux has the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outstanding {
    /// Segments sent and not acknowledged (`tcpi_unacked`).
    pub unacked: u32,
    /// Of these, those acknowledged selectively (`tcpi_sacked`).
    pub sacked: u32,
    /// Of these, those deemed lost (`tcpi_lost`).
    pub lost: u32,
    /// Of these, those retransmitted (`tcpi_retrans`).
    pub retransmitted: u32,
    /// Segments that may be overtaken without counting as lost (`tcpi_reordering`).
    pub reordering: u32,
}

/// The sending half.
///
/// Its fields are in the order in which memory is needed, in lines of 64 bytes: those that each segment from the peer
/// needs, those that an acknowledgement of data needs, and those that losses need.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(super) struct Sender {
    /// First byte not acknowledged, next byte to send, byte after the data that the application
    /// wrote.
    una: u64,
    next: u64,
    written: u64,
    /// Size of the send buffer, and the byte behind what it holds.
    send_buffer: Option<u64>,
    buffered: u64,
    peer_window: u32,
    /// The largest window the peer ever had.
    max_window: u32,
    /// Sequence number of the segment of the peer that last set the window.
    window_seq: u64,

    timer: Option<(Timer, Nanos)>,
    /// Sending waits for this time and for nothing else.
    blocked_until: Option<Nanos>,
    /// The next byte to send when a tail loss probe was sent, and whether the probe was a
    /// retransmission.
    probe_high: Option<u64>,
    probe_again: bool,
    closed: bool,
    fin_sent: bool,
    sack: bool,
    ecn: bool,
    by_time: bool,
    paced: bool,
    /// Something was sent since the use of the window was last judged.
    sent_since: bool,
    /// Timestamp echoed by the present acknowledgement.
    echo: Option<u32>,

    window: Window,
    /// Of accurate ECN: the peer's counter of marked packets, modulo 8.
    ace: Option<u64>,
    /// Segments and bytes sent of the present burst, and the segments that it may still have.
    burst: (u32, u64),
    /// When its first segment left.
    burst_began: Nanos,
    burst_left: u32,
    mss: u32,

    board: Scoreboard,
    rate: Delivery,
    rtt: RoundTrip,
    /// What takes the place of Linux's recovery, if it is QUIC's.
    quic: Option<Box<Quic>>,
    resend: Resend,
    forced: Option<Forced>,
    state: LossState,
    /// Whether the algorithm sets window and rate itself.
    controlled: bool,
    /// Probes of a closed window in a row, by which their interval grows (Linux `icsk_backoff`).
    window_probes: u32,

    rack: Rack,
    usage: window::Usage,
    cc: CongestionControl,
    pacer: Pacer,
    latest_rtt: Option<Nanos>,
    last_data: Nanos,
    /// The recovery ends when everything before this byte is acknowledged.
    high: u64,
    /// Segments that may be overtaken without being lost, and how often some were overtaken.
    reordering: u32,
    reordering_seen: u32,
    /// Timeouts in a row.
    timeouts: u32,
    /// Most segments that the window may grow to.
    clamp: Option<u32>,
    /// Upper bound of the pacing rate: bytes of payload per second.
    most_rate: Option<u64>,
    recovery: Recovery,
    slow_start: SlowStart,
    /// Whether unused windows are forgotten.
    forgetful: bool,
    frto: bool,
    reneged: bool,
    /// The next new data tells the receiver that the window was reduced.
    cwr_due: bool,
    counts: Counts,

    /// Threshold before the reduction, to be restored if it was unnecessary.
    prior_ssthresh: Option<u32>,
    /// Where the reduction began; `None` if it cannot be undone.
    undo_from: Option<u64>,
    /// Retransmissions since then for which no duplicate was reported; `None` if there was no
    /// retransmission.
    undo_retransmissions: Option<u32>,
    reduction: Reduction,
    initial_window: u32,
    /// Timestamp of the first retransmission.
    first_again: Option<u32>,
    total_again: u64,
    duplicates: u64,
    /// Segments below this one are marked if time is not used (RFC 6675).
    marked_below: u64,
    /// The selective acknowledgements of the last segment that had any.
    known_sacks: Sacks,
}

impl Sender {
    pub(super) fn new(config: &TcpConfig, now: Nanos) -> Self {
        let mss = config.mss.max(1);
        let start = Start { mss, now, seed: 0 };
        let mut sender = Self {
            slow_start: config.slow_start,
            mss,
            initial_window: config.initial_window.max(1),
            sack: config.sack,
            ecn: config.marks().is_some_and(|marks| !marks.accurate),
            ace: config
                .marks()
                .and_then(|marks| marks.accurate.then_some(Marks::FIRST)),
            by_time: config.sack && config.rack && config.recovery != Recovery::Quic,
            recovery: config.recovery,
            paced: config.pacing,
            forgetful: config.slow_start_after_idle,
            cc: CongestionControl::new(config.algorithm, start),
            window: Window {
                cwnd: config.initial_window.max(1),
                ssthresh: config.slow_start_threshold.unwrap_or(u32::MAX),
                pacing_rate: None,
            },
            clamp: None,
            most_rate: None,
            controlled: false,
            una: FIRST,
            next: FIRST,
            written: FIRST,
            closed: false,
            fin_sent: false,
            send_buffer: config.send_buffer.map(u64::from),
            buffered: FIRST,
            peer_window: 0,
            max_window: 0,
            window_seq: 0,
            board: Scoreboard::new(),
            known_sacks: Sacks::default(),
            rtt: RoundTrip::new(config.min_rto),
            rack: Rack::new(),
            quic: (config.sack && config.recovery == Recovery::Quic)
                .then(|| Box::new(Quic::new(config.delayed_ack))),
            rate: Delivery::new(now),
            reduction: Reduction::default(),
            pacer: Pacer::new(config.rate_limit),
            state: LossState::Open,
            high: FIRST,
            reordering: REORDERING,
            reordering_seen: 0,
            cwr_due: false,
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
            burst_began: 0,
            burst_left: 0,
            sent_since: false,
            usage: window::Usage::default(),
            last_data: now,
            blocked_until: None,
            latest_rtt: None,
            counts: Counts::default(),
        };
        sender.start(config.algorithm, start);
        sender
    }

    /// The handshake is done. The arguments are the peer's window, a round trip if this end's
    /// segment was sent once, and how often it was lost.
    pub(super) fn establish(&mut self, now: Nanos, window: u32, rtt: Option<Nanos>, losses: u32) {
        self.peer_window = window;
        self.max_window = window;
        self.rate.delivered_at = now;
        self.last_data = now;
        if let Some(rtt) = rtt {
            self.rtt.sample_smallest(now, rtt);
            self.rtt.sample(rtt, self.una, self.next);
            self.latest_rtt = Some(rtt);
            if let Some(quic) = &mut self.quic {
                quic.sample(rtt);
            }
        } else {
            self.rtt.fall_back();
        }
        // RFC 6928 §2: a lost SYN is a sign of congestion; Linux forgives the first.
        if losses > 1 {
            self.window.cwnd = 1;
        }
        self.cc.on_established(now, rtt, &mut self.window);
        self.update_pacing();
    }

    /// Has the algorithm begin with this.
    pub(super) fn start(&mut self, algorithm: Algorithm, start: Start) {
        self.cc = CongestionControl::new(algorithm, start);
        if self.slow_start == SlowStart::HyStartPlusPlus {
            self.cc.use_hystart_plus(self.paced);
        }
    }

    /// The application hands over this many more bytes.
    pub(super) fn write(&mut self, now: Nanos, bytes: Bytes) {
        if self.closed || bytes.get() == 0 {
            return;
        }
        self.mark_app_limited();
        self.restart_after_idle(now);
        self.written = self.written.saturating_add(bytes.get()).min(u64::MAX / 2);
        self.fill_buffer();
    }

    /// The application fills the send buffer when a third of it is free (`sk_stream_is_writeable`).
    fn fill_buffer(&mut self) {
        let Some(size) = self.send_buffer else {
            self.buffered = self.written;
            return;
        };
        if self.buffered < self.written && 3 * (self.buffered - self.una) <= 2 * size {
            self.mark_app_limited();
            self.buffered = self.written.min(self.una + size);
        }
    }

    /// The application has no more data.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Called before the application writes: notes whether the network was idle because data was
    /// missing (`tcp_rate_check_app_limited`).
    fn mark_app_limited(&mut self) {
        if self.buffered.saturating_sub(self.data_sent()) < u64::from(self.mss)
            && self.board.in_flight() < self.window.cwnd
            && self.board.lost_out <= self.board.retrans_out
        {
            self.rate.app_limited_until =
                Some(self.rate.delivered + u64::from(self.board.in_flight()));
        }
    }

    /// Bounds the window to this many segments, or removes the bound. Linux also sets the threshold of slow
    /// start to the bound (`TCP_BPF_SNDCWND_CLAMP`). A window below it grows to it at once, and without the
    /// bound the window grows as at the beginning of the connection.
    pub(super) fn clamp(&mut self, segments: Option<u32>) {
        self.clamp = segments;
        self.window.ssthresh = segments.unwrap_or(u32::MAX);
    }

    /// Spreads segments over the round trip, at no more than this many bytes of payload per second
    /// (`SO_MAX_PACING_RATE`).
    pub(super) fn pace(&mut self, most: u64) {
        self.paced = true;
        self.most_rate = Some(most);
        self.update_pacing();
    }

    /// Asks for the memory that the next segment from the peer needs; it may acknowledge data.
    #[inline]
    pub(super) fn prefetch(&self, acknowledges: bool) {
        prefetch_between(&self.una, &self.rack);
        if acknowledges {
            prefetch_between(&self.rack, &self.prior_ssthresh);
        }
    }

    /// Asks for the memory of the segments that are acknowledged next, and of the place for another.
    #[inline]
    pub(super) fn prefetch_sent(&self) {
        self.board.prefetch();
    }

    /// Largest payload of a segment in bytes.
    pub(super) fn mss(&self) -> u32 {
        self.mss
    }

    /// Bytes of the application that were not sent yet.
    pub(super) fn unsent(&self) -> u64 {
        self.written.saturating_sub(self.data_sent())
    }

    /// The byte after the data that was sent.
    fn data_sent(&self) -> u64 {
        self.next - u64::from(self.fin_sent)
    }

    fn in_reduction(&self) -> bool {
        matches!(self.state, LossState::Recovery | LossState::Cwr)
    }

    fn mark_lost(&mut self, now: Nanos, number: u64) {
        if self.board.mark_lost(number) {
            self.rate.lost += 1;
            self.counts.lost += 1;
            let sent = self.board.get(number);
            if let Some(snapshot) = sent.and_then(|sent| sent.snapshot.as_ref()) {
                let lost = self.rate.lost(snapshot);
                self.cc.on_segment_lost(now, &lost, &self.window);
            }
        }
    }

    fn set_state(&mut self, now: Nanos, state: LossState) {
        self.cc.on_state(now, state, &mut self.window);
        self.state = state;
    }

    /// Bytes acknowledged.
    pub(super) fn acked(&self) -> u64 {
        self.una - FIRST - u64::from(self.is_finished())
    }

    /// Whether everything written is acknowledged, including the FIN.
    pub(super) fn is_finished(&self) -> bool {
        self.fin_sent && self.una == self.next
    }

    /// Whether an acknowledgement is of data that was sent, and not older than a window: RFC 5961 §5.2.
    pub(super) fn accepts(&self, ack: u64) -> bool {
        ack <= self.next && ack + u64::from(self.max_window) >= self.una
    }

    /// First sequence number that was never sent.
    pub(super) fn next_seq(&self) -> u64 {
        self.next
    }

    /// When it must be called again.
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

    pub(super) fn state(&self) -> LossState {
        self.state
    }

    /// The segments that are not acknowledged.
    pub(super) fn outstanding(&self) -> Outstanding {
        Outstanding {
            reordering: self.reordering,
            ..self.board.outstanding()
        }
    }

    pub(super) fn smallest_rtt(&self) -> Option<Nanos> {
        self.rtt.smallest()
    }

    pub(super) fn phase(&self) -> Option<&'static str> {
        self.cc.phase()
    }

    /// Bytes of payload per second at which segments leave, if they are paced.
    pub(super) fn pacing_rate(&self) -> Option<u64> {
        self.is_paced().then(|| self.pacer.rate()).flatten()
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.board.in_flight()
    }

    /// Compares the counts with the marks, for tests.
    #[cfg(test)]
    pub(super) fn check(&self) {
        self.board.check(self.sack);
        assert!(self.una <= self.next);
    }
}
