//! Delay near losses: a queue that drops is full, so what passes beside a loss has waited for all
//! that stood in it. A policer delays nothing.

use super::arrival::Arrival;
use super::fit::Fit;
use crate::read::Nanos;

/// Neighbours of a loss were sent at most this long before or after it.
const NEAR: Nanos = 15_000_000;
/// On a slow line no loss has neighbours that near. Then these count: a queue loses a packet or two meanwhile.
const NEAR_ON_SLOW_LINES: Nanos = 60_000_000;
/// Neighbours on each side.
const NEIGHBOURS: usize = 4;
/// See [`Delay::is_higher_at_losses`].
const HIGHER: f64 = 1.5;
/// See [`Delay::is_highest_at_losses`]: by chance one episode of losses in thirty is there.
const HIGHEST: f64 = 0.97;
/// See [`Delay::waited_at_losses`]: seconds, and a multiple of the noise. Beside losses of policers on noisy paths packets
/// waited for up to 7 times the noise (studies/verdict).
const WAITED: f64 = 0.005;
const FAR_FROM_NOISE: f64 = 10.0;
/// See [`Delay::peaks_below`].
const NOT_WAITED: f64 = 0.000_5;
/// See [`Delay::is_held_back`]: how exactly a receiver's timer shows, in seconds.
const TIMER: f64 = 0.001;
/// Packets on each side among which neighbours are searched, so that a long run of losses, or a capture
/// whose times are all the same, costs no more.
const SEARCHED: usize = 256;

/// Delay of a transfer above the base round-trip time, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Delay {
    /// The least round-trip time that is taken for the path's.
    pub base: f64,
    /// Quartiles of the least delay beside each loss; `None` without neighbours.
    pub near: Option<Near>,
    /// The median of all round-trip times; `None` below ten of them.
    pub median: Option<f64>,
    /// The 95th percentile of all.
    pub upper: Option<f64>,
    /// By how much round-trip times differ within 15 ms to four times that, at the median: what
    /// the path adds at random, where the delay of a queue hardly changes.
    pub noise: f64,
    /// Where the delay beside losses stands among all delays.
    pub rank: Option<Rank>,
}

/// Where the delay beside losses stands among the delays of all packets.
///
/// Losses by chance come at any delay: each packet is as likely to be lost as any other, so that the mean share
/// of packets that waited less is 1/2, whatever the delay does.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rank {
    /// The mean share of packets that waited less than those beside a loss, each episode of losses counted once.
    pub mean: f64,
    /// Episodes of losses, at least a round-trip time apart.
    pub episodes: usize,
}

impl Rank {
    /// By how many standard deviations the mean exceeds 1/2.
    pub fn excess(self) -> f64 {
        (self.mean - 0.5) * (12.0 * self.episodes as f64).sqrt()
    }

    fn of(arrivals: &[Arrival], base: f64) -> Option<Self> {
        let mut sorted: Vec<f64> = arrivals.iter().filter_map(Arrival::passed_rtt).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let share = |rtt: f64| {
            let below = sorted.partition_point(|&other| other < rtt);
            let up_to = sorted.partition_point(|&other| other <= rtt);
            f64::midpoint(below as f64, up_to as f64) / sorted.len() as f64
        };
        let (mut sum, mut episodes) = (0.0, 0usize);
        let (mut of_episode, mut losses) = (0.0, 0usize);
        let mut last: Option<Nanos> = None;
        let apart = (base * 1e9) as Nanos;
        for (i, loss) in arrivals.iter().enumerate().filter(|(_, a)| a.lost) {
            let before = rtts(arrivals[..i].iter().rev(), loss.at, NEAR).next();
            let after = rtts(arrivals[i + 1..].iter(), loss.at, NEAR).next();
            let beside = before.into_iter().chain(after);
            let (ranks, count) =
                beside.fold((0.0, 0usize), |(sum, n), rtt| (sum + share(rtt), n + 1));
            if count == 0 {
                continue;
            }
            if last.is_some_and(|last| loss.at.saturating_sub(last) > apart) {
                sum += of_episode / losses as f64;
                episodes += 1;
                (of_episode, losses) = (0.0, 0);
            }
            last = Some(loss.at);
            of_episode += ranks / count as f64;
            losses += 1;
        }
        if losses > 0 {
            sum += of_episode / losses as f64;
            episodes += 1;
        }
        (episodes > 0).then(|| Self {
            mean: sum / episodes as f64,
            episodes,
        })
    }
}

