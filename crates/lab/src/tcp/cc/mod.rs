//! Congestion control: how many segments may be in flight, and how fast they leave.
//!
//! The interface is that of Linux (`struct tcp_congestion_ops`), so that each algorithm can follow
//! the kernel's step by step. Windows are counted in segments, as there.
//!
//! With the same calls, `tcp_cong.c`, `tcp_cubic.c`, `tcp_bbr.c`, `tcp_vegas.c` of Linux 6.1.192
//! and these algorithms give the same windows, thresholds and rates, call by call. There is one
//! exception: CUBIC's cube root is exact here, which sometimes changes a window by a segment.

use tidegate_limiter::Nanos;

mod bbr;
mod bbr3;
mod cubic;
mod custom;
mod dctcp;
mod hystart_plus;
#[cfg(test)]
mod path;
mod prague;
mod reno;
#[cfg(test)]
mod tests;
mod vegas;

pub use custom::{CloneController, Controller, CustomAlgorithm, Restart, Start};

use bbr::Bbr;
use bbr3::Bbr3;
use cubic::Cubic;
use dctcp::Dctcp;
use prague::Prague;
use reno::Reno;
use vegas::Vegas;

/// A congestion control algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Algorithm {
    /// RFC 5681 with RFC 6582.
    Reno,
    /// RFC 9438 as in Linux, with HyStart.
    #[default]
    Cubic,
    /// BBR version 1, with its detector of policers.
    Bbr,
    /// BBR version 3, draft-ietf-ccwg-bbr.
    Bbr3,
    /// Vegas, as in Linux.
    Vegas,
    /// DCTCP, RFC 8257 as in Linux.
    Dctcp,
    /// Prague, for queues of L4S.
    Prague,
    /// Another program's.
    Custom(CustomAlgorithm),
}

impl Algorithm {
    /// The algorithms that come with the lab.
    pub const ALL: [Self; 7] = [
        Self::Reno,
        Self::Cubic,
        Self::Bbr,
        Self::Bbr3,
        Self::Vegas,
        Self::Dctcp,
        Self::Prague,
    ];

    /// Its name in scenarios, in results and in the kernel.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Bbr3 => "bbr3",
            Self::Vegas => "vegas",
            Self::Dctcp => "dctcp",
            Self::Prague => "prague",
            Self::Custom(custom) => custom.name,
        }
    }
}

/// The values that the sender and its congestion control share.
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

/// The sender's state of loss repair, RFC 5681 and Linux's `tcp_ca_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LossState {
    /// Nothing suspicious.
    #[default]
    Open,
    /// Duplicate or selective acknowledgements, no loss yet.
    Disorder,
    /// The window is reduced for a mark, RFC 3168 §6.1.2.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// After a retransmission timeout.
    Loss,
}

/// The content of an acknowledgement, as in Linux's `struct rate_sample`
/// (draft-cheng-iccrg-delivery-rate-
/// estimation) and the arguments of its callbacks. Counts are segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AckSample {
    /// Cumulatively or selectively acknowledged by this one.
    pub acked: u32,
    /// Cumulatively acknowledged by this one.
    pub acked_cumulatively: u32,
    /// Of these, the segments whose packets the receiver says were marked (Linux `delivered_ce`).
    pub marked: u32,
    /// Marked lost by this one.
    pub lost: u32,
    /// In flight when the latest of the acknowledged segments had been sent, with that segment; 0 without a segment.
    pub tx_in_flight: u32,
    /// Marked lost since that segment was sent.
    pub lost_since: u32,
    /// The round trip of the latest acknowledged segment that was sent once.
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
    /// The sample is from a time in which the application had nothing more to send.
    pub app_limited: bool,
    /// The window was in use. Otherwise it must not grow (RFC 7661).
    pub cwnd_limited: bool,
    /// The sender's state after this acknowledgement.
    pub state: LossState,
    /// It acknowledges a lone segment shorter than the largest, so the receiver may have delayed it
    /// (Linux `FLAG_ACK_MAYBE_DELAYED`).
    pub maybe_delayed: bool,
    /// Segments are paced, by the sender or by the algorithm (Linux `sk_pacing_status`).
    pub paced: bool,
    /// When pacing lets the next segment leave; at once if this time is past.
    pub next_departure: Nanos,
    /// First byte not sent yet. This and `snd_una` mark the rounds.
    pub snd_nxt: u64,
    /// First byte not acknowledged.
    pub snd_una: u64,
}

/// A segment that was marked lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LostSegment {
    /// In flight when it had been sent, with it.
    pub tx_in_flight: u32,
    /// Segments marked lost since it was sent, this one included.
    pub lost_since: u32,
    /// Delivered so far over the connection.
    pub delivered: u64,
    /// It was sent while the application had nothing more to send.
    pub app_limited: bool,
}

