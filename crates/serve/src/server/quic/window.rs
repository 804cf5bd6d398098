//! The congestion window of a connection: CUBIC's, with Trickle's bound on it [Trickle §2].

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, Cubic, CubicConfig};
use tidegate_limiter::pacing::{HEADROOM, Target, Trickle};
use tidegate_pace::Hold;

#[cfg(test)]
mod tests;

/// No bound.
const FREE: u64 = u64::MAX;
/// Of the bytes of a packet these are no data: its header with a connection identifier of 0 to 8 bytes, the frame's header, and the
/// seal (RFC 9000, sections 17.3.1 and 19.8; RFC 9001, section 5.3). That is 25 to 33 bytes, so goodput is known to 0.3 %.
const OVERHEAD: u64 = 29;
/// The same at most, with a connection identifier of 20 bytes.
const MOST_OVERHEAD: u32 = 56;

/// The window of a connection, as the rest of the server sees it.
#[derive(Debug)]
pub(in crate::server) struct Window {
    /// What Trickle allows, in bytes.
    bound: AtomicU64,
    /// What CUBIC and Trickle allow.
    size: AtomicU64,
    /// Bytes of data that were acknowledged, about.
    delivered: AtomicU64,
    state: Mutex<State>,
}

/// What changes once in a round trip, or with a phase.
#[derive(Debug)]
struct State {
    phase: Option<Phase>,
    /// Smoothed round-trip time; zero: not known.
    rtt: Duration,
    mtu: u16,
    /// The next step of the algorithm.
    next: Option<Instant>,
}

/// A throttling phase.
#[derive(Debug)]
struct Phase {
    rule: Trickle,
    /// Bytes delivered when it begins.
    begin: u64,
    /// When it began: `None` while bytes from before are under way.
    since: Option<Instant>,
}

impl Phase {
    fn hold(&self) -> Hold {
        match self.since {
            Some(_) => self.rule.hold(),
            None => Hold::StartUp,
        }
    }

    /// Whether the window is bounded.
    fn is_held(&self) -> bool {
        matches!(self.hold(), Hold::Clamped | Hold::Floor)
    }
}

impl Window {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            bound: AtomicU64::new(FREE),
            size: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            state: Mutex::new(State {
                phase: None,
                rtt: Duration::ZERO,
                mtu: 1200,
                next: None,
            }),
        })
    }

    /// Bytes that may be under way.
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    /// Bytes of a body in a full packet. For ten packets, quinn also needs only one call of the kernel.
    pub fn payload(&self) -> u32 {
        u32::from(self.state().mtu).saturating_sub(MOST_OVERHEAD)
    }

    /// Bytes of data that were acknowledged, about.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// What bounds the rate.
    pub fn hold(&self) -> Hold {
        let phase = &self.state().phase;
        phase.as_ref().map_or(Hold::Unheld, Phase::hold)
    }

    /// Begins a throttling phase of this rate in bytes per second, or ends one. `queued`: bytes written before, which are sent at full speed.
    /// The phase begins when they are acknowledged.
    pub fn pace(&self, now: Instant, rate: Option<u64>, block: u64, queued: u64) {
        let mut state = self.state();
        state.phase = rate.map(|rate| Phase {
            rule: Trickle::new(Target {
                rate,
                headroom: HEADROOM,
                // The program's own window costs nothing to set, so the average is R, not up to 1.2 R.
                hold_average: true,
                block,
            }),
            begin: self.delivered().saturating_add(queued),
            since: None,
        });
        self.step(&mut state, now);
    }

    /// One step of Algorithm 1.
    fn step(&self, state: &mut State, now: Instant) {
        if state.rtt.is_zero() {
            return;
        }
        state.next = Some(now + state.rtt);
        let Some(phase) = &mut state.phase else {
            return;
        };
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let Some(delivered) = self.delivered().checked_sub(phase.begin) else {
            return;
        };
        let since = *phase.since.get_or_insert(now);
        let elapsed = nanos(now.saturating_duration_since(since));
        let (mtu, rtt) = (u32::from(state.mtu), nanos(state.rtt));
        let segments = phase.rule.segments(mtu, rtt, elapsed, delivered);
        // While goodput is below R, acknowledgements raise the bound (see `on_ack`).
        if phase.is_held() {
            // quinn sends while less than the window is under way, with the packet that it sends.
            let bound = u64::from(segments) * u64::from(mtu) + 1;
            self.bound.store(bound, Ordering::Relaxed);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ControllerFactory for Window {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let cubic = Cubic::new(Arc::new(CubicConfig::default()), now, mtu);
        // Another path has another round trip.
        self.state().rtt = Duration::ZERO;
        let mut bounded = Bounded {
            window: self,
            cubic,
            mtu,
            recovers: None,
        };
        bounded.on_mtu_update(mtu);
        Box::new(bounded)
    }
}

/// CUBIC within the bound.
#[derive(Clone)]
struct Bounded {
    window: Arc<Window>,
    cubic: Cubic,
    mtu: u16,
    /// Packets that were sent until then belong to the last loss.
    recovers: Option<Instant>,
}

impl fmt::Debug for Bounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bounded")
            .field("window", &self.window())
            .finish_non_exhaustive()
    }
}

impl Bounded {
    fn bound(&self) -> u64 {
        self.window.bound.load(Ordering::Relaxed)
    }

    fn note_size(&self) {
        self.window.size.store(self.window(), Ordering::Relaxed);
    }
}

impl Controller for Bounded {
    fn on_sent(&mut self, now: Instant, bytes: u64, last: u64) {
        self.cubic.on_sent(now, bytes, last);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        let data = bytes.saturating_sub(OVERHEAD);
        self.window.delivered.fetch_add(data, Ordering::Relaxed);
        let bound = self.bound();
        let is_bound = self.cubic.window() >= bound;
        // A window that is not used says nothing of what the network carries (RFC 9002, section 7.8).
        self.cubic
            .on_ack(now, sent, bytes, app_limited || is_bound, rtt);
        let mut state = self.window.state();
        state.rtt = rtt.get();
        let is_held = state.phase.as_ref().is_some_and(Phase::is_held);
        drop(state);
        // The bound gives way as slow start does, not at once: CUBIC's window may be that of a start-up phase long ago.
        if bound != FREE && !app_limited && !is_held {
            let wider = bound.saturating_add(bytes);
            self.window.bound.store(wider, Ordering::Relaxed);
        }
        self.note_size();
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest: Option<u64>,
    ) {
        self.cubic.on_end_acks(now, in_flight, app_limited, largest);
        let mut state = self.window.state();
        if state.next.is_none_or(|next| next <= now) {
            self.window.step(&mut state, now);
        }
        drop(state);
        self.note_size();
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost: u64) {
        let is_new = self.recovers.is_none_or(|at| sent > at);
        if is_new {
            self.recovers = Some(now);
            let used = self.bound();
            if used < self.cubic.window() {
                // The window that met the loss is the bounded one: that is what CUBIC must reduce, as the kernel's does.
                let mut config = CubicConfig::default();
                config.initial_window(used);
                self.cubic = Cubic::new(Arc::new(config), now, self.mtu);
            }
        }
        self.cubic.on_congestion_event(now, sent, persistent, lost);
        self.note_size();
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.cubic.on_mtu_update(mtu);
        self.window.state().mtu = mtu;
        self.note_size();
    }

    fn window(&self) -> u64 {
        self.cubic.window().min(self.bound())
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.cubic.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
