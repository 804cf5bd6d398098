//! Percentiles of any number of times in bounded memory.

use std::iter::repeat_n;

use tidegate_limiter::Nanos;

use crate::outcome::Distribution;

#[cfg(test)]
mod tests;

/// Bits of precision: values are kept apart to one part in 128.
const BITS: u32 = 7;

/// Values that wait until they are counted together. Each count is in another place of the memory, so to wait for
/// several at once takes as long as to wait for one.
const TOGETHER: usize = 8;

/// Counts of times, in steps that grow with them: below 2^7 ns exact, above within 0.8 %.
#[derive(Debug, Clone, Default)]
#[repr(C)]
pub struct Histogram {
    waiting: usize,
    values: [Nanos; TOGETHER],
    counted: Box<Counted>,
}

/// The values that were counted.
#[derive(Debug, Clone, Default)]
struct Counted {
    /// From the step of the smallest value seen to that of the largest; at most 7424 counts.
    counts: Vec<u64>,
    /// The step of the first count.
    first: usize,
    count: u64,
    sum: u128,
    min: Nanos,
    max: Nanos,
}

impl Histogram {
    /// Takes a value in.
    #[inline]
    pub fn record(&mut self, value: Nanos) {
        self.values[self.waiting] = value;
        self.waiting += 1;
        if self.waiting == TOGETHER {
            self.count();
        }
    }

    /// The percentiles of all values.
    pub fn distribution(&mut self) -> Distribution {
        self.count();
        self.counted.distribution()
    }

    /// Counts the values that wait.
    fn count(&mut self) {
        for &value in &self.values[..self.waiting] {
            self.counted.count(value);
        }
        self.waiting = 0;
    }
}

impl Counted {
    fn count(&mut self, value: Nanos) {
        let bucket = bucket(value);
        if self.counts.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            self.counts.splice(..0, repeat_n(0, self.first - bucket));
            self.first = bucket;
        }
        let place = bucket - self.first;
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
        self.min = if self.count == 0 {
            value
        } else {
            self.min.min(value)
        };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
    }

    fn distribution(&self) -> Distribution {
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
        for (place, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                let (low, width) = bounds(self.first + place);
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
