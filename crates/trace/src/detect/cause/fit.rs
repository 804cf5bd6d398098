//! The token bucket that explains best which packets were lost.

use super::arrival::Arrival;
use super::bucket::{Bucket, Noise};
use super::lanes::{costs, likeliest_noises, log_likelihoods};
use super::screen::{Costs, DEPTHS, RATES, WIDTHS, screen};
use super::step::{Merges, Step};
use super::vector::LANES;
use crate::read::Nanos;

/// A bucket, and how well it explains the losses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// The bucket.
    pub bucket: Bucket,
    /// How much its level may be off.
    pub noise: Noise,
    /// The logarithm of the likelihood of all fates.
    pub log_likelihood: f64,
}

/// Rates from a quarter of what passed to twenty times as much, evenly on a logarithmic scale.
const LEAST_RATE: f64 = 0.25;
const MOST_RATE: f64 = 20.0;
/// A limiter far above the mean rate is met by bursts only. So rates around the mean without longer
/// pauses than these, in nanoseconds, are screened too, where that mean is ten times as high.
const PAUSES: [Nanos; 3] = [400_000_000, 40_000_000, 4_000_000];
const HIGHER: f64 = 10.0;
/// Depths: below 20 kB in steps of 600 bytes, since TCP meets a bucket of few packets there; above
/// evenly on a logarithmic scale up to 5 MB.
const LEAST_DEPTH: f64 = 2_300.0;
const SMALL_DEPTH: f64 = 20_000.0;
const SMALL_STEP: f64 = 600.0;
const MOST_DEPTH: f64 = 5e6;
/// Bytes by which a level may be wrong because packets are replayed together.
const REFINE_MERGE: f64 = 60.0;
const POLISH_MERGE: f64 = 20.0;
/// Noise widths that the likelihood is taken for, in bytes.
const NOISES: [Noise; 8] = [
    Noise { width: 60.0 },
    Noise { width: 150.0 },
    Noise { width: 400.0 },
    Noise { width: 1_000.0 },
    Noise { width: 2_500.0 },
    Noise { width: 6_000.0 },
    Noise { width: 15_000.0 },
    Noise { width: 40_000.0 },
];
/// How candidates are narrowed down: how many are left, the first reach as a share of the screen's
/// steps, the rounds, and the widest noise (an index). What is only nearly right fits loosely alone.
const STAGES: [(usize, f64, usize, usize); 3] = [(8, 1.0, 5, 2), (3, 0.5, 5, 1), (2, 0.25, 5, 0)];
/// How far a grid reaches at first, in logarithms.
const RATE_REACH: f64 = 0.05;
const DEPTH_REACH: f64 = 0.14;

/// A candidate is not looked at closer if it leaves this number of times as much unexplained as the best one,
/// in nats, and some more.
const HOPELESS: f64 = 3.0;
const FEW_NATS: f64 = 30.0;
/// Candidates this near to a likelier one, in logarithms, lead to where it does.
const SAME_RATE: f64 = 0.005;
const SAME_DEPTH: f64 = 0.02;

/// The bucket under which the fates of the packets, in the order of their times, are most
/// likely. It held one of these shares of its depth at first. `None` with fewer than two losses.
pub fn fit_bucket(arrivals: &[Arrival], starts: &[f64]) -> Option<Fit> {
    if arrivals.iter().filter(|arrival| arrival.lost).count() < 2 {
        return None;
    }
    let mut merges = Merges::new(arrivals);
    let found = candidates(&mut merges, arrivals, starts);
    let fastest = found.iter().map(|candidate| candidate.bucket.rate);
    let merge = REFINE_MERGE / fastest.fold(f64::MIN_POSITIVE, f64::max);
    let mut found = rank(merges.within(merge), found);
    for (survivors, reach, rounds, most_width) in STAGES {
        found.truncate(survivors);
        let candidates = found.iter().map(|(candidate, _)| Candidate {
            width: candidate.width.min(most_width),
            ..*candidate
        });
        let refined = refine_all(&mut merges, candidates.collect(), reach, rounds);
        found.extend(rank(merges.within(merge), refined));
        leave_best(&mut found);
    }
    let (_, best) = found.into_iter().next()?;
    let merge = POLISH_MERGE / best.bucket.rate;
    Some(polish(merges.within(merge), best))
}

/// Candidates with what makes them likeliest: the likeliest first, and none that need not be looked at.
fn rank(steps: &[Step], candidates: Vec<Candidate>) -> Vec<(Candidate, Fit)> {
    let mut ranked = Vec::with_capacity(candidates.len());
    for group in candidates.chunks(LANES) {
        let buckets = filled_up(group.iter().map(|candidate| candidate.bucket));
        let likeliest = likeliest_noises(steps, &buckets, &NOISES);
        ranked.extend(
            group
                .iter()
                .zip(likeliest)
                .map(|(&candidate, (noise, log_likelihood))| {
                    let fit = Fit {
                        bucket: candidate.bucket,
                        noise,
                        log_likelihood,
                    };
                    (candidate, fit)
                }),
        );
    }
    leave_best(&mut ranked);
    ranked
}

