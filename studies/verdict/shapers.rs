//! How well burst rate, shaping rate and switch of burst-tolerant shapers are found.

use std::fmt;

use tidegate_trace::annotate::{Layer, TransferSummary};
use tidegate_trace::detect::Judgement;
use tidegate_trace::read::Nanos;

use crate::table3::percent;

/// A rate is right within this share of the truth.
const NEAR: f64 = 0.02;

/// Of the transfers that a burst-tolerant shaper limited after a burst, and that are judged so.
#[derive(Debug, Default)]
pub struct Shapers {
    /// All of them.
    pub found: usize,
    /// With a rate, with one that is near the truth, and with an interval that holds it.
    rates: usize,
    near: usize,
    held: usize,
    /// With a switch, and with one within the least round-trip time of it.
    switches: usize,
    in_a_round: usize,
    burst_rates: usize,
}

impl Shapers {
    /// Counts a verdict, given when the shaper began to queue and its rate on the link in bit/s.
    pub fn count(
        &mut self,
        transfer: &TransferSummary,
        judgement: &Judgement,
        (at, rate): (Nanos, f64),
    ) {
        self.found += 1;
        let Some(limit) = judgement.limit else {
            return;
        };
        let limit = limit.at(Layer::Link, &transfer.tally);
        let found = limit.rate_bps;
        self.rates += 1;
        self.near += usize::from((found.value / rate - 1.0).abs() <= NEAR);
        self.held += usize::from((found.low..=found.high).contains(&rate));
        self.burst_rates += usize::from(limit.burst.is_some_and(|burst| burst.rate_bps.is_some()));
        if let Some(switch) = limit.burst.and_then(|burst| burst.switch) {
            let found = transfer.metrics.first_sent + switch.after;
            let round = transfer.metrics.rtt.map_or(0, |rtt| rtt.min);
            self.switches += 1;
            self.in_a_round += usize::from(found.abs_diff(at) <= round);
        }
    }
}

impl fmt::Display for Shapers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |what: &str, of: usize, all: usize| {
            writeln!(f, "{what:<44} {of:>4} of {all:>4} {:>8}", percent(of, all))
        };
        line(
            "burst-tolerant shapers found with a rate",
            self.rates,
            self.found,
        )?;
        line("  within 2 % of the truth", self.near, self.rates)?;
        line(
            "  in an interval that holds the truth",
            self.held,
            self.rates,
        )?;
        line("  with a burst rate", self.burst_rates, self.rates)?;
        line("  with a switch", self.switches, self.rates)?;
        line(
            "    within the least round-trip time of it",
            self.in_a_round,
            self.switches,
        )
    }
}
