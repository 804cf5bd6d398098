//! A transfer replayed against a token bucket.

use std::ops::Range;

use super::super::order::Order;
use super::answer::Check;
use super::code::Code;
use super::counting::Counting;
use crate::annotate::{Sent, Transfer, median};
use crate::read::Nanos;

/// A grown round-trip time is above `INFLATED` times this percentile, and at least
/// `INFLATED_LEAST_MS`. [Flach16 code]
const INFLATED_PERCENTILE: f64 = 10.0;
const INFLATED: f64 = 1.3;
const INFLATED_LEAST_MS: f64 = 20.0;

/// What is kept between runs, and the memory of both.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Which packets of the present transfer were lost.
    losses: Vec<usize>,
    /// Its median round-trip time, once a rule asked for it.
    rtt_ms: Option<f64>,
    on_loss: Vec<f64>,
    on_pass: Vec<f64>,
    scratch: Vec<f64>,
}

impl Memory {
    /// Begins another transfer.
    pub fn start(&mut self, counting: &Counting, transfer: &Transfer<'_>) {
        self.losses.clear();
        let all = transfer.sent.iter().enumerate();
        let lost = all.filter(|(_, sent)| (counting.lost)(sent));
        self.losses.extend(lost.map(|(i, _)| i));
        self.rtt_ms = None;
    }
}

/// What the bucket's fill was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fills {
    /// In how many slices of a round trip there were losses.
    pub slices: usize,
    /// Losses and passes that were followed.
    pub losses: usize,
    pub passes: usize,
    /// Mean and median fill when packets were lost, in bytes.
    pub mean_on_loss: f64,
    pub median_on_loss: f64,
    /// Mean and median fill when packets passed, in bytes.
    pub mean_on_pass: f64,
    pub median_on_pass: f64,
}

/// A part of a whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub part: usize,
    pub whole: usize,
}

/// One run over one transfer: what the rules ask.
pub(super) struct Case<'a> {
    counting: &'static Counting,
    transfer: &'a Transfer<'a>,
    memory: &'a mut Memory,
    /// Index of the first loss that counts in this run.
    pub first: usize,
    /// Index of the last.
    last: usize,
    /// The goodput between the two in bit/s: what passed must have used the tokens made in
    /// that time.
    pub rate: f64,
    fills: Option<Fills>,
}

impl<'a> Case<'a> {
    /// A run without the first and the last `cut` losses.
    ///
    /// # Errors
    /// The check that fails, if too few losses are left.
    pub fn new(
        counting: &'static Counting,
        transfer: &'a Transfer<'a>,
        cut: usize,
        memory: &'a mut Memory,
    ) -> Result<Self, Check> {
        let losses = &memory.losses;
        let first = losses.get(cut).copied();
        let last = losses.len().checked_sub(1 + cut).map(|i| losses[i]);
        let (first, last) = match (first, last) {
            (Some(first), Some(last)) if first < last => (first, last),
            _ => {
                return Err(Check {
                    rules_out: Code::TooFewLosses,
                    what: "lost packets",
                    found: losses.len() as f64,
                    limit: 2.0 * cut as f64 + 2.0,
                    unit: "packets",
                    holds: false,
                });
            }
        };
        Ok(Self {
            counting,
            transfer,
            memory,
            first,
            last,
            rate: rate(counting, &transfer.sent[first..=last]),
            fills: None,
        })
    }

    /// Lost packets in the whole transfer.
    pub fn lost(&self) -> usize {
        self.memory.losses.len()
    }

    /// Where in the transfer the first loss is, in bytes from 1.
    pub fn first_loss_at(&self) -> i64 {
        self.transfer.relative(&self.transfer.sent[self.first])
    }

    /// Payload bytes before the transfer's first loss.
    pub fn burst_bytes(&self) -> u64 {
        let passed = self
            .transfer
            .sent
            .iter()
            .take_while(|sent| !self.is_lost(sent));
        passed.map(|sent| u64::from(sent.len)).sum()
    }

    /// Seconds from the sender's first packet in the segment to the first loss.
    pub fn before_first_loss(&self) -> f64 {
        seconds(self.transfer.started_at, self.transfer.sent[self.first].at)
    }

    /// The median round-trip time in ms, found once for both runs. Without one nothing compares:
    /// as the code's NaN.
    pub fn rtt_ms(&mut self) -> f64 {
        if let Some(known) = self.memory.rtt_ms {
            return known;
        }
        let Memory {
            scratch, rtt_ms, ..
        } = &mut *self.memory;
        scratch.clear();
        scratch.extend(self.transfer.sent.iter().filter_map(self.counting.rtt_ms));
        *rtt_ms.insert(median(scratch).unwrap_or(f64::NAN))
    }

