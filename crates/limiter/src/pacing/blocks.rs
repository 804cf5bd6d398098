//! Application pacing: a token bucket whose tokens come from the phase's beginning on, and are not bounded. What a slow
//! network kept from being sent may be sent later [Trickle §2].

use super::time_of;
use crate::Nanos;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blocks {
    /// Bytes per second.
    rate: u64,
    start: Nanos,
    /// Bytes written since the start.
    written: u64,
}

impl Blocks {
    pub fn new(rate: u64, start: Nanos) -> Self {
        Self {
            rate,
            start,
            written: 0,
        }
    }

    /// When there are tokens for this many bytes more.
    pub fn due(&self, bytes: u64) -> Nanos {
        let time = time_of(self.rate, self.written.saturating_add(bytes));
        self.start.saturating_add(time)
    }

    pub fn wrote(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
    }
}
