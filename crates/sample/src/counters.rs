//! Counts of a sampler since it began, for those that watch it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts that other threads may read at any time.
#[derive(Debug, Default)]
pub struct Counters {
    /// Packets in files that were completed, or that were handed on.
    pub packets: AtomicU64,
    /// Packets that the kernel dropped because the ring was full.
    pub dropped: AtomicU64,
    /// Packets that were not written because the disk was full.
    pub discarded: AtomicU64,
    /// Files that were completed.
    pub files: AtomicU64,
    /// Their bytes.
    pub bytes: AtomicU64,
    /// Rows that were added to a dataset. The code that adds them counts them.
    pub rows: AtomicU64,
    /// Periods whose rows could not be written. The code that adds rows counts them.
    pub lost_periods: AtomicU64,
    /// Files that were removed to make room.
    pub removed: AtomicU64,
    /// How often the share was lowered.
    pub lowered: AtomicU64,
    /// Files that could not be moved elsewhere, and wait. The code that moves them counts them.
    pub unmoved: AtomicU64,
    /// The bits of the present share, a number of 64 bits.
    fraction: AtomicU64,
}

impl Counters {
    /// The share of flows, or of clients, that is sampled now.
    pub fn fraction(&self) -> f64 {
        f64::from_bits(self.fraction.load(Ordering::Relaxed))
    }

    pub(crate) fn set_fraction(&self, share: f64) {
        self.fraction.store(share.to_bits(), Ordering::Relaxed);
    }

    pub(crate) fn add(count: &AtomicU64, more: u64) {
        count.fetch_add(more, Ordering::Relaxed);
    }
}
