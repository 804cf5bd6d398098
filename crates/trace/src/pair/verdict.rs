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
    /// A shaper that lets a burst pass, then queues and overflows [Flach16 §5.1.2].
    ShaperBurst,
    /// Losses by chance.
    RandomLoss,
    /// Losses that none of these explains.
    Unclear,
}

impl Between {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Nothing,
        Self::Policer,
        Self::Queue,
        Self::Delay,
        Self::Aqm,
        Self::ShaperBurst,
        Self::RandomLoss,
        Self::Unclear,
    ];

    /// How often the verdict is right, 0 to 1, with strong evidence or with weak. Measured on the half of the
    /// lab's pairs that verdicts were tuned on (`studies/verdict`), as (right + 1) / (verdicts + 2), since they
    /// are few. `None` where it was not measured.
    pub fn confidence(self, strong: bool) -> Option<f64> {
        match (self, strong) {
            (Self::Policer, true) => Some(0.98),
            (Self::Queue, true) => Some(0.97),
            (Self::Aqm, true) => Some(0.96),
            (Self::Policer | Self::Aqm, false) => Some(0.95),
            (Self::RandomLoss, _) => Some(0.94),
            (Self::ShaperBurst, true) => Some(0.89),
            (Self::Queue, false) => Some(0.83),
            (Self::ShaperBurst, false) => Some(0.67),
            (Self::Nothing | Self::Delay | Self::Unclear, _) => None,
        }
    }

    /// Its name in columns; names are stable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Policer => "policer",
            Self::Queue => "queue",
            Self::Delay => "delay",
            Self::Aqm => "aqm",
            Self::ShaperBurst => "shaper-burst",
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
    /// Nats by which losses follow a bucket that others use too, whose packets are not in the captures, better
    /// than any channel with memory does.
    pub shared: Option<f64>,
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
/// A bucket that removes this share and is likelier than bursts of chance explains the losses too, where the
/// delays leave no doubt: others, whose packets the captures do not hold, use it as well.
const SHARED: f64 = 0.35;
const NO_DELAY: f64 = 0.1;
/// Losses that a bucket explains better than this, and at least as well as bursts of chance do, are not
/// called chance.
const BY_CHANCE_ONLY: f64 = 0.1;
/// A queue explains transit times if it removes this share of their variation …
const WAITS: f64 = 0.5;
/// … and they vary by more than captures' clocks do, in nanoseconds.
const LEAST_WAIT: f64 = 20_000.0;
/// Shares of the delay that a queue would cause: below there is none, above there is one.
const EMPTY: f64 = 0.4;
const FULL: f64 = 0.6;
/// A queue is full from this share on of the most that ever stood in it.
const OVERFLOWS: f64 = 0.85;
/// Deviations of the mean rank of the delay beside losses below which losses have nothing to do with delay, and above which they have.
const BY_CHANCE: f64 = 2.0;
const BY_DELAY: f64 = 3.0;
/// A queue that explains this share of transit times is there for sure. Then fewer deviations show that it drops.
const SURE_QUEUE: f64 = 0.9;
const SURELY_BY_DELAY: f64 = 2.0;
/// Where no queue explains transit times, since others fill it too, packets beside the losses waited nearly as long as any packet if
/// it was full, and less if it is managed.
const AT_PEAK: f64 = 0.85;
const EXCEEDED: f64 = 0.75;
/// No managed queue drops this share of its packets while it is nearly empty.
const OFTEN_EMPTY: f64 = 0.3;
/// Packets beside the median loss that took longer than the quickest by this, in nanoseconds, and on average longer than this
/// share of all packets, waited in a queue.
const LONG_WAIT: f64 = 5e6;
const HIGH_RANK: f64 = 0.8;
/// No managed queue drops packets that hardly wait, in nanoseconds beside the median loss. A rank that says otherwise is
/// that of packets which were lost in one burst.
const HARDLY_WAITED: f64 = 100_000.0;
/// Nats from which losses are those of a policer that others use too, where packets beside the median loss waited less than
/// this, in nanoseconds; and nats from which such a policer cannot be dismissed. They are those of a single capture's
/// verdict.
const SHARED_GAIN: f64 = 8.0;
const FLAT: f64 = 3e6;
const SHARED_DOUBT: f64 = 5.0;
/// With fewer losses chance is not distinguished from anything.
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
                // Without transit times nobody knows whether packets wait.
                (None, 0) if self.transit.is_some() => Between::Nothing,
                (None, _) => Between::Unclear,
            };
        }
        let Some(beside) = self.beside else {
            return Between::Unclear;
        };
        if let (Some(fit), Some(full)) = (self.explaining_bucket(), self.modelled_delay()) {
            // The queue that delays is the one that drops, if it is full then.
            let is_full = beside.filled.is_some_and(|filled| filled >= OVERFLOWS);
            if queue.is_some_and(|queue| queue.has_rate(&fit.bucket) || is_full) {
                return Between::Queue;
            }
            // What another queue delays proves nothing of this one.
            let waited = match queue {
                Some(_) => beside.unexplained / full,
                None => beside.excess / full,
            };
            if queue.is_none() && fit.tolerates_bursts() {
                return Between::ShaperBurst;
            }
            // Packets of connections whose paths differ take longer, too, but not by as much as a queue that is full.
            let at_peak = waits_in_queue(&beside) && beside.peak >= AT_PEAK;
            if queue.is_none() && at_peak && waited >= NO_DELAY {
                return Between::Queue;
            }
            return match fit.held.unwrap_or(waited) {
                held if held < EMPTY => Between::Policer,
                held if held >= FULL => Between::Queue,
                _ => Between::Unclear,
            };
        }
        if let Some(fit) = self.bucket
            && fit.explained >= SHARED
            && fit.beats_bursts >= LIKELIER
        {
            // What the losses come with is a queue, if not this one.
            let waited = beside.excess > LONG_WAIT && beside.rank > HIGH_RANK;
            match fit.held {
                Some(held) if held < NO_DELAY && queue.is_none() && !waited => {
                    return Between::Policer;
                }
                Some(held) if held >= FULL => return Between::Queue,
                _ => {}
            }
        }
        let full = |filled: f64| filled >= OVERFLOWS;
        if queue.is_some() && beside.filled.is_some_and(full) {
            return Between::Queue;
        }
        if queue.is_none() && waits_in_queue(&beside) {
            return match beside.peak {
                peak if peak >= AT_PEAK => Between::Queue,
                peak if peak < EXCEEDED => Between::Aqm,
                _ => Between::Unclear,
            };
        }
        let hardly_waited = beside.excess < HARDLY_WAITED;
        if queue.is_none() || hardly_waited {
            return self.without_queue(&beside, hardly_waited);
        }
        let needed = match queue {
            Some(queue) if queue.explained >= SURE_QUEUE => SURELY_BY_DELAY,
            _ => BY_DELAY,
        };
        // Where a queue delays packets, a managed one drops at about the same delays as chance, but it
        // drops nothing while it is empty.
        let often_empty = beside.empty.is_some_and(|empty| empty >= OFTEN_EMPTY);
        match beside.deviations() {
            deviations if deviations >= needed => Between::Aqm,
            deviations if deviations < BY_CHANCE && often_empty && self.is_by_chance(&beside) => {
                Between::RandomLoss
            }
            _ => Between::Unclear,
        }
    }

    /// What follows where no packets wait in a queue when others are lost.
    fn without_queue(&self, beside: &Beside, hardly_waited: bool) -> Between {
        let shared = self.shared.unwrap_or(0.0);
        if beside.excess < FLAT && beside.losses >= FEW && shared >= SHARED_GAIN {
            return Between::Policer;
        }
        // Where packets wait, though no model says why, a managed queue may have dropped at random.
        let median = self
            .transit
            .map_or(0.0, |transit| transit.median - transit.least);
        let at_any_delay = hardly_waited || beside.deviations() < BY_CHANCE && median < LONG_WAIT;
        match at_any_delay && shared < SHARED_DOUBT && self.is_by_chance(beside) {
            true => Between::RandomLoss,
            false => Between::Unclear,
        }
    }

    /// Whether no bucket explains enough losses to call them chance.
    fn is_by_chance(&self, beside: &Beside) -> bool {
        let no_better = |fit: BucketFit| fit.explained < BY_CHANCE_ONLY || fit.beats_bursts < 0.0;
        self.bucket.is_none_or(no_better) && beside.losses >= FEW
    }

    /// How sure the verdict is, 0 to 1; `None` where that was not measured.
    pub fn confidence(&self) -> Option<f64> {
        self.verdict().confidence(self.is_strong())
    }

    /// Whether the evidence for the verdict leaves little doubt.
    pub fn is_strong(&self) -> bool {
        let queue = self.explaining_queue();
        match self.verdict() {
            Between::Policer | Between::Queue | Between::ShaperBurst => {
                let bucket = self.explaining_bucket();
                bucket.is_some_and(|fit| fit.explained >= WELL_EXPLAINED)
            }
            Between::Aqm => {
                let beside = self
                    .beside
                    .is_some_and(|beside| beside.deviations() >= BY_DELAY);
                beside && queue.is_some_and(|queue| queue.explained >= SURE_QUEUE)
            }
            _ => false,
        }
    }
}

/// Whether packets beside the losses waited for long, and longer than others.
fn waits_in_queue(beside: &Beside) -> bool {
    beside.excess > LONG_WAIT && beside.losses >= FEW && beside.deviations() >= BY_DELAY
}
