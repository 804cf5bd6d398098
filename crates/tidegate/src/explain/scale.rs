//! Axes: from values to places in the picture, and where the ticks go.

/// A linear axis.
pub(super) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// Values from `low` to `high` at places from `from` to `to`.
    pub(super) fn new(low: f64, high: f64, from: f64, to: f64) -> Self {
        // A single value still needs room around it.
        let high = if high > low { high } else { low + 1.0 };
        Self {
            low,
            high,
            from,
            to,
        }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        self.from + (value - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// Round values, about `wanted` of them, and the decimals that they need.
    pub(super) fn ticks(&self, wanted: usize) -> (Vec<f64>, usize) {
        let rough = (self.high - self.low) / wanted.max(1) as f64;
        let power = rough.log10().floor();
        let base = 10f64.powf(power);
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * base)
            .find(|&step| step >= rough * 0.999)
            .unwrap_or(10.0 * base);
        let decimals = (-(step.log10() + 1e-9).floor()).max(0.0) as usize;
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        ((first..=last).map(|n| n as f64 * step).collect(), decimals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let (ticks, decimals) = Scale::new(0.0, 17.8, 0.0, 1.0).ticks(8);
        assert_eq!(ticks, [0.0, 5.0, 10.0, 15.0]);
        assert_eq!(decimals, 0);
        let (ticks, decimals) = Scale::new(0.31, 0.58, 0.0, 1.0).ticks(6);
        assert_eq!(ticks.len(), 5);
        assert_eq!(decimals, 2);
        let (ticks, _) = Scale::new(3.0, 3.0, 0.0, 1.0).ticks(5);
        assert!(!ticks.is_empty());
    }

    #[test]
    fn axes_can_run_downwards() {
        let scale = Scale::new(0.0, 10.0, 100.0, 0.0);
        assert_eq!(scale.at(0.0), 100.0);
        assert_eq!(scale.at(5.0), 50.0);
    }
}