/// The likeliest first, without those that are hopeless or near a likelier one.
fn leave_best(found: &mut Vec<(Candidate, Fit)>) {
    found.sort_by(|a, b| b.1.log_likelihood.total_cmp(&a.1.log_likelihood));
    let mut left: Vec<(Candidate, Fit)> = Vec::with_capacity(found.len());
    for &(candidate, fit) in found.iter() {
        let is_near = |other: &(Candidate, Fit)| {
            let [a, b] = [candidate, other.0].map(|candidate| candidate.bucket);
            (a.rate / b.rate).ln().abs() < SAME_RATE && (a.depth / b.depth).ln().abs() < SAME_DEPTH
        };
        let least = left.first().map_or(f64::NEG_INFINITY, |(_, best)| {
            HOPELESS * best.log_likelihood - FEW_NATS
        });
        if fit.log_likelihood >= least && !left.iter().any(is_near) {
            left.push((candidate, fit));
        }
    }
    *found = left;
}

/// Narrows a grid around each candidate down to its least cost. Several of them are replayed together, if the same
/// packets are taken as one.
fn refine_all(
    merges: &mut Merges<'_>,
    mut candidates: Vec<Candidate>,
    reach: f64,
    rounds: usize,
) -> Vec<Candidate> {
    let merge = |candidate: &Candidate| REFINE_MERGE / candidate.bucket.rate;
    candidates.sort_by_key(|candidate| Merges::time(merge(candidate)));
    for alike in candidates.chunk_by_mut(|a, b| Merges::time(merge(a)) == Merges::time(merge(b))) {
        let steps = merges.within(merge(&alike[0]));
        let (fours, rest) = alike.as_chunks_mut::<4>();
        let (twos, rest) = rest.as_chunks_mut::<2>();
        let (ones, _) = rest.as_chunks_mut::<1>();
        fours
            .iter_mut()
            .for_each(|four| refine(steps, four, reach, rounds));
        twos.iter_mut()
            .for_each(|two| refine(steps, two, reach, rounds));
        ones.iter_mut()
            .for_each(|one| refine(steps, one, reach, rounds));
    }
    candidates
}

fn refine<const N: usize>(
    steps: &[Step],
    candidates: &mut [Candidate; N],
    reach: f64,
    rounds: usize,
) {
    let widths = candidates.map(|candidate| WIDTHS[candidate.width]);
    let mut reach = reach;
    let mut least = [f32::INFINITY; N];
    for _ in 0..rounds {
        let around = candidates
            .map(|candidate| grid(candidate.bucket, RATE_REACH * reach, DEPTH_REACH * reach));
        let costs = costs(steps, &around, widths);
        for (i, candidate) in candidates.iter_mut().enumerate() {
            for (&cost, near) in costs[i].iter().zip(around[i]) {
                if cost < least[i] {
                    (least[i], candidate.bucket) = (cost, near);
                }
            }
        }
        reach *= 0.5;
    }
}

/// Climbs to the greatest likelihood near a fit.
fn polish(steps: &[Step], fit: Fit) -> Fit {
    let mut best = Fit {
        log_likelihood: f64::NEG_INFINITY,
        ..fit
    };
    for reach in [0.006, 0.003, 0.001_2, 0.000_5, 0.000_2] {
        let mut around = grid(best.bucket, reach, 2.0 * reach);
        // The likelihood that is known is of packets that were taken together.
        if best.log_likelihood == f64::NEG_INFINITY {
            around[0] = best.bucket;
        }
        let likelihoods = log_likelihoods(steps, &around, best.noise);
        for (log_likelihood, bucket) in likelihoods.into_iter().zip(around) {
            if log_likelihood > best.log_likelihood {
                best = Fit {
                    bucket,
                    log_likelihood,
                    ..best
                };
            }
        }
    }
    best
}

/// A bucket worth a closer look, and the noise width (an index) under which it is.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    bucket: Bucket,
    width: usize,
}

/// Four rates by four depths around a bucket.
fn grid(middle: Bucket, rate_reach: f64, depth_reach: f64) -> [Bucket; LANES] {
    const SIDE: usize = 4;
    std::array::from_fn(|i| Bucket {
        rate: middle.rate * across(i / SIDE, SIDE, rate_reach).exp(),
        depth: middle.depth * across(i % SIDE, SIDE, depth_reach).exp(),
        ..middle
    })
}

