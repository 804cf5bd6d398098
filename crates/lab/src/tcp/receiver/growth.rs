//! How Linux's receive window grows: dynamic right-sizing, 2.4 and later (`tcp_rcv_space_adjust`,
//! `tcp_grow_window`).
//!
//! A server sees it in the acknowledgements: while the window grows, each segment gets a separate
//! one. So in slow start there are twice as many as delayed ones, and HyStart takes them for a
//! train.

use tidegate_limiter::Nanos;

#[cfg(test)]
mod tests;

/// The first window, and the window that `tcp_rmem`'s 128 kB give once full segments are seen (1448
/// bytes in buffers of 2304).
const FIRST: u64 = 65_535;
const BUFFER: u64 = 81_920;
/// Shorter segments do not count.
const LEAST: u32 = 128;
/// The segments that a round trip is expected to bring at first (`TCP_INIT_CWND`).
const INITIAL: u64 = 10;

/// The window that Linux would have. It is not announced.
#[derive(Debug, Clone)]
pub(super) struct Growth {
    mss: u64,
    most: u64,
    /// The window (`rcv_ssthresh`), and its bound (`window_clamp`).
    window: u64,
    clamp: u64,
    /// Bytes that were read in the last round trip that brought more than the one before. Then the
    /// byte and the time at which the present one began.
    space: u64,
    began: Option<(u64, Nanos)>,
}

impl Growth {
    pub(super) fn new(mss: u32, most: u32) -> Self {
        let (mss, most) = (u64::from(mss.max(1)), u64::from(most));
        Self {
            mss,
            most,
            window: FIRST.min(most),
            clamp: BUFFER.min(most),
            space: INITIAL * mss,
            began: None,
        }
    }

    /// A segment came. Returns whether it makes the window grow.
    pub(super) fn take(&mut self, payload: u32) -> bool {
        let grows = payload >= LEAST && self.window < self.clamp;
        if grows {
            self.window = (self.window + 2 * self.mss).min(self.clamp);
        }
        grows
    }

    /// The application has read up to this byte. Once a round trip, if it brought more than those
    /// before, the window gets room for twice as much, and for as much growth again, twice.
    pub(super) fn read(&mut self, now: Nanos, byte: u64, rtt: Option<Nanos>) {
        let Some((from, at)) = self.began else {
            self.began = Some((byte, now));
            return;
        };
        if rtt.is_none_or(|rtt| now.saturating_sub(at) < rtt) {
            return;
        }
        let copied = byte - from;
        if copied > self.space {
            let window = u128::from(2 * copied);
            let growth = window * u128::from(copied - self.space) / u128::from(self.space);
            let window = u64::try_from(window + 2 * growth).unwrap_or(u64::MAX);
            self.clamp = self.clamp.max(window.min(self.most));
            self.space = copied;
        }
        self.began = Some((byte, now));
    }
}
