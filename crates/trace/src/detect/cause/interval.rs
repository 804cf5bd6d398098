//! Which rates and depths explain the losses nearly as well as the best.
//!
//! The interval of one quantity holds every value at which the other can be chosen so that the
//! likelihood is less than [`NATS`] below the greatest: a profile likelihood. At small buckets and
//! high rates both are tied (a faster, shallower bucket drops the same packets), so each step moves
//! the other along.

use super::arrival::Arrival;
use super::bucket::Bucket;
use super::fit::Fit;
use super::lanes::log_likelihoods;
use super::step::{Merges, Step};
use super::vector::LANES;

/// Nats by which a bucket may be less likely than the best. For a model without fault 1.9 would
/// hold the truth 19 times in 20. What a real router does and the model lacks shows in fates that the
/// best bucket does not explain, and so a share of these is added.
const NATS: f64 = 6.0;
const UNEXPLAINED: f64 = 0.03;
/// Where others may use the bucket whose packets the capture does not hold, the fates that the best bucket does
/// not explain may be their doing: of these, this share is added.
const UNSEEN: f64 = 0.47;
/// Between a single capture and the limiter, times are off by microseconds that the model does not know, by the same for all
/// losses of an episode. From this rate in bytes a second on all that is not explained may be its doing, over the number of
/// episodes, and the interval reaches further by this share; both are proportionally less below.
const FAST: f64 = 37.5e6;
const FASTER: f64 = 0.03;
/// Above this rate it reaches further by this share too: with the other terms alone 91 % of the intervals of one
/// half of the lab's transfers held the truth (studies/verdict).
const VERY_FAST: f64 = 12.5e6;
const MUCH_FASTER: f64 = 0.03;
/// Values of the other quantity that are tried, as shares of a step.
const TRIED: [f64; LANES] = [
    0.0, 0.06, -0.06, 0.12, -0.12, 0.25, -0.25, 0.5, -0.5, 0.75, -0.75, 1.0, -1.0, 1.5, -1.5, 2.0,
];
/// Farther than a factor of this from the best nothing is tried.
const FARTHEST: f64 = 8.0;
/// Bytes by which a level may be wrong because packets are replayed together.
const MERGE: f64 = 20.0;
/// Halvings of the last step.
const HALVINGS: usize = 3;
/// What an interval at least reaches to each side: routers round rates, and refill in small steps.
const LEAST_RATE_REACH: f64 = 0.003;
const LEAST_DEPTH_REACH: f64 = 0.035;
/// A bucket that is refilled in steps, or by packets rather than bytes, is off by up to one packet.
const PACKET: f64 = 1_518.0;

/// The least and the greatest value of a quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
    /// How many of its ends are known, because values beyond them are unlikely. Beyond another end none was tried.
    pub ends: u8,
}

impl Interval {
    /// Whether a value is in it.
    pub fn holds(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// The least interval that holds both.
    pub(super) fn with(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
            ends: self.ends.min(other.ends),
        }
    }
}

/// What a likelihood does not know.
#[derive(Debug, Clone, Copy, Default)]
pub struct Doubt {
    /// The share of the fates without explanation that is added to what separates likely from unlikely.
    more: f64,
    /// By which share the rate's interval reaches further; the depth's, which is less certain, reaches twice as far.
    reach: f64,
}

impl Doubt {
    /// Of a limiter that is seen from a capture elsewhere, given the number of its episodes of losses. `all_seen`: nobody else uses
    /// it.
    pub fn of(rate: f64, episodes: usize, all_seen: bool) -> Self {
        let fast = (rate / FAST).min(1.0);
        let common = fast / episodes.max(1) as f64;
        Self {
            more: if all_seen { common } else { UNSEEN },
            reach: FASTER * fast + if rate > VERY_FAST { MUCH_FASTER } else { 0.0 },
        }
    }

    /// Whether a fit is nearly as likely as another, given the same fates.
    pub(super) fn allows(self, fit: &Fit, other: &Fit) -> bool {
        fit.log_likelihood > self.least(other.log_likelihood)
    }

    /// The least likelihood that is nearly as great as another, as logarithms.
    fn least(self, best: f64) -> f64 {
        best - NATS - (UNEXPLAINED + self.more) * best.abs()
    }
}

/// Intervals of a bucket's rate (bytes a second) and depth (bytes).
pub fn intervals(arrivals: &[Arrival], fit: &Fit, doubt: Doubt) -> (Interval, Interval) {
    let mut merges = Merges::new(arrivals);
    let steps = merges.within(MERGE / fit.bucket.rate);
    // The fit may rest on more packets than these.
    let [best, ..] = log_likelihoods(steps, &[fit.bucket; LANES], fit.noise);
    let profile = Profile {
        steps,
        fit,
        least: doubt.least(best),
    };
    let (rate, depth) = (fit.bucket.rate, fit.bucket.depth);
    let least_depth_reach = LEAST_DEPTH_REACH + PACKET / depth;
    let [low, high] =
        [-1.0, 1.0].map(|to| profile.reach(to, Quantity::Rate, LEAST_RATE_REACH) + doubt.reach);
    let [shallow, deep] = [-1.0, 1.0]
        .map(|to| profile.reach(to, Quantity::Depth, least_depth_reach) + 2.0 * doubt.reach);
    let interval = |best: f64, below: f64, above: f64| Interval {
        low: best * (-below).exp(),
        high: best * above.exp(),
        ends: [below, above]
            .into_iter()
            .map(|reach| u8::from(reach < FARTHEST.ln()))
            .sum(),
    };
    (interval(rate, low, high), interval(depth, shallow, deep))
}

#[derive(Clone, Copy)]
enum Quantity {
    Rate,
    Depth,
}

struct Profile<'a> {
    steps: &'a [Step],
    fit: &'a Fit,
    /// The least likelihood, as a logarithm, of a bucket in the interval.
    least: f64,
}

impl Profile<'_> {
    /// How far, in logarithms, a quantity can go in a direction; `least` is the answer where it cannot
    /// go so far.
    fn reach(&self, direction: f64, quantity: Quantity, least: f64) -> f64 {
        let (mut near, mut step) = (0.0, least);
        let mut other = 0.0;
        // Out, until the likelihood is too small …
        let mut far = loop {
            let distance = near + step;
            if distance > FARTHEST.ln() {
                return FARTHEST.ln();
            }
            match self.follow(direction * distance, other, step, quantity) {
                Some(followed) => (near, other) = (distance, followed),
                None => break distance,
            }
            step *= 2.0;
        };
        if near == 0.0 {
            return least;
        }
        // … and back, to where it becomes so.
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(near, far);
            match self.follow(direction * middle, other, far - near, quantity) {
                Some(followed) => (near, other) = (middle, followed),
                None => far = middle,
            }
        }
        far
    }

    /// The best value of the other quantity near `other`, if that is likely enough. All in logarithms of
    /// the share of the best fit.
    fn follow(&self, moved: f64, other: f64, step: f64, quantity: Quantity) -> Option<f64> {
        let best = self.fit.bucket;
        let tried = TRIED.map(|share| other + share * step);
        let buckets = tried.map(|other| {
            let (rate, depth) = match quantity {
                Quantity::Rate => (moved, other),
                Quantity::Depth => (other, moved),
            };
            Bucket {
                rate: best.rate * rate.exp(),
                depth: best.depth * depth.exp(),
                ..best
            }
        });
        log_likelihoods(self.steps, &buckets, self.fit.noise)
            .into_iter()
            .zip(tried)
            .filter(|&(likelihood, _)| likelihood > self.least)
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, other)| other)
    }
}
