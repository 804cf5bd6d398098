//! How many more segments are acknowledged at once than expected.

use super::bandwidth;

/// Rounds after which the older of the two maxima is dropped.
const WINDOW_ROUNDS: u32 = 5;
/// Segments after which an epoch ends in any case.
const EPOCH_SEGMENTS: u64 = 1 << 20;
/// The window is raised by at most the segments of this time, in microseconds.
const LONGEST: u64 = 100_000;

/// The largest aggregation of the last five to ten rounds (Linux `tcp_bbr.c`,
/// `bbr_update_ack_aggregation`). Wireless links and cable modems acknowledge in bursts. Without as
/// many more segments in flight the sender would have to wait between them.
#[derive(Debug, Clone, Default)]
pub(super) struct Aggregation {
    /// When the epoch started, in microseconds, and what was acknowledged in it.
    epoch_start: u64,
    acked: u64,
    largest: [u32; 2],
    current: usize,
    rounds: u32,
}

impl Aggregation {
    /// An epoch starts.
    pub(super) fn restart(&mut self, now: u64) {
        self.epoch_start = now;
        self.acked = 0;
    }

    /// Segments acknowledged at this time, where `bandwidth` was expected.
    pub(super) fn update(
        &mut self,
        now: u64,
        acked: u32,
        round_start: bool,
        bandwidth: u32,
        cwnd: u32,
    ) {
        if round_start {
            self.rounds += 1;
            if self.rounds >= WINDOW_ROUNDS {
                self.rounds = 0;
                self.current ^= 1;
                self.largest[self.current] = 0;
            }
        }
        let elapsed = now.saturating_sub(self.epoch_start);
        let mut expected = u64::from(bandwidth::segments(bandwidth, elapsed));
        let acked = u64::from(acked);
        if self.acked <= expected || self.acked + acked >= EPOCH_SEGMENTS {
            self.restart(now);
            expected = 0;
        }
        self.acked = (self.acked + acked).min(EPOCH_SEGMENTS - 1);
        // The window bounds the aggregation; the kernel has 16 bits for it.
        let extra = self.acked.saturating_sub(expected).min(u64::from(cwnd));
        let extra = extra.min(u64::from(u16::MAX)) as u32;
        let largest = &mut self.largest[self.current];
        *largest = extra.max(*largest);
    }

    /// Additional segments to have in flight (`bbr_ack_aggregation_cwnd`).
    pub(super) fn extra(&self, bandwidth: u32) -> u32 {
        let largest = self.largest[0].max(self.largest[1]);
        largest.min(bandwidth::segments(bandwidth, LONGEST))
    }
}