/// A congestion control algorithm with its state.
#[derive(Debug, Clone)]
pub enum CongestionControl {
    /// RFC 5681.
    Reno(Reno),
    /// RFC 9438.
    Cubic(Cubic),
    /// BBR version 1. It is ten times as large as the others.
    Bbr(Box<Bbr>),
    /// BBR version 3.
    Bbr3(Box<Bbr3>),
    /// Delay instead of loss.
    Vegas(Vegas),
    /// Reduced by the share of marks.
    Dctcp(Dctcp),
    /// By the share of marks, paced, and with fractions of segments.
    Prague(Prague),
    /// Another program's.
    Custom(Box<dyn Controller>),
}

impl CongestionControl {
    /// The algorithm as a connection begins. BBR draws from the seed in which phase its gain cycle
    /// starts, so that flows do not probe in step: give each connection another one.
    pub fn new(algorithm: Algorithm, start: Start) -> Self {
        let Start { mss, now, seed } = start;
        match algorithm {
            Algorithm::Reno => Self::Reno(Reno::default()),
            Algorithm::Cubic => Self::Cubic(Cubic::new(mss, now)),
            Algorithm::Bbr => Self::Bbr(Box::new(Bbr::new(mss, now, seed))),
            Algorithm::Bbr3 => Self::Bbr3(Box::new(Bbr3::new(mss, now, seed))),
            Algorithm::Vegas => Self::Vegas(Vegas::default()),
            Algorithm::Dctcp => Self::Dctcp(Dctcp::default()),
            Algorithm::Prague => Self::Prague(Prague::new(mss)),
            Algorithm::Custom(custom) => Self::Custom((custom.make)(start)),
        }
    }

    /// Reno and CUBIC end their first slow start by HyStart++, RFC 9406, and not as Linux does. `paced`: segments are
    /// spread over the round trip.
    pub(crate) fn use_hystart_plus(&mut self, paced: bool) {
        match self {
            Self::Reno(reno) => reno.use_hystart_plus(paced),
            Self::Cubic(cubic) => cubic.use_hystart_plus(paced),
            Self::Bbr(_)
            | Self::Bbr3(_)
            | Self::Vegas(_)
            | Self::Dctcp(_)
            | Self::Prague(_)
            | Self::Custom(_) => {}
        }
    }

    /// The handshake is done, and `window` is the initial one (`init`): BBR sets its first pacing
    /// rate. `rtt` is that of the handshake, if it was measured.
    pub fn on_established(&mut self, now: Nanos, rtt: Option<Nanos>, window: &mut Window) {
        match self {
            Self::Bbr(bbr) => bbr.on_established(now, rtt, window),
            Self::Bbr3(bbr) => bbr.on_established(now, rtt, window),
            Self::Custom(custom) => custom.on_established(now, rtt, window),
            Self::Reno(_) | Self::Cubic(_) | Self::Vegas(_) | Self::Dctcp(_) | Self::Prague(_) => {}
        }
    }

    /// The threshold after a loss: called as recovery begins and after a timeout, before the
    /// window is reduced (`ssthresh`).
    pub fn ssthresh(&mut self, now: Nanos, window: &Window) -> u32 {
        match self {
            Self::Reno(reno) => reno.ssthresh(window),
            Self::Cubic(cubic) => cubic.ssthresh(window),
            Self::Bbr(bbr) => bbr.ssthresh(window),
            Self::Bbr3(bbr) => bbr.ssthresh(window),
            Self::Vegas(vegas) => vegas.ssthresh(window),
            Self::Dctcp(dctcp) => dctcp.ssthresh(window),
            Self::Prague(prague) => prague.ssthresh(window),
            Self::Custom(custom) => custom.ssthresh(now, window),
        }
    }

    /// The retransmission timer marked segments lost, before [`on_state`](Self::on_state) reports
    /// [`LossState::Loss`]. This is their number over the connection so far. Acknowledgements have this number
    /// themselves.
    pub fn on_lost(&mut self, lost_total: u64) {
        match self {
            Self::Bbr(bbr) => bbr.on_lost(lost_total),
            Self::Custom(custom) => custom.on_lost(lost_total),
            Self::Reno(_)
            | Self::Cubic(_)
            | Self::Bbr3(_)
            | Self::Vegas(_)
            | Self::Dctcp(_)
            | Self::Prague(_) => {}
        }
    }

    /// A segment was marked lost, for any reason (`skb_marked_lost` of Google's kernels).
    pub fn on_segment_lost(&mut self, now: Nanos, lost: &LostSegment, window: &Window) {
        match self {
            Self::Bbr3(bbr) => bbr.on_segment_lost(now, lost, window),
            Self::Custom(custom) => custom.on_segment_lost(now, lost, window),
            Self::Reno(_)
            | Self::Cubic(_)
            | Self::Bbr(_)
            | Self::Vegas(_)
            | Self::Dctcp(_)
            | Self::Prague(_) => {}
        }
    }

    /// The sender's state changes (`set_state`), just before it does.
    pub fn on_state(&mut self, now: Nanos, state: LossState, window: &mut Window) {
        match self {
            Self::Reno(reno) => reno.on_state(state),
            Self::Cubic(cubic) => cubic.on_state(now, state),
            Self::Bbr(bbr) => bbr.on_state(state),
            Self::Bbr3(bbr) => bbr.on_state(state, window),
            Self::Vegas(vegas) => vegas.on_state(state),
            Self::Dctcp(dctcp) => dctcp.on_state(state, window),
            Self::Prague(prague) => prague.on_state(now, state, window),
            Self::Custom(custom) => custom.on_state(now, state, window),
        }
    }

