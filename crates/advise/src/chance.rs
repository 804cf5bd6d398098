//! How much of a mean is chance: standard errors over simulations.

/// A mean, and how uncertain it is.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Mean {
    /// The mean.
    pub value: f64,
    /// Its standard error; 0 with fewer than two simulations, of which nothing is known.
    pub error: f64,
    /// Simulations.
    pub count: usize,
}

/// Student's t for an interval of 95 %, by degrees of freedom from 1 on; about 2 beyond.
const STUDENT: [f64; 15] = [
    12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13,
];

impl Mean {
    /// Of the results of simulations.
    pub fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        if values.is_empty() {
            return Self::default();
        }
        let value = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|one| (one - value) * (one - value)).sum();
        let error = match values.len() {
            1 => 0.0,
            _ => (squares / (count - 1.0) / count).sqrt(),
        };
        Self {
            value,
            error,
            count: values.len(),
        }
    }

    /// Of the differences between two limits in simulations with the same seeds: what the first has more than the second.
    pub fn of_difference(first: &[f64], second: &[f64]) -> Self {
        let pairs = first.iter().zip(second);
        let differences: Vec<f64> = pairs.map(|(first, second)| first - second).collect();
        Self::of(&differences)
    }

    /// Half of the interval that holds the true mean with 95 %.
    pub fn bound(self) -> f64 {
        let student = self
            .count
            .checked_sub(2)
            .and_then(|index| STUDENT.get(index));
        self.error * student.copied().unwrap_or(2.0)
    }

    /// Whether it is above 0 by more than chance, which one simulation does not tell.
    pub fn is_clear(self) -> bool {
        self.count > 1 && self.value > self.bound()
    }

    /// Whether it is known within this share of itself, which one simulation does not tell.
    pub fn is_within(self, share: f64) -> bool {
        self.count > 1 && self.bound() <= share * self.value.abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_means() {
        assert_eq!(Mean::of(&[]), Mean::default());
        let single = Mean::of(&[3.0]);
        assert_eq!(single.value, 3.0);
        assert!(!single.is_clear() && !single.is_within(1.0));
        let mean = Mean::of(&[1.0, 3.0]);
        assert_eq!((mean.value, mean.error), (2.0, 1.0));
        assert!(!mean.is_clear() && !mean.is_within(1.0));
        let many: Vec<f64> = (0..100).map(|number| f64::from(1 + number % 2)).collect();
        let mean = Mean::of(&many);
        assert!((mean.bound() - 0.1005).abs() < 1e-3, "{mean:?}");
        assert!(mean.is_clear() && mean.is_within(0.07) && !mean.is_within(0.06));
        // The same noise in both is no uncertainty of the difference.
        let difference = Mean::of_difference(&[2.0, 9.0], &[1.0, 8.0]);
        assert_eq!((difference.value, difference.error), (1.0, 0.0));
        assert!(difference.is_clear());
    }
}
