//! Percentiles of any number of times in bounded memory.

use tidegate_limiter::Nanos;

use crate::outcome::Distribution;

#[cfg(test)]
mod tests;

/// Bits of precision: values are kept apart to one part in 128.
const BITS: u32 = 7;

/// Counts of times, in steps that grow with them: below 2^7 ns exact, above within 0.8 %.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    /// Grows to the largest value seen; at most 7424 counts.
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    min: Nanos,
    max: Nanos,
}

impl Histogram {
    /// Counts a value.
    pub fn record(&mut self, value: Nanos) {
        let bucket = bucket(value);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.min = if self.count == 0 {
            value
        } else {
            self.min.min(value)
        };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
    }

    /// The percentiles of all values.
    pub fn distribution(&self) -> Distribution {
        if self.count == 0 {
            return Distribution::default();
        }
        Distribution {
            count: self.count,
            min: self.min,
            mean: (self.sum / u128::from(self.count)) as Nanos,
            p10: self.percentile(10),
            p50: self.percentile(50),
            p90: self.percentile(90),
            p95: self.percentile(95),
            p99: self.percentile(99),
            max: self.max,
        }
    }

    /// The middle of the step that holds the value at or below which this percentage of all values lie.
    fn percentile(&self, percent: u64) -> Nanos {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                let (low, width) = bounds(bucket);
                return (low + width / 2).clamp(self.min, self.max);
            }
        }
        self.max
    }
}

fn bucket(value: Nanos) -> usize {
    let shift = (64 - value.leading_zeros()).saturating_sub(BITS + 1);
    // Values of a shift fill the upper half of 2^8 steps; with no shift, the lower half too.
    ((shift as usize) << BITS) + (value >> shift) as usize
}

/// The smallest value of a step, and the number of values that the step covers.
fn bounds(bucket: usize) -> (Nanos, Nanos) {
    let half = 1usize << BITS;
    let shift = (bucket / half).saturating_sub(1);
    let low = (bucket - shift * half) as Nanos;
    (low << shift, 1 << shift)
}
