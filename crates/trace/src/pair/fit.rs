//! What explains the losses between the places: a policer, a queue, both, or chance.

use super::likely::Likely;
use super::passage::{Fate, Passage};
use super::waiting::{Waiting, modelled, stays};
use crate::detect::cause::{
    Arrival, Bucket, Doubt, Interval, Unseen, bursty, fit_bucket, intervals, uniform,
};

/// A bucket, or a queue's free space, that explains which packets were lost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BucketFit {
    /// The bucket, in bytes on the link.
    pub bucket: Bucket,
    /// Rates in bytes a second that explain the losses nearly as well.
    pub rate: Interval,
    /// Depths in bytes that do.
    pub depth: Interval,
    /// The share of the uncertainty about the losses that it removes, 1 at best (McFadden's R²).
    pub explained: f64,
    /// Nats by which it is likelier than losses in bursts by chance.
    pub beats_bursts: f64,
    /// Whether the packets met it after they had waited in the queue that explains their transit times.
    pub behind_queue: bool,
    /// How long packets waited over how long a queue of this rate and depth would have held them: the first
    /// decile over those that it would have held for at least half of its size. A queue holds every packet,
    /// so it is near 1 for one, whatever else delays packets; near 0 for a policer. `None` with too few.
    pub held: Option<f64>,
    /// What the bucket would be in part if a queue of the same rate stood behind it: bytes that pass without delay before
    /// packets wait, and how well that explains transit times.
    pub burst: Option<Burst>,
}

/// An allowance of bytes with a queue behind it, as burst-tolerant shapers have [Flach16 §5.1.2].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// Bytes beyond the rate that pass without delay.
    pub allowance: f64,
    /// The share of the variation of transit times that the queue behind it explains.
    pub explained: f64,
}

impl BucketFit {
    /// Whether a queue behind an allowance explains how long packets took.
    pub fn tolerates_bursts(&self) -> bool {
        let burst = self.burst.as_ref();
        burst.is_some_and(|burst| {
            burst.allowance >= LEAST_ALLOWANCE && burst.explained >= BURST_EXPLAINED
        })
    }
}

/// A smaller allowance, in bytes, is none.
const LEAST_ALLOWANCE: f64 = 50e3;
/// The queue behind it explains this share, and packets beside losses waited in it for at least this, in nanoseconds.
const BURST_EXPLAINED: f64 = 0.9;
const WAITED: f64 = 5e6;

/// How long packets beside losses took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beside {
    /// Median over the losses of the excess of the packets next to them over the least transit time,
    /// in nanoseconds.
    pub excess: f64,
    /// The same of what the fitted queue does not explain.
    pub unexplained: f64,
    /// The mean share of packets that took less time: about 0.5 where losses have nothing to do with
    /// delay, near 1 where they come when delay is greatest.
    pub rank: f64,
    /// How many losses that rests on.
    pub losses: usize,
    /// What stood in the fitted queue when packets were lost, over the most that ever did: the first decile
    /// over the losses. Near 1 where packets are lost since the queue is full; `None` without a queue.
    pub filled: Option<f64>,
    /// The share of losses that found the fitted queue nearly empty; `None` without a queue.
    pub empty: Option<f64>,
    /// The longest that a packet next to each loss waited, over the longest of all: the median over the losses. Near 1 where packets are
    /// lost because a queue is full, also where other traffic filled it.
    pub peak: f64,
}

impl Beside {
    /// By how many standard deviations the mean rank exceeds that of losses by chance.
    pub fn deviations(&self) -> f64 {
        (self.rank - 0.5) / DEVIATION * (self.losses as f64).sqrt()
    }
}

/// By chance, ranks of the delay beside losses are spread evenly from 0 to 1: their mean is a half, and this
/// is the standard deviation of one.
const DEVIATION: f64 = 0.289;

/// Fewer losses are not fitted.
pub const LEAST_LOSSES: usize = 3;
/// Packets that a bucket is fitted to; of more, those around the first losses.
pub const MOST_FITTED: usize = 1 << 17;
/// Shares of its depth that the bucket may hold at first.
const STARTS: [f64; 2] = [1.0, 0.0];
/// Below this share of the most that ever stood in it a queue is nearly empty.
const NEARLY_EMPTY: f64 = 0.05;
/// A queue is taken into account for the bucket's arrival times if it explains this much of transit.
const WORTH_TRYING: f64 = 0.3;

/// Packets from an eighth of the window before the first loss on.
pub(crate) fn window(passages: &[Passage]) -> &[Passage] {
    let first = passages.iter().position(Passage::lost).unwrap_or(0);
    let from = first.saturating_sub(MOST_FITTED / 8);
    let to = (from + MOST_FITTED).min(passages.len());
    &passages[from..to]
}

