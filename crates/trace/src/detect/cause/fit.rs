//! The token bucket that explains best which packets were lost.

use super::arrival::Arrival;
use super::bucket::{Bucket, Noise};
use super::screen::{Costs, Step, WIDTHS, replay, steps};

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
const RATES: usize = 96;
const LEAST_RATE: f64 = 0.25;
const MOST_RATE: f64 = 20.0;
/// Depths: below 20 kB in steps of 600 bytes, since TCP meets a bucket of few packets there; above
/// evenly on a logarithmic scale up to 5 MB.
const DEPTHS: usize = 64;
const LEAST_DEPTH: f64 = 2_300.0;
const SMALL_DEPTH: f64 = 20_000.0;
const SMALL_STEP: f64 = 600.0;
const MOST_DEPTH: f64 = 5e6;
/// Bytes by which a level may be wrong because packets are replayed together.
const SCREEN_MERGE: f64 = 300.0;
const REFINE_MERGE: f64 = 60.0;
/// Noise widths that the likelihood is taken for, in bytes.
const NOISES: [f64; 6] = [60.0, 150.0, 400.0, 1_000.0, 2_500.0, 6_000.0];

/// Fits buckets; keeps its memory between fits.
#[derive(Debug, Default)]
pub struct Fitter {
    steps: Vec<Step>,
}

impl Fitter {
    /// The bucket under which the fates of the packets, in the order of their times, are most
    /// likely, given the share of its depth that it held at first. `None` with fewer than two losses.
    pub fn fit(&mut self, arrivals: &[Arrival], start: f64) -> Option<Fit> {
        if arrivals.iter().filter(|arrival| arrival.lost).count() < 2 {
            return None;
        }
        let mut fits = Vec::new();
        for candidate in self.screen(arrivals, start) {
            let fit = likeliest_noise(arrivals, candidate.bucket);
            fits.push((candidate, fit));
        }
        // A closer look at fewer, under less noise: what is only nearly right fits loosely alone.
        for (survivors, reach, most_width) in [(6, 1.0, 2), (3, 0.25, 1), (2, 0.1, 0)] {
            fits.sort_by(|a, b| b.1.log_likelihood.total_cmp(&a.1.log_likelihood));
            fits.truncate(survivors);
            for (candidate, fit) in &mut fits {
                candidate.width = candidate.width.min(most_width);
                candidate.bucket = self.refine(arrivals, *candidate, reach);
                let refined = likeliest_noise(arrivals, candidate.bucket);
                if refined.log_likelihood > fit.log_likelihood {
                    *fit = refined;
                }
            }
        }
        let best = fits
            .into_iter()
            .map(|(_, fit)| fit)
            .max_by(|a, b| a.log_likelihood.total_cmp(&b.log_likelihood));
        best.map(|best| polish(arrivals, best))
    }

    /// Rates and depths around which a bucket may fit.
    fn screen(&mut self, arrivals: &[Arrival], start: f64) -> Vec<Candidate> {
        let passed = passing_rate(arrivals);
        let depths = depths();
        let lanes = depths.map(|depth| depth as f32);
        let rates: [f64; RATES] = std::array::from_fn(|i| {
            let share = i as f64 / (RATES - 1) as f64;
            passed * LEAST_RATE * (MOST_RATE / LEAST_RATE).powf(share)
        });
        let mut costs: Vec<Costs<DEPTHS>> = Vec::with_capacity(RATES);
        let mut merged_for = 0.0;
        for rate in rates {
            // Steps serve all rates up to 1.5 times that for which they were merged.
            if rate > merged_for {
                merged_for = rate * 1.5;
                steps(arrivals.iter(), SCREEN_MERGE / merged_for, &mut self.steps);
            }
            costs.push(replay(&self.steps, rate as f32, &lanes, start as f32));
        }
        candidates(&rates, &depths, &costs, start)
    }