    /// The tokens made in a share of a round trip, in bytes.
    pub fn tokens_in_round_trips(&mut self, round_trips: f64) -> f64 {
        round_trips * self.rtt_ms() * self.rate / 8e3
    }

    /// The fills of a bucket that is empty at the first loss.
    pub fn fills(&mut self) -> Fills {
        if let Some(known) = self.fills {
            return known;
        }
        let rtt_ms = self.rtt_ms();
        let end = if self.counting.to_the_end {
            self.transfer.sent.len()
        } else {
            self.last + 1
        };
        let slices = self.follow(&self.transfer.sent[self.first..end], rtt_ms);
        let Memory {
            on_loss,
            on_pass,
            scratch,
            ..
        } = &mut *self.memory;
        let mut median_of = |values: &[f64]| {
            scratch.clear();
            scratch.extend_from_slice(values);
            median(scratch).unwrap_or(f64::NAN)
        };
        *self.fills.insert(Fills {
            slices,
            losses: on_loss.len(),
            passes: on_pass.len(),
            mean_on_loss: mean(on_loss),
            median_on_loss: median_of(on_loss),
            mean_on_pass: mean(on_pass),
            median_on_pass: median_of(on_pass),
        })
    }

    /// Follows the bucket, and notes its fill at every loss and pass. Returns in how many slices
    /// of a round trip there were losses.
    fn follow(&mut self, sent: &[Sent], rtt_ms: f64) -> usize {
        let (lost, rate) = (self.counting.lost, self.rate);
        let Memory {
            on_loss, on_pass, ..
        } = &mut *self.memory;
        on_loss.clear();
        on_pass.clear();
        let start = sent[0].at;
        let mut used = 0.0;
        let mut slices = 1;
        let mut slice_end = rtt_ms / 1e3;
        for sent in sent {
            let now = seconds(start, sent.at);
            let tokens = rate * now / 8.0 - used;
            if lost(sent) {
                on_loss.push(tokens);
                if now > slice_end {
                    slice_end = now + rtt_ms / 1e3;
                    slices += 1;
                }
            } else {
                on_pass.push(tokens);
                used += f64::from(sent.len);
            }
        }
        slices
    }

    /// Of the losses that were followed, those at a fill of which something is true.
    pub fn losses_where(&mut self, is_so: impl Fn(f64) -> bool) -> Part {
        self.fills();
        Part::of(&self.memory.on_loss, is_so)
    }

    /// Of the passes that were followed, those at a fill of which something is true.
    pub fn passes_where(&mut self, is_so: impl Fn(f64) -> bool) -> Part {
        self.fills();
        Part::of(&self.memory.on_pass, is_so)
    }

    /// The losses that were followed.
    pub fn followed(&self) -> Range<usize> {
        let end = if self.counting.to_the_end {
            self.transfer.sent.len()
        } else {
            self.last + 1
        };
        self.first..end
    }

    /// How many of the losses in the range followed a grown round-trip time, and of how many.
    ///
    /// A sample counts if no loss was pending that could have delayed it: if it was sent after
    /// the acknowledgement of every packet that was retransmitted before.
    pub fn inflated(&self, range: Range<usize>) -> Part {
        let sent = self.transfer.sent;
        let rtt_ms = self.counting.rtt_ms;
        let mut order = Order::of(sent.iter().filter_map(rtt_ms).collect());
        let (mut latest, mut before) = (None, None);
        let mut pending: Nanos = 0;
        let (mut inflated, mut losses) = (0, 0);
        for (i, sent) in sent[..range.end].iter().enumerate() {
            if sent.repeated != 0 {
                pending = pending.max(sent.acked_at);
            } else if let Some(ms) = rtt_ms(sent)
                && sent.at >= pending
            {
                order.add(ms);
                before = latest.replace(ms);
            }
            if i < range.start || !self.is_lost(sent) {
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
        Part {
            part: inflated,
            whole: losses,
        }
    }

    fn is_lost(&self, sent: &Sent) -> bool {
        (self.counting.lost)(sent)
    }
}

impl Part {
    fn of(fills: &[f64], is_so: impl Fn(f64) -> bool) -> Self {
        Self {
            part: fills.iter().filter(|&&fill| is_so(fill)).count(),
            whole: fills.len(),
        }
    }
}

/// The goodput from the first packet to the last, both lost, in bit/s.
fn rate(counting: &Counting, sent: &[Sent]) -> f64 {
    let passed: u64 = sent
        .iter()
        .filter(|sent| !(counting.lost)(sent))
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

fn seconds(from: Nanos, to: Nanos) -> f64 {
    to.wrapping_sub(from) as i64 as f64 / 1e9
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