/// The least delay of the neighbours of each loss.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Near {
    /// The first quartile over the losses.
    pub lower: f64,
    /// The median over the losses.
    pub median: f64,
    /// The third quartile.
    pub upper: f64,
    /// How many losses have neighbours whose round-trip time is known.
    pub losses: usize,
    /// Quartiles of the greatest delay beside each loss.
    pub peaks: [f64; 3],
}

impl Delay {
    /// The delay of one transfer's packets, in the order of their times, over a base in seconds.
    pub fn of(arrivals: &[Arrival], base: f64) -> Self {
        let (mut near, mut peaks) = [NEAR, NEAR_ON_SLOW_LINES]
            .into_iter()
            .map(|within| near(arrivals, base, within))
            .find(|(near, _)| !near.is_empty())
            .unwrap_or_default();
        let mut all: Vec<f64> = arrivals.iter().filter_map(Arrival::passed_rtt).collect();
        Self {
            base,
            near: (!near.is_empty()).then(|| Near {
                lower: quantile(&mut near, 0.25),
                median: quantile(&mut near, 0.5),
                upper: quantile(&mut near, 0.75),
                losses: near.len(),
                peaks: [0.25, 0.5, 0.75].map(|share| quantile(&mut peaks, share)),
            }),
            median: (all.len() > 10).then(|| quantile(&mut all, 0.5) - base),
            upper: (all.len() > 10).then(|| quantile(&mut all, 0.95) - base),
            noise: noise(arrivals),
            rank: Rank::of(arrivals, base),
        }
    }

    /// The delay beside the median loss, or that of all packets where none is known there.
    pub fn at_losses(&self) -> Option<f64> {
        self.near.map(|near| near.median).or(self.median)
    }

    /// Whether delay at losses is known: from neighbours, or because no packet was delayed.
    pub fn is_known_at_losses(&self) -> bool {
        let hardly = |median: f64| median < 0.25 * self.base;
        self.near.is_some() || self.median.is_some_and(hardly)
    }

    /// Whether packets beside the median loss waited longer than the median packet, although of the former the
    /// least delay counts. On noisy paths policers came to equal delays, short queues of the kernel to 1.8 times
    /// (studies/verdict).
    pub fn is_higher_at_losses(&self) -> bool {
        let known = self.near.zip(self.median);
        known.is_some_and(|(near, median)| near.median > HIGHER * median)
    }

    /// Whether hardly a packet waited as long as those beside losses, as where a queue fills once and drops.
    pub fn is_highest_at_losses(&self) -> bool {
        self.rank.is_some_and(|rank| rank.mean > HIGHEST)
    }

    /// Whether packets beside three quarters of the losses waited for longer than the path's noise explains, as
    /// where a queue drops.
    pub fn waited_at_losses(&self) -> bool {
        self.near
            .is_some_and(|near| near.lower > WAITED.max(FAR_FROM_NOISE * self.noise))
    }

    /// Whether the delay beside losses is the time for which the receiver held acknowledgements back: always the same,
    /// and no queue's, since others waited as long.
    pub fn is_held_back(&self) -> bool {
        let known = self.near.zip(self.upper);
        known.is_some_and(|(near, upper)| {
            near.upper < DELAYED_ACK
                && near.upper - near.lower < TIMER
                && (near.median - upper).abs() < TIMER
        })
    }

    /// Whether no packet beside three quarters of the losses waited for so long, in seconds, and none at all beside a
    /// quarter of them.
    pub fn peaks_below(&self, delay: f64) -> bool {
        self.near
            .is_some_and(|near| near.peaks[2] < delay && near.lower < NOT_WAITED)
    }

    /// The delay beside three quarters of the losses, or that of all packets where none is known.
    pub fn at_most_losses(&self) -> Option<f64> {
        self.near.map(|near| near.upper).or(self.median)
    }
}

/// The path's round-trip time in seconds: the first percentile, in case the least is a fault of the
/// capture. `None` with five samples or fewer.
pub fn base<'a>(arrivals: impl Iterator<Item = &'a Arrival>) -> Option<f64> {
    let mut all: Vec<f64> = arrivals.filter_map(Arrival::passed_rtt).collect();
    (all.len() > 5).then(|| quantile(&mut all, 0.01))
}