/// Fits a bucket. `None` with too few losses.
pub(crate) fn bucket(
    passages: &[Passage],
    least: f64,
    waiting: Option<&Waiting>,
    beside: Option<&Beside>,
) -> Option<BucketFit> {
    if passages.iter().filter(|p| p.lost()).count() < LEAST_LOSSES {
        return None;
    }
    let queue = waiting.filter(|waiting| waiting.explained > WORTH_TRYING);
    let timings = [None, queue].into_iter();
    let timings = timings.take(1 + usize::from(queue.is_some()));
    let tried = timings.filter_map(|through| {
        let arrivals = arrivals(passages, least, through);
        let fit = likeliest(&arrivals)?.climb(&arrivals);
        Some((fit, arrivals, through.is_some()))
    });
    let likelier =
        |x: &(Likely, _, _), y: &(Likely, _, _)| x.0.log_likelihood.total_cmp(&y.0.log_likelihood);
    let (likely, arrivals, behind_queue) = tried.max_by(likelier)?;
    let (rate, depth) = intervals(&arrivals, &likely.fit(), Doubt::default());
    let held = held(passages, least, &likely.bucket, waiting);
    let burst = beside.and_then(|beside| burst(passages, least, &likely.bucket, beside.excess));
    Some(BucketFit {
        bucket: likely.bucket,
        rate,
        depth,
        explained: explained(&arrivals, likely.log_likelihood),
        beats_bursts: likely.log_likelihood - bursty(arrivals.iter()),
        behind_queue,
        held,
        burst,
    })
}

/// Nats by which losses follow a bucket that others use too, whose packets are not in the captures, better than any channel
/// with memory does. `None` with too few losses.
pub(crate) fn gain_of_unseen_users(passages: &[Passage]) -> Option<f64> {
    let lost = passages.iter().filter(|p| p.lost()).count();
    let found = (lost >= LEAST_LOSSES).then(|| Unseen::find(&arrivals(passages, 0.0, None)))?;
    found.map(|unseen| unseen.gain)
}

/// A queue that explains this share of transit times is another than the one that a bucket would be.
const OTHER_QUEUE: f64 = 0.85;
/// With fewer packets that a queue would have held, nothing is said of it.
const LEAST_HELD: usize = 8;

/// How long packets waited over how long a queue in place of the bucket would have held them. What another
/// queue explains does not count, unless that has the same rate.
fn held(
    passages: &[Passage],
    least: f64,
    bucket: &Bucket,
    waiting: Option<&Waiting>,
) -> Option<f64> {
    let other = waiting.filter(|queue| queue.explained >= OTHER_QUEUE && !queue.has_rate(bucket));
    let elsewhere = match other {
        Some(queue) => modelled(passages, queue.model()),
        None => vec![0.0; passages.len()],
    };
    let half = bucket.depth / bucket.rate * 1e9 / 2.0;
    let mut shares: Vec<f64> = as_queue(passages, bucket)
        .filter(|&(_, wait)| wait >= half)
        .filter_map(|(i, wait)| Some((passages[i].transit()? - least - elsewhere[i]) / wait))
        .collect();
    shares.sort_by(f64::total_cmp);
    let enough = shares.len() >= LEAST_HELD;
    enough.then(|| shares[shares.len() / 10])
}

/// A queue behind the bucket's allowance, where packets beside losses took longer than the quickest by `excess`: for as long
/// as the full queue takes to drain.
fn burst(passages: &[Passage], least: f64, bucket: &Bucket, excess: f64) -> Option<Burst> {
    let allowance = bucket.depth - excess / 1e9 * bucket.rate;
    if excess < WAITED || allowance <= 0.0 {
        return None;
    }
    let free = allowance / bucket.rate * 1e9;
    let waits: Vec<(f64, f64)> = as_queue(passages, bucket)
        .filter_map(|(i, wait)| Some((passages[i].transit()? - least, (wait - free).max(0.0))))
        .collect();
    let mean = waits.iter().map(|wait| wait.0).sum::<f64>() / waits.len() as f64;
    let all: f64 = waits.iter().map(|wait| (wait.0 - mean).powi(2)).sum();
    let left: f64 = waits.iter().map(|wait| (wait.0 - wait.1).powi(2)).sum();
    (all > 0.0).then(|| Burst {
        allowance,
        explained: 1.0 - left / all,
    })
}

/// How long each packet that was not lost would have waited if a limiter were a queue that holds as much as its
/// bucket, in nanoseconds: as long as what the bucket lacks takes to come in. With the packet's number.
pub(crate) fn as_queue<'a>(
    passages: &'a [Passage],
    bucket: &'a Bucket,
) -> impl Iterator<Item = (usize, f64)> + 'a {
    let mut missing = 0.0f64;
    let mut last = passages.first().map_or(0, |passage| passage.at);
    let passages = passages.iter().enumerate();
    passages.filter_map(move |(i, passage)| {
        let gap = passage.at.saturating_sub(last) as f64 / 1e9;
        last = last.max(passage.at);
        missing = (missing - gap * bucket.rate).max(0.0);
        if passage.lost() {
            return None;
        }
        missing = (missing + f64::from(passage.link_bytes)).min(bucket.depth);
        Some((i, missing / bucket.rate * 1e9))
    })
}

