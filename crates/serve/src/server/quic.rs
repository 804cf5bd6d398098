//! A connection of QUIC, as far as pacing and figures need it. All connections share one UDP socket, which the kernel cannot pace
//! for one of them. So the clamp is in this program: on the congestion window of its own QUIC.

mod window;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_pace::{Hold, Way};

use super::kernel::Snapshot;

pub(super) use window::Window;

/// A connection of QUIC.
#[derive(Debug)]
pub(super) struct Quic {
    connection: quinn::Connection,
    window: Arc<Window>,
    /// Bytes of bodies that it took.
    written: AtomicU64,
    /// Bytes that may wait in it, as it was last asked for.
    room: AtomicU64,
}

impl Quic {
    /// `window` is the one that the connection was made with.
    pub fn new(connection: quinn::Connection, window: Arc<Window>) -> Self {
        Self {
            connection,
            window,
            written: AtomicU64::new(0),
            room: AtomicU64::new(0),
        }
    }

    /// The figures, of which TCP's are the kernel's.
    pub fn snapshot(&self) -> Snapshot {
        let path = self.connection.stats().path;
        let count = |packets: u64| u32::try_from(packets).unwrap_or(u32::MAX);
        let micros = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        Snapshot {
            srtt_us: micros(path.rtt),
            min_rtt_us: micros(path.min_rtt),
            segment: self.window.payload(),
            cwnd: count(path.cwnd / u64::from(path.current_mtu.max(1))),
            segments: count(path.sent_packets),
            retransmitted: count(path.lost_packets),
            acknowledged: self.window.delivered().min(self.written()),
        }
    }

    fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// It took this many bytes of a body. As many may wait as the congestion window has, and `unsent` more. Memory is then bounded by what the
    /// network carries, and a throttling phase does not wait for megabytes of the start-up phase.
    pub fn took(&self, bytes: usize, unsent: u32) {
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
        let wanted = self.window.size().saturating_add(unsent.into());
        let now = self.room.load(Ordering::Relaxed);
        // Each change takes the connection's lock.
        if wanted.abs_diff(now) > u64::from(unsent) / 8 {
            self.room.store(wanted, Ordering::Relaxed);
            self.connection.set_send_window(wanted);
        }
    }

    /// What bounds the rate, for a writer.
    pub fn hold(&self, way: Way) -> Option<Hold> {
        match way {
            Way::Trickle { .. } => Some(self.window.hold()),
            // There is no socket to set it on.
            Way::MaxPacingRate => Some(Hold::Unheld),
            Way::None | Way::Application { .. } => None,
        }
    }

    /// Keeps the connection to this rate in bit/s, or frees it.
    pub fn set(&self, way: Way, rate: Option<u64>) {
        if let Way::Trickle { block } = way {
            let now = tokio::time::Instant::now().into_std();
            let rate = rate.map(|rate| rate.div_ceil(8));
            // What was delivered is known about, what may wait exactly.
            let queued = self.written().saturating_sub(self.window.delivered());
            let queued = queued.min(self.room.load(Ordering::Relaxed));
            self.window.pace(now, rate, block, queued);
        }
    }

    /// How the connection is really paced.
    pub fn by(way: Way) -> &'static str {
        match way {
            Way::Trickle { .. } => "clamp",
            Way::Application { .. } | Way::MaxPacingRate => "application",
            Way::None => "nothing",
        }
    }
}
