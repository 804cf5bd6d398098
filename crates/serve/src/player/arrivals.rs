//! When viewers come.

use std::str::FromStr;
use std::time::Duration;

use rand::RngCore;
use rand_pcg::Pcg64;

/// When viewers come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// All at once.
    Once,
    /// Evenly over this time.
    Spread(Duration),
    /// Independently of each other, at this mean rate per second.
    Poisson(f64),
}

/// A text that is not a way for viewers to arrive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' does not say when viewers come: write once, spread:30s or poisson:2/s")]
pub struct ArrivalsError(String);

impl FromStr for Arrivals {
    type Err = ArrivalsError;

    fn from_str(text: &str) -> Result<Self, ArrivalsError> {
        let wrong = || ArrivalsError(text.to_owned());
        if text == "once" {
            return Ok(Self::Once);
        }
        match text.split_once(':') {
            Some(("spread", time)) => match humantime::parse_duration(time) {
                Ok(time) if time <= Duration::from_secs(86_400) => Ok(Self::Spread(time)),
                _ => Err(wrong()),
            },
            Some(("poisson", rate)) => {
                let rate = rate.strip_suffix("/s").unwrap_or(rate);
                let rate: f64 = rate.parse().map_err(|_| wrong())?;
                if rate.is_finite() && rate >= 1e-6 {
                    Ok(Self::Poisson(rate))
                } else {
                    Err(wrong())
                }
            }
            _ => Err(wrong()),
        }
    }
}

impl Arrivals {
    /// When each viewer arrives, after the first; the same for the same seed.
    pub(super) fn times(self, viewers: u32, seed: u64) -> Vec<Duration> {
        let mut random = Pcg64::new(u128::from(seed), 0x5851_f42d_4c95_7f2d);
        let mut at = 0.0;
        (0..viewers)
            .map(|number| match self {
                Self::Once => Duration::ZERO,
                Self::Spread(time) => time.mul_f64(f64::from(number) / f64::from(viewers)),
                Self::Poisson(rate) => {
                    // Above 0 and up to 1, so that its logarithm is finite.
                    let uniform = ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
                    at -= uniform.ln() / rate;
                    Duration::from_secs_f64(at)
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(arrivals: &str, viewers: u32) -> Vec<Duration> {
        arrivals.parse::<Arrivals>().unwrap().times(viewers, 0)
    }

    #[test]
    fn viewers_come_as_the_option_says() {
        assert_eq!(times("once", 3), [Duration::ZERO; 3]);
        let spread = times("spread:10s", 4);
        assert_eq!(spread, [0, 2500, 5000, 7500].map(Duration::from_millis));
        let poisson = times("poisson:20/s", 4000);
        assert!(poisson.is_sorted());
        // 200 s in the mean, with a standard deviation of 3.2 s.
        let last = poisson.last().unwrap().as_secs_f64();
        assert!((185.0..215.0).contains(&last), "{last}");
        assert_eq!(poisson, times("poisson:20/s", 4000));
    }
}