    /// Narrows a grid around a candidate down to its least cost.
    fn refine(&mut self, arrivals: &[Arrival], candidate: Candidate, reach: f64) -> Bucket {
        const RATES: usize = 5;
        const DEPTHS: usize = 16;
        let Candidate { mut bucket, width } = candidate;
        steps(arrivals.iter(), REFINE_MERGE / bucket.rate, &mut self.steps);
        let (mut rate_reach, mut depth_reach) = (0.05 * reach, 0.16 * reach);
        for _ in 0..4 {
            let depths: [f32; DEPTHS] = std::array::from_fn(|j| {
                (bucket.depth * across(j, DEPTHS, depth_reach).exp()) as f32
            });
            let mut least = (f32::INFINITY, bucket);
            for i in 0..RATES {
                let rate = bucket.rate * across(i, RATES, rate_reach).exp();
                let costs = replay(&self.steps, rate as f32, &depths, bucket.start as f32);
                for (&cost, depth) in costs[width].iter().zip(depths) {
                    if cost < least.0 {
                        let depth = f64::from(depth);
                        least = (
                            cost,
                            Bucket {
                                rate,
                                depth,
                                ..bucket
                            },
                        );
                    }
                }
            }
            bucket = least.1;
            rate_reach *= 0.5;
            depth_reach *= 0.5;
        }
        bucket
    }
}

/// A bucket worth a closer look, and the noise width (an index) under which it is.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    bucket: Bucket,
    width: usize,
}

/// Bytes a second that passed.
fn passing_rate(arrivals: &[Arrival]) -> f64 {
    let passed: f64 = arrivals
        .iter()
        .filter(|arrival| !arrival.lost)
        .map(|arrival| f64::from(arrival.weight))
        .sum();
    let first = arrivals.first().map_or(0, |arrival| arrival.at);
    let last = arrivals.last().map_or(0, |arrival| arrival.at);
    let seconds = (last.saturating_sub(first) as f64 / 1e9).max(1e-3);
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
fn candidates(
    rates: &[f64],
    depths: &[f64],
    costs: &[Costs<DEPTHS>],
    start: f64,
) -> Vec<Candidate> {
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
                    start,
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

/// The bucket with the noise width under which the fates are most likely.
fn likeliest_noise(arrivals: &[Arrival], bucket: Bucket) -> Fit {
    let noises = NOISES.map(|width| Noise { width });
    let mut sums = [0.0; NOISES.len()];
    for (level, arrival) in bucket.levels(arrivals.iter()).zip(arrivals) {
        for (sum, noise) in sums.iter_mut().zip(noises) {
            *sum += noise.log_likelihood(level, arrival);
        }
    }
    let mut best = 0;
    for i in 1..sums.len() {
        if sums[i] > sums[best] {
            best = i;
        }
    }
    Fit {
        bucket,
        noise: noises[best],
        log_likelihood: sums[best],
    }
}

/// The logarithm of the likelihood of all fates.
pub(super) fn log_likelihood(arrivals: &[Arrival], bucket: Bucket, noise: Noise) -> f64 {
    bucket
        .levels(arrivals.iter())
        .zip(arrivals)
        .map(|(level, arrival)| noise.log_likelihood(level, arrival))
        .sum()
}

/// Climbs to the greatest likelihood near a fit.
fn polish(arrivals: &[Arrival], mut best: Fit) -> Fit {
    for reach in [0.01, 0.004, 0.0015, 0.0005] {
        let middle = best.bucket;
        for i in -1..=1 {
            for j in -1..=1 {
                let bucket = Bucket {
                    rate: middle.rate * (f64::from(i) * reach).exp(),
                    depth: middle.depth * (f64::from(j) * 2.0 * reach).exp(),
                    ..middle
                };
                let log_likelihood = log_likelihood(arrivals, bucket, best.noise);
                if log_likelihood > best.log_likelihood {
                    best = Fit {
                        bucket,
                        log_likelihood,
                        ..best
                    };
                }
            }
        }
    }
    best
}
