//! Whether a client takes its data: bytes of bodies that are written, and bytes that are acknowledged.
//!
//! Everything else that is written, such as answers to HTTP/2's pings, is not progress.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// This many acknowledged bytes of bodies are progress. Fewer bytes are progress if they are the
/// last.
const LEAST: u64 = 512;

#[derive(Debug)]
pub(super) struct Progress {
    began: Instant,
    /// Nanoseconds since it began: when bytes of a body were last written, or seen to be acknowledged.
    last: AtomicU64,
    written: AtomicU64,
    /// Bytes that were last offered to the socket and that it did not take.
    refused: AtomicU64,
    /// Bytes of bodies that were handed on and not written yet.
    outstanding: AtomicU64,
    /// The number of bytes written when the last byte of a body is.
    payload: AtomicU64,
    /// Bytes acknowledged up to there, when last checked.
    acknowledged: AtomicU64,
}

impl Progress {
    pub fn new() -> Self {
        Self {
            began: Instant::now(),
            last: AtomicU64::new(0),
            written: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            outstanding: AtomicU64::new(0),
            payload: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
        }
    }

    /// When the connection began.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// The connection's time, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.nanos(Instant::now())
    }

    /// A time, in nanoseconds of the connection: 0 before it began.
    pub fn nanos(&self, time: Instant) -> u64 {
        let since = time.saturating_duration_since(self.began);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    /// When the client last took something.
    pub fn last(&self) -> Instant {
        self.began + Duration::from_nanos(self.last.load(Ordering::Relaxed))
    }

    /// Bytes that went into the socket.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Bytes that went into the socket when the last byte of a body did.
    pub fn payload(&self) -> u64 {
        self.payload.load(Ordering::Relaxed)
    }

    /// Whether bytes of bodies were handed on and not written yet.
    pub fn is_outstanding(&self) -> bool {
        self.outstanding.load(Ordering::Relaxed) > 0
    }

    /// Whether the socket did not take all of what it was last offered.
    pub fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed) > 0
    }

    /// Whether bytes of bodies that the socket took were not acknowledged when last checked.
    pub fn is_unacknowledged(&self) -> bool {
        self.acknowledged.load(Ordering::Relaxed) < self.payload.load(Ordering::Relaxed)
    }

    /// The socket took this many of the offered bytes.
    pub fn wrote(&self, bytes: usize, offered: usize) {
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
        let refused = offered.saturating_sub(bytes) as u64;
        self.refused.store(refused, Ordering::Relaxed);
    }

    /// The kernel says that this many bytes are acknowledged.
    pub fn acknowledged(&self, bytes: u64) {
        let payload = self.payload.load(Ordering::Relaxed);
        let now = bytes.min(payload);
        let before = self.acknowledged.load(Ordering::Relaxed);
        if now >= before + LEAST || now > before && now == payload {
            self.acknowledged.store(now, Ordering::Relaxed);
            self.last.fetch_max(self.now(), Ordering::Relaxed);
        }
    }

    /// About this many bytes are acknowledged. Of which responses is not known.
    pub fn acknowledged_about(&self, bytes: u64) {
        if bytes >= self.acknowledged.load(Ordering::Relaxed) + LEAST {
            self.acknowledged.store(bytes, Ordering::Relaxed);
            self.last.fetch_max(self.now(), Ordering::Relaxed);
        }
    }

    /// Bytes of a body were handed on.
    pub fn handed(&self, bytes: usize) {
        self.outstanding.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes of bodies were written. TLS may keep some of them until the socket takes them.
    pub fn delivered(&self, bytes: usize) {
        self.outstanding.fetch_sub(bytes as u64, Ordering::Relaxed);
        let behind = self.refused.load(Ordering::Relaxed);
        let end = self.written.load(Ordering::Relaxed) + behind;
        self.payload.fetch_max(end, Ordering::Relaxed);
        self.last.fetch_max(self.now(), Ordering::Relaxed);
    }

    /// Bytes of a body that were handed on will never be written.
    pub fn discarded(&self, bytes: usize) {
        self.outstanding.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}
