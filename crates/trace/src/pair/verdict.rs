//! What stands between the two places.

use std::fmt;

use super::fit::{Beside, BucketFit, LEAST_LOSSES};
use super::stream::Transit;
use super::waiting::Waiting;

/// What is between the places that packets meet on one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Between {
    /// Nothing that drops or delays packets.
    Nothing,
    /// A policer; there may be a queue too.
    Policer,
    /// A queue that overflows.
    Queue,
    /// A queue that delays and does not overflow.
    Delay,
    /// A queue that drops before it is full.
    Aqm,
    /// Losses by chance.
    RandomLoss,
    /// Losses that none of these explains.
    Unclear,
}

impl Between {
    /// Its name in columns; names are stable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Policer => "policer",
            Self::Queue => "queue",
            Self::Delay => "delay",
            Self::Aqm => "aqm",
            Self::RandomLoss => "random-loss",
            Self::Unclear => "unclear",
        }
    }
}

impl fmt::Display for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What the fits say of one way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fits {
    /// Packets lost.
    pub lost: usize,
    /// All packets, …
    pub packets: usize,
    /// … and those of them around the first losses that models were fitted to.
    pub fitted: usize,
    /// The bucket that explains the losses best.
    pub bucket: Option<BucketFit>,
    /// The queue that explains the transit times best.
    pub waiting: Option<Waiting>,
    /// How long packets beside the losses took.
    pub beside: Option<Beside>,
    /// Transit times of all packets.
    pub transit: Option<Transit>,
}

/// A bucket explains losses if it removes this share of the uncertainty about them, and is likelier
/// than bursts of chance by `LIKELIER` nats; or if it removes the second share.
const EXPLAINED: f64 = 0.6;
const WELL_EXPLAINED: f64 = 0.85;
const LIKELIER: f64 = 3.0;
/// A queue explains transit times if it removes this share of their variation …
const WAITS: f64 = 0.5;
/// … and they vary by more than captures' clocks do, in nanoseconds.
const LEAST_WAIT: f64 = 20_000.0;
/// Shares of the delay that a queue would cause: below there is none, above there is one.
const EMPTY: f64 = 0.4;
const FULL: f64 = 0.6;
/// A queue is full from this share on of the most that ever stood in it.
const OVERFLOWS: f64 = 0.85;
/// By chance, ranks of the delay beside losses are spread evenly from 0 to 1: their mean is a half, and this
/// is the standard deviation of one.
const DEVIATION: f64 = 0.289;
/// Deviations of the mean below which losses have nothing to do with delay, and above which they have.
const BY_CHANCE: f64 = 2.0;
const BY_DELAY: f64 = 3.0;
/// With fewer losses chance is not told from anything.
const FEW: usize = 10;

impl Fits {
    /// The bucket, if it explains the losses.
    pub fn explaining_bucket(&self) -> Option<&BucketFit> {
        let enough = |fit: &&BucketFit| {
            fit.explained >= WELL_EXPLAINED
                || (fit.explained >= EXPLAINED && fit.beats_bursts >= LIKELIER)
        };
        self.bucket.as_ref().filter(enough)
    }

    /// The queue, if it explains the transit times and these vary.
    pub fn explaining_queue(&self) -> Option<&Waiting> {
        let varies = |transit: Transit| transit.p99 - transit.least > LEAST_WAIT;
        let waiting = self.waiting.as_ref();
        waiting.filter(|waiting| waiting.explained >= WAITS && self.transit.is_some_and(varies))
    }

    /// How long a full queue of the bucket's rate and size would delay, in nanoseconds.
    pub fn modelled_delay(&self) -> Option<f64> {
        let bucket = self.bucket?.bucket;
        Some(bucket.depth / bucket.rate * 1e9)
    }

    /// What follows.
    pub fn verdict(&self) -> Between {
        let queue = self.explaining_queue();
        if self.lost < LEAST_LOSSES {
            return match (queue, self.lost) {
                (Some(_), _) => Between::Delay,
                (None, 0) => Between::Nothing,
                (None, _) => Between::Unclear,
            };
        }
        let Some(beside) = self.beside else {
            return Between::Unclear;
        };
        if let (Some(fit), Some(full)) = (self.explaining_bucket(), self.modelled_delay()) {
            if queue.is_some_and(|queue| queue.has_rate(&fit.bucket)) {
                return Between::Queue;
            }
            // What another queue delays proves nothing of this one.
            let beside = match queue {
                Some(_) => beside.unexplained / full,
                None => beside.excess / full,
            };
            return match fit.held.unwrap_or(beside) {
                held if held < EMPTY => Between::Policer,
                held if held >= FULL => Between::Queue,
                _ => Between::Unclear,
            };
        }
        let full = |filled: f64| filled >= OVERFLOWS;
        if queue.is_some() && beside.filled.is_some_and(full) {
            return Between::Queue;
        }
        let losses = beside.losses as f64;
        match (beside.rank - 0.5) / DEVIATION * losses.sqrt() {
            deviations if deviations < BY_CHANCE && beside.losses >= FEW => Between::RandomLoss,
            deviations if deviations >= BY_DELAY && queue.is_some() => Between::Aqm,
            _ => Between::Unclear,
        }
    }
}
