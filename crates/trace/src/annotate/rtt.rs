//! Round-trip times of a segment: their distribution, and whether they grow with what is in
//! flight.

use super::sent::Sent;
use crate::read::Nanos;

/// The distribution of a segment's unambiguous round-trip times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rtt {
    /// How many samples there are.
    pub samples: usize,
    /// The least.
    pub min: Nanos,
    /// The 10th percentile.
    pub p10: Nanos,
    /// The median.
    pub median: Nanos,
    /// The 90th percentile.
    pub p90: Nanos,
    /// The 95th percentile.
    pub p95: Nanos,
    /// The 99th percentile.
    pub p99: Nanos,
    /// The greatest.
    pub max: Nanos,
}

impl Rtt {
    /// Selects in linear time; reorders the samples.
    pub(super) fn of(samples: &mut [Nanos]) -> Option<Self> {
        let n = samples.len();
        if n == 0 {
            return None;
        }
        // Nearest rank. Each selection leaves what is smaller before it and larger behind it, so
        // the next only searches what is left.
        let rank = |percent: usize| (n * percent).div_ceil(100).max(1) - 1;
        let mut select =
            |from: usize, to: usize, k: usize| *samples[from..to].select_nth_unstable(k - from).1;
        let median = select(0, n, rank(50));
        let p10 = select(0, rank(50) + 1, rank(10));
        let p90 = select(rank(50), n, rank(90));
        let p95 = select(rank(90), n, rank(95));
        let p99 = select(rank(95), n, rank(99));
        let least = samples[..=rank(10)].iter().copied().min().unwrap_or(p10);
        let most = samples[rank(99)..].iter().copied().max().unwrap_or(p99);
        Some(Self {
            samples: n,
            min: least,
            p10,
            median,
            p90,
            p95,
            p99,
            max: most,
        })
    }

    /// The 90th percentile over the 10th [Flach16 figure 14].
    pub fn ratio(&self) -> Option<f64> {
        (self.p10 > 0).then(|| self.p90 as f64 / self.p10 as f64)
    }

    pub(super) fn is_bloat(&self, base: Nanos, growth: Option<Growth>) -> bool {
        let inflated = |rtt: Nanos| {
            rtt >= base.saturating_mul(BLOAT_RATIO) && rtt.saturating_sub(base) >= BLOAT_FLOOR
        };
        let grows = growth.is_some_and(|growth| growth.correlation >= BLOAT_CORRELATION);
        self.samples >= BLOAT_SAMPLES && inflated(self.p90) && (grows || inflated(self.p10))
    }
}

/// The median as numpy computes it: the mean of the middle two of an even number.
pub fn median(values: &mut [f64]) -> Option<f64> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    let (before, &mut upper, _) = values.select_nth_unstable_by(n / 2, f64::total_cmp);
    if n % 2 == 1 {
        return Some(upper);
    }
    let lower = before
        .iter()
        .copied()
        .max_by(f64::total_cmp)
        .unwrap_or(upper);
    Some((lower + upper) / 2.0)
}

/// How the round-trip time goes with the bytes in flight: a queue that fills shows as growth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// Pearson's correlation of round-trip time and bytes in flight.
    pub correlation: f64,
    /// Nanoseconds of round-trip time for each byte in flight more: the inverse of the rate at
    /// which the queue drains.
    pub ns_per_byte: f64,
}

/// Bufferbloat: the round-trip time is at least twice the least and at least 20 ms more (the least that
/// [Flach16]'s published detector calls inflated). It is so at its 90th percentile where it goes with
/// the bytes in flight, and even at its 10th where the queue stands.
const BLOAT_RATIO: u64 = 2;
const BLOAT_FLOOR: Nanos = 20_000_000;
const BLOAT_CORRELATION: f64 = 0.5;
/// Fewer round trips may all have waited for delayed acknowledgements.
const BLOAT_SAMPLES: usize = 10;

impl Growth {
    pub(super) fn of(sent: &[Sent]) -> Option<Self> {
        let samples = || {
            sent.iter()
                .filter_map(|sent| Some((f64::from(sent.in_flight), sent.rtt()? as f64)))
        };
        let (mut n, mut x, mut y) = (0.0, 0.0, 0.0);
        for (flight, rtt) in samples() {
            n += 1.0;
            x += flight;
            y += rtt;
        }
        if n < 10.0 {
            return None;
        }
        let (x, y) = (x / n, y / n);
        let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
        for (flight, rtt) in samples() {
            xx += (flight - x) * (flight - x);
            xy += (flight - x) * (rtt - y);
            yy += (rtt - y) * (rtt - y);
        }
        if xx <= 0.0 || yy <= 0.0 {
            return None;
        }
        Some(Self {
            correlation: xy / (xx * yy).sqrt(),
            ns_per_byte: xy / xx,
        })
    }
}
