//! Congestion control: how many segments may be in flight, and how fast they leave.
//!
//! The interface is that of Linux (`struct tcp_congestion_ops`), so that each algorithm can follow
//! the kernel's step by step. Windows are counted in segments, as there.

use tidegate_limiter::Nanos;

use super::Algorithm;

/// What the sender and its congestion control share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments; `u32::MAX` until the first loss.
    pub ssthresh: u32,
    /// Bytes per second at which segments leave, if they are paced.
    pub pacing_rate: Option<u64>,
}

impl Window {
    /// Whether the window grows exponentially.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

/// Where the sender stands with losses, RFC 5681 and Linux's `tcp_ca_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Nothing suspicious.
    #[default]
    Open,
    /// Duplicate or selective acknowledgements, no loss yet.
    Disorder,
    /// Fast recovery.
    Recovery,
    /// After a retransmission timeout.
    Loss,
}

/// What an acknowledgement told, as Linux's `struct rate_sample` (draft-cheng-iccrg-delivery-rate-
/// estimation) and the arguments of its callbacks. Counts are segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AckSample {
    /// Cumulatively or selectively acknowledged by this one.
    pub acked: u32,
    /// Cumulatively acknowledged by this one.
    pub acked_cumulatively: u32,
    /// Marked lost by this one.
    pub lost: u32,
    /// The round trip of the latest segment acknowledged that was sent once.
    pub rtt: Option<Nanos>,
    /// Smoothed round trip, RFC 6298.
    pub srtt: Option<Nanos>,
    /// In flight after this acknowledgement.
    pub in_flight: u32,
    /// In flight before it.
    pub prior_in_flight: u32,
    /// Delivered so far over the connection, this acknowledgement included.
    pub delivered: u64,
    /// Lost so far over the connection.
    pub lost_total: u64,
    /// `delivered` when the latest segment acknowledged was sent.
    pub prior_delivered: u64,
    /// Delivered over `interval`; none if there is no valid sample.
    pub delivered_over: Option<u32>,
    /// Time over which `delivered_over` were: the longer of send and acknowledgement phase.
    pub interval: Nanos,
    /// The sample is of a time in which the application had nothing more to send.
    pub app_limited: bool,
    /// The window was in use: without this, it must not grow (RFC 7661).
    pub cwnd_limited: bool,
    /// The sender's state after this acknowledgement.
    pub state: State,
    /// Highest byte sent so far, and first byte not acknowledged: rounds are counted by them.
    pub snd_nxt: u64,
    /// First byte not acknowledged.
    pub snd_una: u64,
}

/// A congestion control algorithm with its state.
#[derive(Debug, Clone)]
pub enum CongestionControl {
    /// Slow start and congestion avoidance of RFC 5681, until the algorithms are here: with
    /// segments acknowledged of the next window, and the window before the reduction.
    None(u32, u32),
}

impl CongestionControl {
    /// The algorithm as a connection begins.
    pub fn new(_algorithm: Algorithm, _mss: u32, _now: Nanos) -> Self {
        Self::None(0, 0)
    }

    /// The threshold after a loss: called as recovery begins and after a timeout, before the
    /// window is reduced (`ssthresh`).
    pub fn ssthresh(&mut self, _now: Nanos, window: &Window) -> u32 {
        let Self::None(_, before) = self;
        *before = window.cwnd;
        (window.cwnd / 2).max(2)
    }

    /// The sender's state changes (`set_state`), just before it does.
    pub fn on_state(&mut self, _now: Nanos, _state: State, _window: &mut Window) {}

    /// Sending resumes with nothing in flight (`cwnd_event(CA_EVENT_TX_START)`), after so long.
    pub fn on_restart(&mut self, _now: Nanos, _idle: Nanos, _window: &mut Window) {}

    /// Every acknowledgement that acknowledges anything (`pkts_acked`), in every state.
    pub fn on_acked(&mut self, _now: Nanos, _sample: &AckSample, _window: &mut Window) {}

    /// The window grows: only in states Open, Disorder and Loss, when the window was in use and
    /// something was acknowledged cumulatively (`cong_avoid`).
    pub fn cong_avoid(&mut self, _now: Nanos, sample: &AckSample, window: &mut Window) {
        let Self::None(counted, _) = self;
        let room = window.ssthresh.saturating_sub(window.cwnd);
        let slow = sample.acked.min(room);
        window.cwnd += slow;
        *counted += sample.acked - slow;
        while *counted >= window.cwnd {
            *counted -= window.cwnd;
            window.cwnd += 1;
        }
    }

    /// The algorithm sets window and pacing rate itself (`cong_control`) and neither
    /// [`cong_avoid`](Self::cong_avoid) nor the sender's own reduction is to be used. Called
    /// once an acknowledgement; false if the algorithm leaves that to the sender.
    pub fn control(&mut self, _now: Nanos, _sample: &AckSample, _window: &mut Window) -> bool {
        false
    }

    /// The window as it was before a reduction that proved needless (`undo_cwnd`).
    pub fn undo(&mut self, window: &Window) -> u32 {
        let Self::None(_, before) = self;
        window.cwnd.max(*before)
    }
}