/// The share of the uncertainty about the fates that a model of this likelihood removes.
fn explained(arrivals: &[Arrival], log_likelihood: f64) -> f64 {
    let lost = arrivals.iter().filter(|arrival| arrival.lost).count();
    let chance = uniform(lost, arrivals.len());
    if chance < 0.0 {
        1.0 - log_likelihood / chance
    } else {
        0.0
    }
}

/// The likeliest bucket.
fn likeliest(arrivals: &[Arrival]) -> Option<Likely> {
    let fit = fit_bucket(arrivals, &STARTS)?;
    Some(Likely::new(arrivals, &fit))
}

/// The packets as a bucket meets them: at once, or after a queue that all of them stand in. How long a
/// packet stood there shows in its transit time; of those that were lost the model tells.
fn arrivals(passages: &[Passage], least: f64, through: Option<&Waiting>) -> Vec<Arrival> {
    let modelled = through.map(|queue| modelled(passages, queue.model().with_losses()));
    let mut last = 0;
    let covered = passages.iter().enumerate();
    covered
        .filter(|(_, passage)| passage.fate != Fate::Uncovered)
        .map(|(i, passage)| {
            let waited = match (&modelled, passage.transit()) {
                (None, _) => 0.0,
                (Some(_), Some(transit)) => transit - least,
                (Some(modelled), None) => modelled[i],
            };
            last = passage.at.saturating_add(waited.max(0.0) as u64).max(last);
            Arrival::observed(last, passage.link_bytes as f32, passage.lost())
        })
        .collect()
}

/// Neighbours of a loss on each side.
const NEIGHBOURS: usize = 3;
/// They left at most this long before or after it, in nanoseconds.
const NEAR: u64 = 15_000_000;

/// How long the packets beside the losses took; `None` where there are none.
pub(crate) fn beside(
    passages: &[Passage],
    least: f64,
    waiting: Option<&Waiting>,
) -> Option<Beside> {
    let modelled = match waiting {
        Some(queue) => modelled(passages, queue.model()),
        None => vec![0.0; passages.len()],
    };
    // (its number, excess, excess that the queue does not explain) of packets that passed.
    let passed: Vec<(usize, f64, f64)> = passages
        .iter()
        .enumerate()
        .filter_map(|(i, passage)| {
            let excess = passage.transit()? - least;
            Some((i, excess, excess - modelled[i]))
        })
        .collect();
    let mut sorted: Vec<f64> = passed.iter().map(|passed| passed.1).collect();
    sorted.sort_by(f64::total_cmp);
    let (mut excesses, mut rests, mut ranks) = (Vec::new(), Vec::new(), 0.0);
    let mut peaks = Vec::new();
    let lost = passages.iter().filter(|p| p.lost()).count();
    // But for a few that something else may have held up.
    let outliers = (lost / 4).min(sorted.len() / 1000);
    let longest = sorted.iter().rev().nth(outliers);
    let longest = longest.map_or(1.0, |longest| longest.max(1.0));
    for (i, lost) in passages.iter().enumerate().filter(|(_, p)| p.lost()) {
        let at = passed.partition_point(|passed| passed.0 < i);
        let around = &passed[at.saturating_sub(NEIGHBOURS)..(at + NEIGHBOURS).min(passed.len())];
        let near = || {
            around
                .iter()
                .filter(|passed| passages[passed.0].at.abs_diff(lost.at) <= NEAR)
        };
        let count = near().count();
        if count == 0 {
            continue;
        }
        let mean =
            |value: fn(&(usize, f64, f64)) -> f64| near().map(value).sum::<f64>() / count as f64;
        let excess = mean(|passed| passed.1);
        excesses.push(excess);
        let peak = near().map(|passed| passed.1).fold(0.0, f64::max);
        peaks.push(peak / longest);
        rests.push(mean(|passed| passed.2));
        let below = sorted.partition_point(|&other| other < excess);
        ranks += below as f64 / sorted.len() as f64;
    }
    let count = excesses.len();
    let filled = waiting.map(|queue| filled(passages, queue));
    (count > 0).then(|| Beside {
        excess: median(&mut excesses),
        unexplained: median(&mut rests),
        rank: ranks / count as f64,
        losses: count,
        filled: filled.as_ref().map(|shares| shares[shares.len() / 10]),
        empty: filled.map(|shares| {
            shares.partition_point(|&share| share < NEARLY_EMPTY) as f64 / shares.len() as f64
        }),
        peak: median(&mut peaks),
    })
}

/// How full the queue was when packets were lost, over the most that ever stood in it, in ascending order.
fn filled(passages: &[Passage], queue: &Waiting) -> Vec<f64> {
    let lost = stays(passages, queue.model()).zip(passages);
    let lost = lost.filter(|(_, passage)| passage.lost());
    let mut shares: Vec<f64> = lost.map(|(stay, _)| stay.backlog / queue.backlog).collect();
    shares.sort_by(f64::total_cmp);
    shares
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
