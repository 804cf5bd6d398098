//! Random numbers that are the same on every machine.
//!
//! Only operations that IEEE 754 specifies exactly are used: +, −, ×, ÷ and the square root.
//! Logarithm and exponential are computed here as series. Those of the system's mathematical library
//! differ between systems in the last digit, and one digit changes every later packet.

use rand::RngCore;
use rand_pcg::Pcg64;

#[cfg(test)]
mod tests;

/// The owner of a stream of random numbers. Each has a separate stream, found by its number: the
/// values of one owner do not depend on those of another.
#[derive(Debug, Clone, Copy)]
pub enum Owner {
    /// An element of the plan, taps not counted.
    Element(usize),
    /// The application of a flow.
    Application(usize),
    /// The addresses, ports and initial sequence numbers of a flow's connection.
    Connection(usize, u32),
    /// The congestion control of a flow's connection.
    Sender(usize, u32),
    /// The secret with which flows are hashed.
    Hash,
}

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Random(Pcg64);

impl Random {
    /// The stream of this owner.
    pub fn new(seed: u64, owner: Owner) -> Self {
        let (kind, index, part) = match owner {
            Owner::Element(index) => (1u128, index, 0),
            Owner::Application(index) => (2, index, 0),
            Owner::Connection(index, part) => (3, index, part),
            Owner::Sender(index, part) => (4, index, part),
            Owner::Hash => (5, 0, 0),
        };
        let stream = kind << 96 | u128::from(part) << 64 | index as u128;
        let mut generator = Pcg64::new(u128::from(seed) << 64 | u128::from(seed), stream);
        // Streams with neighbouring numbers begin with similar values; the first steps separate
        // them.
        for _ in 0..4 {
            generator.next_u64();
        }
        Self(generator)
    }

    /// 32 random bits.
    pub fn bits(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// 64 random bits.
    pub fn long(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1).
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        // 53 bits fill the mantissa; both conversion and product are exact.
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with this probability.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// Exponential of mean 1.
    pub fn exponential(&mut self) -> f64 {
        exponential(self.uniform())
    }

    /// Normal of mean 0 and deviation 1, by Marsaglia's polar method.
    pub fn normal(&mut self) -> f64 {
        loop {
            let x = 2.0 * self.uniform() - 1.0;
            let y = 2.0 * self.uniform() - 1.0;
            let s = x * x + y * y;
            if s > 0.0 && s < 1.0 {
                return x * (-2.0 * ln(s) / s).sqrt();
            }
        }
    }
}

/// The value of an exponential distribution of mean 1 that this share of values is below; the share is in [0, 1).
pub fn exponential(share: f64) -> f64 {
    -ln(1.0 - share)
}

/// A bounded Pareto distribution.
#[derive(Debug, Clone, Copy)]
pub struct BoundedPareto {
    min: f64,
    shape: f64,
    /// 1 − (min / max)^shape: the mass of the unbounded distribution that is kept.
    kept: f64,
}

impl BoundedPareto {
    /// The distribution of this shape and largest value that has this mean. The smallest value is
    /// found by bisection, because the mean grows with it.
    pub fn with_mean(mean: f64, shape: f64, max: f64) -> Self {
        let (mut low, mut high) = (0.0, mean);
        for _ in 0..200 {
            let middle = low + (high - low) / 2.0;
            if Self::mean(middle, shape, max) < mean {
                low = middle;
            } else {
                high = middle;
            }
        }
        let min = low + (high - low) / 2.0;
        Self {
            min,
            shape,
            kept: 1.0 - pow(min / max, shape),
        }
    }

    fn mean(min: f64, shape: f64, max: f64) -> f64 {
        let ratio = min / max;
        if ratio <= 0.0 {
            return 0.0;
        }
        let scale = min / (1.0 - pow(ratio, shape));
        // The integral of x^-shape. At a shape of 1 it is a logarithm. Close to 1, a difference of
        // powers would lose its digits.
        if (shape - 1.0).abs() < 1e-6 {
            return -scale * ln(ratio);
        }
        scale * shape / (shape - 1.0) * (1.0 - pow(ratio, shape - 1.0))
    }

    /// A value.
    pub fn sample(&self, random: &mut Random) -> f64 {
        self.value(random.uniform())
    }

    /// The value that this share of values is below; the share is in [0, 1).
    pub fn value(&self, share: f64) -> f64 {
        self.min / pow(1.0 - share * self.kept, 1.0 / self.shape)
    }
}

const LN_2: f64 = std::f64::consts::LN_2;

/// Natural logarithm of a positive, normal number.
pub fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh((m − 1) / (m + 1)); |z| < 0.172, so z^23 is below 1e-17.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let square = z * z;
    let series = (0..=10).rev().fold(0.0, |sum, term| {
        sum * square + 1.0 / f64::from(2 * term + 1)
    });
    exponent as f64 * LN_2 + 2.0 * z * series
}

/// The exponential; 0 or infinity if the result is not a finite number.
fn exp(x: f64) -> f64 {
    if x < -700.0 {
        return 0.0;
    }
    if x > 700.0 {
        return f64::INFINITY;
    }
    // `round` is exact; the series is of |r| ≤ 0.35, so r^15/15! is below 1e-19.
    let power = (x / LN_2).round();
    let rest = x - power * LN_2;
    let series = (1..=15)
        .rev()
        .fold(1.0, |sum, term| 1.0 + sum * rest / f64::from(term));
    series * f64::from_bits(((power as i64 + 1023) as u64) << 52)
}

/// A positive number to any power.
pub fn pow(x: f64, y: f64) -> f64 {
    exp(y * ln(x))
}
