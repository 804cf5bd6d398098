//! Rounds, and whether the path is full.

use super::super::AckSample;
use super::{Bbr3, Delivery};

/// Rounds without a quarter more bandwidth, after which the path counts as full.
const FULL_ROUNDS: u32 = 3;

/// A round is over when data that was sent after its start is acknowledged: §5.5.1.
#[derive(Debug, Clone, Default)]
pub(super) struct Rounds {
    pub(super) count: u64,
    end: u64,
    /// Whether this acknowledgement begins one.
    pub(super) start: bool,
}

impl Rounds {
    /// `StartRound`.
    pub(super) fn begin(&mut self, delivered: u64) {
        self.end = delivered;
    }

    /// `UpdateRound`.
    pub(super) fn update(&mut self, sample: &AckSample) {
        self.start = sample.prior_delivered > 0 && sample.prior_delivered >= self.end;
        if self.start {
            self.begin(sample.delivered);
            self.count += 1;
        }
    }
}

/// The estimator of §5.3.1.2.
#[derive(Debug, Clone, Default)]
pub(super) struct FullPipe {
    bandwidth: u32,
    rounds: u32,
    /// Full now, and at any time of the connection.
    pub(super) now: bool,
    pub(super) reached: bool,
}

impl FullPipe {
    /// `ResetFullBW`, from this bandwidth on.
    pub(super) fn reset(&mut self, bandwidth: u32) {
        (self.bandwidth, self.rounds, self.now) = (bandwidth, 0, false);
    }
}

impl Bbr3 {
    /// `CheckFullBWReached`.
    pub(super) fn check_full(&mut self, sample: &AckSample, delivery: Delivery) {
        if self.full.now || !self.rounds.start || self.is_app_limited(sample) {
            return;
        }
        if u64::from(delivery.rate) * 4 >= u64::from(self.full.bandwidth) * 5 {
            self.full.reset(delivery.rate);
            return;
        }
        self.full.rounds += 1;
        self.full.now = self.full.rounds >= FULL_ROUNDS;
        self.full.reached |= self.full.now;
    }
}