    /// Sending resumes with nothing in flight (`cwnd_event(CA_EVENT_TX_START)`).
    pub fn on_restart(&mut self, restart: Restart, window: &mut Window) {
        let Restart { now, idle } = restart;
        match self {
            Self::Reno(_) | Self::Dctcp(_) | Self::Prague(_) => {}
            Self::Cubic(cubic) => cubic.on_restart(now, idle),
            Self::Bbr(bbr) => bbr.on_restart(now, window),
            Self::Bbr3(bbr) => bbr.on_restart(now, window),
            Self::Vegas(vegas) => vegas.on_restart(),
            Self::Custom(custom) => custom.on_restart(restart, window),
        }
    }

    /// Called for every acknowledgement that acknowledges something (`pkts_acked`), in every state.
    pub fn on_acked(&mut self, now: Nanos, sample: &AckSample, window: &mut Window) {
        match self {
            Self::Bbr(_) | Self::Bbr3(_) | Self::Prague(_) => {}
            Self::Reno(reno) => reno.on_acked(sample, window),
            Self::Cubic(cubic) => cubic.on_acked(now, sample, window),
            Self::Vegas(vegas) => vegas.on_acked(sample),
            Self::Dctcp(dctcp) => dctcp.on_acked(sample),
            Self::Custom(custom) => custom.on_acked(now, sample, window),
        }
    }

    /// The window may grow: called only in states Open, Disorder and Loss, and when something was
    /// acknowledged cumulatively (`cong_avoid`). Each algorithm checks whether the window was in
    /// use, because Vegas shrinks an unused one.
    pub fn cong_avoid(&mut self, now: Nanos, sample: &AckSample, window: &mut Window) {
        match self {
            Self::Reno(reno) => reno.cong_avoid(sample, window),
            Self::Cubic(cubic) => cubic.cong_avoid(now, sample, window),
            Self::Bbr(_) | Self::Bbr3(_) | Self::Prague(_) => {}
            Self::Vegas(vegas) => vegas.cong_avoid(sample, window),
            Self::Dctcp(dctcp) => dctcp.cong_avoid(sample, window),
            Self::Custom(custom) => custom.cong_avoid(now, sample, window),
        }
    }

    /// The algorithm sets window and pacing rate itself (`cong_control`). Then
    /// [`cong_avoid`](Self::cong_avoid) and the sender's reduction must not be used. Called once an
    /// acknowledgement; returns false if the sender must set them.
    pub fn control(&mut self, now: Nanos, sample: &AckSample, window: &mut Window) -> bool {
        match self {
            Self::Bbr(bbr) => {
                bbr.control(now, sample, window);
                true
            }
            Self::Bbr3(bbr) => {
                bbr.control(now, sample, window);
                true
            }
            Self::Prague(prague) => {
                prague.control(now, sample, window);
                true
            }
            Self::Custom(custom) => custom.control(now, sample, window),
            Self::Reno(_) | Self::Cubic(_) | Self::Vegas(_) | Self::Dctcp(_) => false,
        }
    }

    /// The phase that the algorithm is in, if it has phases.
    pub fn phase(&self) -> Option<&'static str> {
        match self {
            Self::Bbr(bbr) => Some(bbr.phase()),
            Self::Bbr3(bbr) => Some(bbr.phase()),
            Self::Custom(custom) => custom.phase(),
            Self::Reno(_) | Self::Cubic(_) | Self::Vegas(_) | Self::Dctcp(_) | Self::Prague(_) => {
                None
            }
        }
    }

    /// Segments that may leave together, if the algorithm bounds them (`tso_segs`): Prague those of a quarter of a
    /// millisecond, so that its bursts do not fill the short queues of L4S; BBR version 3 those of a millisecond.
    pub(crate) fn burst(&self, window: &Window, mss: u32) -> Option<u32> {
        match self {
            Self::Prague(_) => {
                let segments = (window.pacing_rate? >> 12) / u64::from(mss.max(1));
                Some(u32::try_from(segments).unwrap_or(u32::MAX).max(1))
            }
            Self::Bbr3(bbr) => Some(bbr.quantum(window)),
            _ => None,
        }
    }

    /// The window before a reduction that was unnecessary (`undo_cwnd`).
    pub fn undo(&mut self, window: &Window) -> u32 {
        match self {
            Self::Reno(reno) => reno.undo(window),
            Self::Cubic(cubic) => cubic.undo(window),
            Self::Bbr(bbr) => bbr.undo(window),
            Self::Bbr3(bbr) => bbr.undo(window),
            Self::Vegas(vegas) => vegas.undo(window),
            Self::Dctcp(dctcp) => dctcp.undo(window),
            Self::Prague(prague) => prague.undo(window),
            Self::Custom(custom) => custom.undo(window),
        }
    }
}

/// Microseconds: Linux keeps its round trips and clocks in these.
fn micros(time: Nanos) -> u64 {
    time / 1000
}
