//! How well the rates and sizes of queues and policers are found.

use std::fmt;

use tidegate_trace::annotate::{Layer, TransferSummary};
use tidegate_trace::detect::cause::Findings;
use tidegate_trace::detect::{Cause, Estimate, Judgement};

use crate::table3::percent;

/// Of the transfers that a queue or a policer limited, and that are judged so.
#[derive(Debug, Default)]
pub struct Limits {
    sources: [Counts; 6],
}

/// Where a rate comes from.
const SOURCES: [&str; 6] = [
    "queues with a fit",
    "queues without a fit",
    "managed queues",
    "policers up to 10 Mbit/s",
    "policers up to 100 Mbit/s",
    "faster policers",
];

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    /// With a rate, with one that is near the truth, and with an interval that holds it.
    rates: usize,
    near: usize,
    held: usize,
    /// With a size, and with an interval that holds it.
    sizes: usize,
    sizes_held: usize,
}

/// Rates of policers in bit/s on the link, from which on they are counted apart.
const FASTER: [f64; 2] = [10.5e6, 105e6];
/// A rate is right within this share of the truth.
const NEAR: f64 = 0.02;

impl Limits {
    /// Counts a verdict, given the rate on the link in bit/s and, of a drop-tail queue or a bucket, the bytes that it holds.
    /// Returns, in words, the intervals that do not hold these.
    pub fn count(
        &mut self,
        transfer: &TransferSummary,
        judgement: &Judgement,
        (rate, size): (f64, Option<f64>),
    ) -> Vec<String> {
        let losses = judgement
            .details::<Findings>()
            .and_then(|found| found.losses);
        let fitted = losses.is_some_and(|losses| losses.limiter.is_some());
        let source = match (judgement.cause, fitted) {
            (Cause::Policer, _) => 3 + FASTER.iter().filter(|&&faster| rate > faster).count(),
            (Cause::Aqm, _) => 2,
            (_, true) => 0,
            (_, false) => 1,
        };
        let counts = &mut self.sources[source];
        counts.all += 1;
        let mut missed = Vec::new();
        let Some(limit) = judgement.limit else {
            return missed;
        };
        let mut holds = |what, truth: f64, found: Estimate| {
            let holds = (found.low..=found.high).contains(&truth);
            if !holds {
                let parts = [found.low, found.value, found.high].map(|end| end / truth);
                missed.push(format!(
                    "{what} {truth:.0} is not in the interval from {:.3} over {:.3} to {:.3} times that",
                    parts[0], parts[1], parts[2]
                ));
            }
            usize::from(holds)
        };
        let limit = limit.at(Layer::Link, &transfer.tally);
        let found = limit.rate_bps;
        counts.rates += 1;
        counts.near += usize::from((found.value / rate - 1.0).abs() <= NEAR);
        counts.held += holds("rate", rate, found);
        if let Some((size, found)) = size.zip(limit.depth_bytes) {
            counts.sizes += 1;
            counts.sizes_held += holds("size", size, found);
        }
        missed
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, counts) in SOURCES.iter().zip(&self.sources) {
            let mut line = |what: &str, of: usize, all: usize| {
                writeln!(f, "{what:<44} {of:>4} of {all:>4} {:>8}", percent(of, all))
            };
            line(&format!("{name}, with a rate"), counts.rates, counts.all)?;
            line("  within 2 % of the truth", counts.near, counts.rates)?;
            line(
                "  in an interval that holds the truth",
                counts.held,
                counts.rates,
            )?;
            if counts.sizes > 0 {
                let (held, sizes) = (counts.sizes_held, counts.sizes);
                line("  with a size, and an interval that holds it", held, sizes)?;
            }
        }
        Ok(())
    }
}