/// The least and the greatest delay of the neighbours of each loss that has any.
fn near(arrivals: &[Arrival], base: f64, within: Nanos) -> (Vec<f64>, Vec<f64>) {
    let mut delays = (Vec::new(), Vec::new());
    for (i, loss) in arrivals.iter().enumerate().filter(|(_, a)| a.lost) {
        let before = rtts(arrivals[..i].iter().rev(), loss.at, within);
        let after = rtts(arrivals[i + 1..].iter(), loss.at, within);
        let mut range: Option<(f64, f64)> = None;
        for rtt in before.chain(after) {
            let (least, most) = range.unwrap_or((rtt, rtt));
            range = Some((least.min(rtt), most.max(rtt)));
        }
        if let Some((least, most)) = range {
            delays.0.push(least - base);
            delays.1.push(most - base);
        }
    }
    delays
}

/// Round-trip times of the nearest packets that passed.
fn rtts<'a>(
    neighbours: impl Iterator<Item = &'a Arrival>,
    at: Nanos,
    within: Nanos,
) -> impl Iterator<Item = f64> {
    neighbours
        .take(SEARCHED)
        .take_while(move |other| other.at.abs_diff(at) < within)
        .filter(|other| !other.lost)
        .take(NEIGHBOURS)
        .filter_map(Arrival::passed_rtt)
}

/// See [`Delay::noise`].
fn noise(arrivals: &[Arrival]) -> f64 {
    let samples = || {
        arrivals
            .iter()
            .filter_map(|a| Some((a.at, a.passed_rtt()?)))
    };
    let mut later = samples().peekable();
    let mut differences = Vec::new();
    for (at, rtt) in samples() {
        while later
            .next_if(|&(other, _)| other.saturating_sub(at) < NEAR)
            .is_some()
        {}
        match later.peek() {
            Some(&(other, later)) if other.saturating_sub(at) < 4 * NEAR => {
                differences.push((later - rtt).abs())
            }
            _ => {}
        }
    }
    if differences.is_empty() {
        return 0.0;
    }
    quantile(&mut differences, 0.5)
}

/// How the round-trip time goes with the backlog of the queue that a fit stands for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slope {
    /// Seconds of round-trip time for each second of backlog more: 1 in a queue, 0 at a policer.
    pub slope: f64,
    /// Seconds of backlog between the halves that were compared.
    pub contrast: f64,
    /// Seconds by which round-trip times scatter within these.
    pub noise: f64,
    /// Packets in each half.
    pub packets: usize,
}

/// From this slope on the round-trip time follows the backlog …
const RISING: f64 = 0.25;
/// … if it differs by at least this, in seconds: acknowledgements are held back for up to 1 ms.
const LEAST_DIFFERENCE: f64 = 0.002;
/// A receiver that delays acknowledgements adds up to 40 ms, so less than this says little …
const DELAYED_ACK: f64 = 0.045;
/// … unless the round-trip time rises so steeply.
const STEEP: f64 = 0.5;
/// Up to this slope it does not follow the backlog, with twice its standard error. Neighbours have much
/// of their delay in common, so that counts twice.
const LEVEL: f64 = 0.3;
const ERRORS: f64 = 4.0;

impl Slope {
    /// Whether packets wait in a queue of the fitted size.
    pub fn is_queue(self) -> bool {
        let difference = (self.slope * self.contrast).abs();
        let rising = if difference < DELAYED_ACK {
            STEEP
        } else {
            RISING
        };
        self.slope.abs() >= rising
            && self.contrast >= 2.0 * self.noise
            && difference >= LEAST_DIFFERENCE
    }

    /// Whether it is clear that they do not.
    pub fn is_level(self) -> bool {
        let error = ERRORS * self.noise / (self.packets as f64).sqrt() / self.contrast;
        self.contrast >= LEAST_DIFFERENCE && self.slope.abs() + error <= LEVEL
    }

