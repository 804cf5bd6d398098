//! PD, the policing detector of [Flach16 §2.1], twice: by its authors' published code, which is
//! the [published](Pd::published) one, and by the [paper](Pd::paper)'s text.
//!
//! It takes the goodput between the first and the last loss for the policer's rate, follows the
//! fill of a token bucket of that rate, and asks whether packets were lost when it was empty and
//! passed when it was not. Rates are payload bits per second and tokens payload bytes throughout.

use super::order::Order;
use super::{Check, Code, Detector, Judgement, Verdict};
use crate::annotate::{Marks, Sent, Transfer, median};
use crate::read::Nanos;

#[cfg(test)]
mod tests;

/// The published code's and the paper's constants. [Flach16 §2.1 and code]
const MIN_SAMPLES: usize = 15;
const MIN_SLICES: usize = 3;
const LATE_LOSS: i64 = 2_000_000;
const LOSS_ZERO_RTTS: f64 = 2.0;
const PASS_ZERO_RTTS: f64 = 0.75;
const LOSS_OUTLIERS: f64 = 0.10;
const PASS_OUTLIERS: f64 = 0.03;
const INFLATED_PERCENTILE: f64 = 10.0;
const INFLATED: f64 = 1.3;
const INFLATED_LEAST_MS: f64 = 20.0;
const INFLATED_LOSSES: f64 = 0.2;
/// Losses left out at either end in the second run.
const CUT: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edition {
    Published,
    Paper,
}

/// The policing detector. Keeps its memory between transfers.
#[derive(Debug)]
pub struct Pd {
    edition: Edition,
    /// Of the transfer at hand: which packets were lost.
    losses: Vec<usize>,
    /// And its median round-trip time, once it was needed.
    rtt_ms: Option<f64>,
    on_loss: Vec<f64>,
    on_pass: Vec<f64>,
    scratch: Vec<f64>,
}

impl Pd {
    /// As its authors' code works: round-trip times in whole milliseconds, fills relative to the
    /// median fill on loss, tokens followed to the end of the transfer, and the additional rules
    /// for late losses, slow starts and losses in few round trips.
    pub fn published() -> Self {
        Self::of(Edition::Published)
    }

    /// As the paper describes it: fills relative to an empty bucket, tokens followed from the
    /// first loss to the last, at least 15 losses, round-trip time tested before the first loss.
    /// The thresholds that the paper does not state are the code's.
    pub fn paper() -> Self {
        Self::of(Edition::Paper)
    }