/// A bucket for every lane: these, and the last of them again.
fn filled_up(buckets: impl Iterator<Item = Bucket>) -> [Bucket; LANES] {
    let mut lanes = [Bucket {
        rate: 1.0,
        depth: 1.0,
        start: 1.0,
    }; LANES];
    for (lane, bucket) in lanes.iter_mut().zip(buckets) {
        *lane = bucket;
    }
    lanes
}

/// Rates and depths around which a bucket may fit.
fn candidates(merges: &mut Merges<'_>, arrivals: &[Arrival], starts: &[f64]) -> Vec<Candidate> {
    let mut passed = passing_rate(arrivals, Nanos::MAX);
    let mut found = candidates_near(passed, merges, starts);
    for pause in PAUSES {
        let faster = passing_rate(arrivals, pause);
        if faster > HIGHER * passed {
            passed = faster;
            found.extend(candidates_near(passed, merges, starts));
        }
    }
    found
}

/// The same for rates around that at which packets passed.
fn candidates_near(passed: f64, merges: &mut Merges<'_>, starts: &[f64]) -> Vec<Candidate> {
    let depths = depths();
    let rates: [f64; RATES] = std::array::from_fn(|i| {
        let share = i as f64 / (RATES - 1) as f64;
        passed * LEAST_RATE * (MOST_RATE / LEAST_RATE).powf(share)
    });
    let screened = screen(merges, &rates, &depths);
    // What a bucket that is not full holds at first is not screened for, but tried.
    let (full, others): (Vec<f64>, Vec<f64>) = starts.iter().partition(|&&start| start == 1.0);
    let mut found = Vec::new();
    for (starts, costs) in [(full, screened.full), (others, screened.partly)] {
        if starts.is_empty() {
            continue;
        }
        for candidate in lowest(&rates, &depths, &costs) {
            found.extend(starts.iter().map(|&start| {
                let mut candidate = candidate;
                candidate.bucket.start = start;
                candidate
            }));
        }
    }
    found
}

/// Bytes a second that passed while no pause was longer than this, in nanoseconds.
fn passing_rate(arrivals: &[Arrival], pause: Nanos) -> f64 {
    let (mut passed, mut time) = (0.0, 0);
    let mut last = arrivals.first().map_or(0, |arrival| arrival.at);
    for arrival in arrivals {
        let gap = arrival.at.saturating_sub(last);
        last = last.max(arrival.at);
        time += if gap > pause { 0 } else { gap };
        if !arrival.lost {
            passed += f64::from(arrival.weight);
        }
    }
    let seconds = (time as f64 / 1e9).max(1e-3);
    passed.max(1.0) / seconds
}

fn depths() -> [f64; DEPTHS] {
    let small = ((SMALL_DEPTH - LEAST_DEPTH) / SMALL_STEP).ceil() as usize;
    let large = DEPTHS - small;
    std::array::from_fn(|i| {
        if i < small {
            LEAST_DEPTH + SMALL_STEP * i as f64
        } else {
            let share = (i - small) as f64 / (large - 1) as f64;
            SMALL_DEPTH * (MOST_DEPTH / SMALL_DEPTH).powf(share)
        }
    })
}

/// The `i`th of `n` values from `-reach` to `reach`.
fn across(i: usize, n: usize, reach: f64) -> f64 {
    reach * (2.0 * i as f64 / (n - 1) as f64 - 1.0)
}

/// Local minima of the costs: for each noise width the best rates, and of each the best depths.
fn lowest(rates: &[f64; RATES], depths: &[f64; DEPTHS], costs: &[Costs]) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    for width in 0..WIDTHS.len() {
        let least: Vec<f32> = costs
            .iter()
            .map(|row| row[width].iter().copied().fold(f32::INFINITY, f32::min))
            .collect();
        for i in lowest_valleys(&least, 2, f32::INFINITY, 4) {
            for j in lowest_valleys(&costs[i][width], 3, least[i] + 60.0, 2) {
                let bucket = Bucket {
                    rate: rates[i],
                    depth: depths[j],
                    start: 1.0,
                };
                if !found.iter().any(|found| found.bucket == bucket) {
                    found.push(Candidate { bucket, width });
                }
            }
        }
    }
    found
}

/// Where values are least among `reach` neighbours on both sides, and below a limit: the `most`
/// lowest.
fn lowest_valleys(values: &[f32], reach: usize, below: f32, most: usize) -> Vec<usize> {
    let mut valleys: Vec<usize> = (0..values.len())
        .filter(|&i| {
            let around = &values[i.saturating_sub(reach)..(i + reach + 1).min(values.len())];
            values[i] <= below && around.iter().all(|&value| values[i] <= value)
        })
        .collect();
    valleys.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    valleys.truncate(most);
    valleys
}
