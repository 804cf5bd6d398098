//! A score of what a line feels, by the draft on Quality of Outcome of the IETF's working group IPPM
//! (draft-ietf-ippm-qoo): each measure is compared with what an application needs to work well and with what makes it
//! useless. In between, the score falls in a straight line, and the worst measure counts.

use serde::{Deserialize, Serialize};
use tidegate_limiter::Nanos;

use crate::line::Line;

#[cfg(test)]
mod tests;

/// Fewest round trips that a score is given for.
const LEAST: u64 = 10;

/// From where on a measure costs score, and where nothing of it is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range<T> {
    /// With this or less, the application works as well as it can.
    pub good: T,
    /// With this or more, it is useless.
    pub useless: T,
}

/// What an application needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirement {
    /// Median of round trips on the subscriber's side, in nanoseconds.
    pub p50: Range<Nanos>,
    /// Their 95th percentile.
    pub p95: Range<Nanos>,
    /// Segments that are sent again, in millionths of all.
    pub again: Range<u32>,
}

impl Default for Requirement {
    /// A call with pictures.
    fn default() -> Self {
        const MS: Nanos = 1_000_000;
        Self {
            p50: Range {
                good: 50 * MS,
                useless: 400 * MS,
            },
            p95: Range {
                good: 100 * MS,
                useless: 600 * MS,
            },
            again: Range {
                good: 10_000,
                useless: 100_000,
            },
        }
    }
}

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// Most flows at a time.
    pub flows: u32,
    /// What the score is of.
    pub requirement: Requirement,
}

/// What a measure leaves of 100.
fn left(measured: f64, good: f64, useless: f64) -> f64 {
    100.0 * (1.0 - (measured - good) / (useless - good)).clamp(0.0, 1.0)
}

impl Requirement {
    /// From 0 (useless) to 100 (as good as is needed), of the last 34 to 69 seconds; `None` with fewer than 10 round
    /// trips on the subscriber's side. Segments that are sent again count in the direction where more of them are, if
    /// there were 100.
    pub fn score(&self, line: &Line) -> Option<f64> {
        if line.access.lately < LEAST {
            return None;
        }
        let trip = |measured: Nanos, range: Range<Nanos>| {
            left(measured as f64, range.good as f64, range.useless as f64)
        };
        let again = line
            .lately
            .values()
            .into_iter()
            .filter(|segments| segments.all >= 100);
        let again = again.map(|segments| segments.share()).fold(0.0, f64::max);
        let (good, useless) = (self.again.good, self.again.useless);
        let again = left(again, f64::from(good) / 1e6, f64::from(useless) / 1e6);
        Some(
            trip(line.access.p50, self.p50)
                .min(trip(line.access.p95, self.p95))
                .min(again),
        )
    }
}