    /// Compares the quarter of packets with the least predicted backlog with that of the most.
    pub(crate) fn of<'a>(
        samples: impl Iterator<Item = (f64, &'a Arrival)>,
        fit: &Fit,
    ) -> Option<Self> {
        let bucket = fit.bucket;
        let backlog = |level: f64, arrival: &Arrival| {
            (bucket.depth - level + f64::from(arrival.weight)) / bucket.rate
        };
        let points: Vec<(f64, f64)> = samples
            .filter_map(|(level, arrival)| Some((backlog(level, arrival), arrival.passed_rtt()?)))
            .collect();
        if points.len() < 20 {
            return None;
        }
        let mut backlogs: Vec<f64> = points.iter().map(|point| point.0).collect();
        let low = quantile(&mut backlogs, 0.25);
        let high = quantile(&mut backlogs, 0.75);
        let least = Group::of(points.iter().filter(|point| point.0 <= low));
        let most = Group::of(points.iter().filter(|point| point.0 >= high));
        let contrast = most.backlog - least.backlog;
        (contrast > 0.0).then(|| Self {
            slope: (most.rtt - least.rtt) / contrast,
            contrast,
            noise: least.scatter + most.scatter,
            packets: points.len() / 4,
        })
    }
}

/// Packets that met tokens for a burst were delayed by less than this share of the delay at losses …
const BURST_DELAY: f64 = 0.2;
/// … and were not faster than the path's round-trip time by more than this, which would be a queue's that always
/// stood while this transfer went …
const FASTER: f64 = 0.5;
/// … and nearly all by less than this: where a window meets a queue at once, each of its packets waits longer than the one before. That is a [round](Knee::Round) knee …
const LATE_IN_BURST: f64 = 0.3;
/// … and packets in the fuller half of the queue by more than this.
const QUEUE_DELAY: f64 = 0.4;
/// A smaller allowance, in bytes, is none.
const LEAST_ALLOWANCE: f64 = 50e3;
/// Packets of each kind that it takes.
const KNEE_PACKETS: usize = 10;

/// How packets waited while the first part of a fitted bucket lasted, where those after it waited in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knee {
    /// Nothing was delayed: it is a burst allowance with a queue behind it, as burst-tolerant shapers have [Flach16 §5.1.2].
    Sharp,
    /// Half of them hardly waited, but the last ones did: all of it is a queue.
    Round,
}

/// Finds the knee of a fitted bucket.
///
/// `delay` is what packets beside losses waited, in seconds: the time that the full queue takes to
/// drain.
pub fn knee<'a>(
    samples: impl Iterator<Item = (f64, &'a Arrival)>,
    fit: &Fit,
    base: f64,
    delay: f64,
) -> Option<Knee> {
    let queue = delay * fit.bucket.rate;
    let allowance = fit.bucket.depth - queue;
    let (mut in_burst, mut in_queue) = (Vec::new(), Vec::new());
    for (level, arrival) in samples {
        let Some(rtt) = arrival.passed_rtt() else {
            continue;
        };
        if level > queue + 0.3 * allowance {
            in_burst.push(rtt - base);
        } else if level < 0.5 * queue {
            in_queue.push(rtt - base);
        }
    }
    let bends = allowance >= LEAST_ALLOWANCE
        && in_burst.len().min(in_queue.len()) >= KNEE_PACKETS
        && (-FASTER * delay..BURST_DELAY * delay).contains(&quantile(&mut in_burst, 0.5))
        && quantile(&mut in_queue, 0.5) > QUEUE_DELAY * delay;
    if !bends {
        return None;
    }
    let late = quantile(&mut in_burst, 0.9);
    Some(match late < LATE_IN_BURST * delay {
        true => Knee::Sharp,
        false => Knee::Round,
    })
}

/// Medians of packets with similar backlog.
struct Group {
    backlog: f64,
    rtt: f64,
    scatter: f64,
}

impl Group {
    fn of<'a>(points: impl Iterator<Item = &'a (f64, f64)>) -> Self {
        let (mut backlogs, mut rtts): (Vec<f64>, Vec<f64>) = points.copied().unzip();
        let backlog = quantile(&mut backlogs, 0.5);
        let rtt = quantile(&mut rtts, 0.5);
        let mut deviations: Vec<f64> = rtts.iter().map(|value| (value - rtt).abs()).collect();
        Self {
            backlog,
            rtt,
            scatter: quantile(&mut deviations, 0.5),
        }
    }
}

/// A quantile by linear interpolation; reorders the values. Not a number without any.
pub(super) fn quantile(values: &mut [f64], share: f64) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let place = share * (values.len() - 1) as f64;
    let (below, rest) = (place.floor() as usize, place.fract());
    let (_, &mut low, above) = values.select_nth_unstable_by(below, f64::total_cmp);
    let high = above.iter().copied().fold(f64::INFINITY, f64::min);
    if rest == 0.0 {
        low
    } else {
        low + (high - low) * rest
    }
}
