//! HyStart: slow start ends before the queue overflows.

use super::super::{AckSample, Window};

/// Below this window it is not active.
const LOW_WINDOW: u32 = 16;
/// Round trips in a round before their minimum is trusted.
const MIN_SAMPLES: u32 = 8;
/// How far round trips must rise: an eighth of the minimum, within these bounds (microseconds).
const DELAY_MIN: u64 = 4000;
const DELAY_MAX: u64 = 16_000;
/// Acknowledgements at most this far apart are one train (microseconds).
const TRAIN_GAP: u64 = 2000;
/// Bytes of the largest super-packet, four of which an acknowledgement may be late by.
const GSO_MAX_SIZE: u64 = 65_536;

/// Ha and Rhee 2011, as Linux `tcp_cubic.c` since 5.6. Slow start ends if the train of
/// acknowledgements is as long as half the round trip, or if round trips rise within a round. Times
/// are in microseconds.
#[derive(Debug, Clone)]
pub(super) struct HyStart {
    mss: u32,
    found: bool,
    round_start: u64,
    /// The round ends when this is acknowledged.
    round_end: u64,
    last_ack: u64,
    /// The smallest round trip of the round.
    round_rtt: u64,
    samples: u32,
    snd_nxt: u64,
}

impl HyStart {
    pub(super) fn new(mss: u32, now: u64) -> Self {
        Self {
            mss,
            found: false,
            round_start: now,
            round_end: 0,
            last_ack: now,
            round_rtt: u64::MAX,
            samples: 0,
            snd_nxt: 0,
        }
    }

    /// Begins a new measurement: when a round ends, and after a timeout.
    pub(super) fn next_round(&self, now: u64) -> Self {
        Self {
            round_end: self.snd_nxt,
            snd_nxt: self.snd_nxt,
            ..Self::new(self.mss, now)
        }
    }

    /// The first byte not sent yet.
    pub(super) fn sent(&mut self, snd_nxt: u64) {
        self.snd_nxt = snd_nxt;
    }

    /// Sets the threshold to the window if the path is full (Linux `hystart_update`).
    pub(super) fn update(
        &mut self,
        now: u64,
        delay: u64,
        delay_min: u64,
        sample: &AckSample,
        window: &mut Window,
    ) {
        if self.found {
            return;
        }
        // Rounds are also counted below the low window (Linux 6.14), or the first one would be too
        // long.
        if sample.snd_una > self.round_end {
            *self = self.next_round(now);
        }
        if window.cwnd < LOW_WINDOW {
            return;
        }
        if now.saturating_sub(self.last_ack) <= TRAIN_GAP {
            self.last_ack = now;
            let mut threshold = delay_min + self.aggregation(sample, window);
            // Pacing alone spreads a window over up to half a round trip, so Linux halves it only for SK_PACING_NONE.
            if !sample.paced {
                threshold /= 2;
            }
            self.found = now.saturating_sub(self.round_start) > threshold;
        }
        self.round_rtt = self.round_rtt.min(delay);
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
        } else {
            let rise = (delay_min / 8).clamp(DELAY_MIN, DELAY_MAX);
            self.found |= self.round_rtt > delay_min.saturating_add(rise);
        }
        if self.found {
            window.ssthresh = window.cwnd;
        }
    }

    /// How late super-packets may make acknowledgements, at most a millisecond (Linux
    /// `hystart_ack_delay`). Linux has this rate for pacing even without pacing: two windows a
    /// round trip in slow start.
    fn aggregation(&self, sample: &AckSample, window: &Window) -> u64 {
        let rate = window.pacing_rate.or_else(|| {
            let bytes = 2 * u128::from(window.cwnd) * u128::from(self.mss);
            let rate = (bytes * 1_000_000_000).checked_div(u128::from(sample.srtt?))?;
            u64::try_from(rate).ok()
        });
        match rate {
            None | Some(0) => 0,
            Some(rate) => (GSO_MAX_SIZE * 4 * 1_000_000 / rate).min(1000),
        }
    }
}
