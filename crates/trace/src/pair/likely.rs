//! A bucket, how likely it makes the packets' fates, and the climb to the likeliest near it.

use crate::detect::cause::{Arrival, Bucket, Fit, Noise};

/// A bucket, and the logarithm of the likelihood of the fates under it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Likely {
    pub bucket: Bucket,
    /// By how many bytes its level may be off.
    width: f64,
    pub log_likelihood: f64,
}

/// Shares of packets that fare otherwise than the bucket says; the likeliest counts.
const OUTLIERS: [f64; 3] = [3e-3, 3e-4, 3e-5];
/// Widths away from the threshold where a packet's fate is certain.
const CERTAIN: f64 = 16.0;
/// How far the climb reaches at first, in logarithms, by how much it narrows in each round, and how often.
/// Rate and depth are tied: a faster and shallower bucket drops nearly the same packets.
const RATE_REACH: f64 = 0.3;
const DEPTH_REACH: f64 = 0.2;
const NARROWER: f64 = 0.55;
const ROUNDS: i32 = 10;
/// Steps to each side.
const STEPS: i32 = 4;
/// A level that is off by less than this cannot be measured, in bytes.
const LEAST_WIDTH: f64 = 30.0;

impl Likely {
    /// The fitter takes it that one packet in 300 fares otherwise than the bucket says. Two captures leave
    /// less in the dark, and where few packets are lost, that many would be more than the losses.
    pub fn new(arrivals: &[Arrival], fit: &Fit) -> Self {
        Self::of(arrivals, fit.bucket, fit.noise.width)
    }

    fn of(arrivals: &[Arrival], bucket: Bucket, width: f64) -> Self {
        let mut sums = [0.0; OUTLIERS.len()];
        // Most fates are certain: as the bucket says, or not.
        let (mut expected, mut unexpected) = (0u32, 0u32);
        for (level, arrival) in bucket.levels(arrivals.iter()).zip(arrivals) {
            let surplus = (level - f64::from(arrival.weight)) / width;
            if surplus.abs() >= CERTAIN {
                let as_expected = arrival.lost == (surplus < 0.0);
                expected += u32::from(as_expected);
                unexpected += u32::from(!as_expected);
                continue;
            }
            let lost = 1.0 / (1.0 + surplus.exp());
            let fate = if arrival.lost { lost } else { 1.0 - lost };
            for (sum, outliers) in sums.iter_mut().zip(OUTLIERS) {
                *sum += (outliers + (1.0 - 2.0 * outliers) * fate).ln();
            }
        }
        for (sum, outliers) in sums.iter_mut().zip(OUTLIERS) {
            *sum += f64::from(expected) * (-outliers).ln_1p();
            *sum += f64::from(unexpected) * outliers.ln();
        }
        Self {
            bucket,
            width,
            log_likelihood: sums.into_iter().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// As a fit.
    pub fn fit(self) -> Fit {
        Fit {
            bucket: self.bucket,
            noise: Noise { width: self.width },
            log_likelihood: self.log_likelihood,
        }
    }

    /// The likeliest bucket near it.
    pub fn climb(self, arrivals: &[Arrival]) -> Self {
        let mut best = self;
        for round in 0..ROUNDS {
            let reach = NARROWER.powi(round) / f64::from(STEPS);
            let middle = best;
            let width = (middle.width * 0.5).max(LEAST_WIDTH);
            for i in -STEPS..=STEPS {
                for j in -STEPS..=STEPS {
                    let bucket = Bucket {
                        rate: middle.bucket.rate * (f64::from(i) * reach * RATE_REACH).exp(),
                        depth: middle.bucket.depth * (f64::from(j) * reach * DEPTH_REACH).exp(),
                        ..middle.bucket
                    };
                    let widths = [middle.width, width];
                    for width in &widths[..1 + usize::from(width < middle.width)] {
                        let found = Self::of(arrivals, bucket, *width);
                        if found.log_likelihood > best.log_likelihood {
                            best = found;
                        }
                    }
                }
            }
        }
        best
    }
}