    fn of(edition: Edition) -> Self {
        Self {
            edition,
            losses: Vec::new(),
            rtt_ms: None,
            on_loss: Vec::new(),
            on_pass: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// What counts as lost. The published code knows of one sign only that a retransmission was
    /// in vain: a duplicate acknowledgement of the last.
    fn lost(&self, sent: &Sent) -> bool {
        match self.edition {
            Edition::Published => sent.repeated != 0 && !sent.marks.has(Marks::SPURIOUS_DSACK),
            Edition::Paper => sent.lost(),
        }
    }

    /// What the published code takes for a packet's round-trip time, in ms: until it was first
    /// acknowledged, if it was not retransmitted (even if it is a retransmission itself).
    fn rtt_of(&self, sent: &Sent) -> Option<f64> {
        match self.edition {
            Edition::Published => (sent.repeated == 0 && sent.acked_at != 0).then(|| {
                // Microseconds of either time, and then whole milliseconds of the difference.
                let micros = (sent.acked_at / 1000).saturating_sub(sent.at / 1000);
                (micros / 1000) as f64
            }),
            Edition::Paper => sent.rtt().map(|rtt| rtt as f64 / 1e6),
        }
    }

    fn run(&mut self, transfer: &Transfer<'_>, cut: usize) -> Verdict {
        let mut report = Report::default();
        let sent = transfer.sent;
        let lost = self.losses.len();
        // The first and the last loss, without so many at either end.
        let first = self.losses.get(cut).copied();
        let last = lost
            .checked_sub(1 + cut)
            .and_then(|i| self.losses.get(i))
            .copied();
        let (first, last) = match (first, last) {
            (Some(first), Some(last)) if first < last => (first, last),
            _ => {
                let wanted = 2.0 * cut as f64 + 2.0;
                report.check(
                    Code::TooFewLosses,
                    "lost packets",
                    lost as f64,
                    wanted,
                    "packets",
                    false,
                );
                return report.ruled_out();
            }
        };
        let published = self.edition == Edition::Published;
        if !published
            && !report.check(
                Code::TooFewLosses,
                "lost packets",
                lost as f64,
                MIN_SAMPLES as f64,
                "packets",
                lost >= MIN_SAMPLES,
            )
        {
            return report.ruled_out();
        }
        let first_at = transfer.relative(&sent[first]);
        if published
            && !report.check(
                Code::LateLoss,
                "first loss",
                first_at as f64,
                LATE_LOSS as f64,
                "B into the transfer",
                first_at <= LATE_LOSS,
            )
        {
            return report.ruled_out();
        }

        let rate = self.rate(&sent[first..=last]);
        let rtt_ms = self.median_rtt_ms(sent);
        if !published {
            // Nothing to measure by: no packet that was acknowledged in one round trip, or a clock
            // that stood still or went back. The code answers the same further on.
            for (what, found, unit) in [
                ("median round-trip time", rtt_ms, "ms"),
                ("rate between losses", rate, "bit/s"),
            ] {
                if !report.check(Code::TooFewLosses, what, found, 0.0, unit, found > 0.0) {
                    return report.ruled_out();
                }
            }
        }
        let loss_zero = LOSS_ZERO_RTTS * rtt_ms * rate / 8e3;
        let pass_zero = PASS_ZERO_RTTS * rtt_ms * rate / 8e3;
        if published {
            let before = seconds(transfer.started_at, sent[first].at);
            let fill = first_at as f64 - rate * before / 8.0;
            let holds = fill >= -pass_zero || pass_zero.is_nan();
            let what = "tokens at the start";
            if !report.check(Code::NegativeFill, what, fill, -pass_zero, "B", holds) {
                return report.ruled_out();
            }
        }

        let (slices, stop) = match self.edition {
            Edition::Published => (self.follow(&sent[first..], rate, rtt_ms), sent.len()),
            Edition::Paper => (self.follow(&sent[first..=last], rate, rtt_ms), last + 1),
        };
        let enough: [(&str, usize, usize); 3] = [
            ("round trips with losses", slices, MIN_SLICES),
            ("losses followed", self.on_loss.len(), MIN_SAMPLES),
            ("passes followed", self.on_pass.len(), MIN_SAMPLES),
        ];
        for (what, found, least) in enough {
            // The paper asks for losses only, and only for what the second run has left of them.
            let least = if published { least } else { 1 };
            let holds = found >= least;
            if !report.check(
                Code::TooFewLosses,
                what,
                found as f64,
                least as f64,
                "",
                holds,
            ) {
                return report.ruled_out();
            }
        }

        let means = (mean(&self.on_loss), mean(&self.on_pass));
        let medians = (self.median_of(true), self.median_of(false));
        for (what, (loss, pass)) in [
            ("mean tokens on loss", means),
            ("median tokens on loss", medians),
        ] {
            if !report.check(Code::HigherFillOnLoss, what, loss, pass, "B", loss < pass) {
                return report.ruled_out();
            }
        }
        let zero = if published { medians.0 } else { 0.0 };
        let outliers = |fills: &[f64], is_out: &dyn Fn(f64) -> bool| {
            let out = fills.iter().filter(|&&fill| is_out(fill - zero)).count();
            (out as f64, fills.len() as f64)
        };
        let (out, all) = outliers(&self.on_loss, &|fill| fill.abs() > loss_zero);
        let holds = all * LOSS_OUTLIERS >= out;
        let what = "losses with tokens far from empty";
        let percent = (out / all * 100.0, LOSS_OUTLIERS * 100.0);
        if !report.check(
            Code::LossFillOutOfRange,
            what,
            percent.0,
            percent.1,
            "%",
            holds,
        ) {
            return report.ruled_out();
        }
        let (out, all) = outliers(&self.on_pass, &|fill| fill < -pass_zero);
        let holds = all * PASS_OUTLIERS >= out;
        let what = "passes with an empty bucket";
        let percent = (out / all * 100.0, PASS_OUTLIERS * 100.0);
        if !report.check(
            Code::PassFillOutOfRange,
            what,
            percent.0,
            percent.1,
            "%",
            holds,
        ) {
            return report.ruled_out();
        }

        let (inflated, losses) = match self.edition {
            Edition::Published => self.inflated(sent, first..stop),
            Edition::Paper => self.inflated(sent, first..first + 1),
        };
        let holds = inflated as f64 <= INFLATED_LOSSES * losses as f64;
        let what = "losses behind a grown round-trip time";
        let percent = (
            inflated as f64 / losses.max(1) as f64 * 100.0,
            INFLATED_LOSSES * 100.0,
        );
        if !report.check(Code::InflatedRtt, what, percent.0, percent.1, "%", holds) {
            return report.ruled_out();
        }
        let burst = sent
            .iter()
            .take_while(|sent| !self.lost(sent))
            .map(|sent| u64::from(sent.len))
            .sum();
        Verdict {
            code: Code::Policed,
            rate_bps: Some(rate),
            first_loss: Some(first),
            burst_bytes: Some(burst),
            checks: report.checks,
        }
    }

    /// The goodput from the first packet to the last, both lost, in bits per second: what passed
    /// between them must have used the tokens made in that time.
    fn rate(&self, sent: &[Sent]) -> f64 {
        let passed: u64 = sent
            .iter()
            .filter(|sent| !self.lost(sent))
            .map(|sent| u64::from(sent.len))
            .sum();
        let time = seconds(sent[0].at, sent[sent.len() - 1].at);
        // Negative where the clock was set back in between.
        if time <= 0.0 {
            0.0
        } else {
            passed as f64 * 8.0 / time
        }
    }

    /// Follows a bucket that is empty at the first packet, and notes its fill at every loss and
    /// pass. Returns in how many slices of a round trip there were losses.
    fn follow(&mut self, sent: &[Sent], rate: f64, rtt_ms: f64) -> usize {
        self.on_loss.clear();
        self.on_pass.clear();
        let start = sent[0].at;
        let mut used = 0.0;
        let mut slices = 1;
        let mut slice_end = rtt_ms / 1e3;
        for sent in sent {
            let now = seconds(start, sent.at);
            let tokens = rate * now / 8.0 - used;
            if self.lost(sent) {
                self.on_loss.push(tokens);
                if now > slice_end {
                    slice_end = now + rtt_ms / 1e3;
                    slices += 1;
                }
            } else {
                self.on_pass.push(tokens);
                used += f64::from(sent.len);
            }
        }
        slices
    }

    /// The median round-trip time, found once for both runs. Without one nothing compares: as the
    /// code's NaN.
    fn median_rtt_ms(&mut self, sent: &[Sent]) -> f64 {
        if let Some(known) = self.rtt_ms {
            return known;
        }
        self.scratch.clear();
        for sent in sent {
            self.scratch.extend(self.rtt_of(sent));
        }
        *self
            .rtt_ms
            .insert(median(&mut self.scratch).unwrap_or(f64::NAN))
    }

    fn median_of(&mut self, loss: bool) -> f64 {
        self.scratch.clear();
        self.scratch
            .extend_from_slice(if loss { &self.on_loss } else { &self.on_pass });
        median(&mut self.scratch).unwrap_or(f64::NAN)
    }

    /// How many of the losses in the range followed a grown round-trip time, and of how many.
    ///
    /// A sample counts if no loss was pending that could have delayed it: if it was sent after
    /// the acknowledgement of every packet that was retransmitted before.
    fn inflated(&self, sent: &[Sent], range: std::ops::Range<usize>) -> (usize, usize) {
        let mut order = Order::of(sent.iter().filter_map(|sent| self.rtt_of(sent)).collect());
        let (mut latest, mut before) = (None, None);
        let mut pending: Nanos = 0;
        let (mut inflated, mut losses) = (0, 0);
        for (i, sent) in sent[..range.end].iter().enumerate() {
            if sent.repeated != 0 {
                pending = pending.max(sent.acked_at);
            } else if let Some(ms) = self.rtt_of(sent)
                && sent.at >= pending
            {
                order.add(ms);
                before = latest.replace(ms);
            }
            if i < range.start || !self.lost(sent) {
                continue;
            }
            losses += 1;
            if let Some(ms) = before
                && ms >= INFLATED_LEAST_MS
                && order.percentile(50.0).is_some_and(|median| ms >= median)
                && order
                    .percentile(INFLATED_PERCENTILE)
                    .is_some_and(|low| ms > INFLATED * low)
            {
                inflated += 1;
            }
        }
        (inflated, losses)
    }
}

/// The tests so far.
#[derive(Default)]
struct Report {
    checks: Vec<Check>,
}

impl Report {
    fn check(
        &mut self,
        rules_out: Code,
        what: &'static str,
        found: f64,
        limit: f64,
        unit: &'static str,
        holds: bool,
    ) -> bool {
        self.checks.push(Check {
            rules_out,
            what,
            found,
            limit,
            unit,
            holds,
        });
        holds
    }

    /// The verdict where the last test has ruled a policer out.
    fn ruled_out(self) -> Verdict {
        Verdict {
            code: self
                .checks
                .last()
                .map_or(Code::TooFewLosses, |check| check.rules_out),
            rate_bps: None,
            first_loss: None,
            burst_bytes: None,
            checks: self.checks,
        }
    }
}

impl Detector for Pd {
    fn name(&self) -> &'static str {
        match self.edition {
            Edition::Published => "pd",
            Edition::Paper => "pd-paper",
        }
    }

    fn judge(&mut self, transfer: &Transfer<'_>) -> Judgement {
        let mut losses = std::mem::take(&mut self.losses);
        losses.clear();
        losses.extend(
            (transfer.sent.iter().enumerate())
                .filter(|(_, sent)| self.lost(sent))
                .map(|(i, _)| i),
        );
        self.losses = losses;
        self.rtt_ms = None;
        Judgement {
            verdict: self.run(transfer, 0),
            cut: Some(self.run(transfer, CUT)),
        }
    }
}

fn seconds(from: Nanos, to: Nanos) -> f64 {
    to.wrapping_sub(from) as i64 as f64 / 1e9
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
