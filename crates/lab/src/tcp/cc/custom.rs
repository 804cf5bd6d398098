//! Congestion control of other programs, by the same interface.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use tidegate_limiter::Nanos;

use super::{AckSample, LossState, LostSegment, Window};

/// Congestion control by the callbacks of Linux (`struct tcp_congestion_ops`), as
/// [`CongestionControl`](super::CongestionControl) calls those of the lab. It must depend only on its
/// arguments, so that a simulation gives the same outcome each time.
pub trait Controller: CloneController + fmt::Debug + Send {
    /// The threshold after a loss in segments (`ssthresh`): called as recovery begins and after a
    /// timeout, before the window is reduced.
    fn ssthresh(&mut self, now: Nanos, window: &Window) -> u32;

    /// The window may grow (`cong_avoid`).
    fn cong_avoid(&mut self, now: Nanos, sample: &AckSample, window: &mut Window);

    /// The window before a reduction that was unnecessary (`undo_cwnd`).
    fn undo(&mut self, window: &Window) -> u32;

    /// The handshake is done (`init`).
    fn on_established(&mut self, _now: Nanos, _rtt: Option<Nanos>, _window: &mut Window) {}

    /// The retransmission timer marked segments lost. This is their number over the connection.
    fn on_lost(&mut self, _lost_total: u64) {}

    /// A segment was marked lost, for any reason (`skb_marked_lost` of Google's kernels).
    fn on_segment_lost(&mut self, _now: Nanos, _lost: &LostSegment, _window: &Window) {}

    /// The sender's state changes (`set_state`), just before it does.
    fn on_state(&mut self, _now: Nanos, _state: LossState, _window: &mut Window) {}

    /// Sending resumes with nothing in flight (`CA_EVENT_TX_START`).
    fn on_restart(&mut self, _restart: Restart, _window: &mut Window) {}

    /// Called for every acknowledgement that acknowledges something (`pkts_acked`), in every state.
    fn on_acked(&mut self, _now: Nanos, _sample: &AckSample, _window: &mut Window) {}

    /// Sets window and pacing rate itself (`cong_control`), and returns true. By default
    /// [`cong_avoid`](Self::cong_avoid) and the sender's reduction do this.
    fn control(&mut self, _now: Nanos, _sample: &AckSample, _window: &mut Window) -> bool {
        false
    }

    /// The name of the phase that it is in, for tables of connections.
    fn phase(&self) -> Option<&'static str> {
        None
    }
}

/// A [`Controller`] that can be cloned. Every controller that is [`Clone`] can.
pub trait CloneController {
    /// A copy with the same state.
    fn boxed(&self) -> Box<dyn Controller>;
}

impl<T: Controller + Clone + 'static> CloneController for T {
    fn boxed(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Controller> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}

/// The initial values of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// The largest payload of a segment in bytes.
    pub mss: u32,
    /// The time.
    pub now: Nanos,
    /// Seed for random values. Each connection has another one.
    pub seed: u64,
}

/// Sending resumes after a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// The time.
    pub now: Nanos,
    /// How long nothing was sent.
    pub idle: Nanos,
}

/// An algorithm of another program. Its name identifies it: two with the same name are equal.
#[derive(Clone, Copy)]
pub struct CustomAlgorithm {
    /// Its name in results.
    pub name: &'static str,
    /// Makes the congestion control of a connection.
    pub make: fn(Start) -> Box<dyn Controller>,
}

impl fmt::Debug for CustomAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for CustomAlgorithm {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for CustomAlgorithm {}

impl Hash for CustomAlgorithm {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl PartialOrd for CustomAlgorithm {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CustomAlgorithm {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(other.name)
    }
}
