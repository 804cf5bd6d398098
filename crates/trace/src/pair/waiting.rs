//! The queue that explains best how much longer packets took than the quickest.
//!
//! A queue of one rate makes a packet wait until all before it have left (Lindley's recursion). If
//! such a rate explains the transit times, packets wait behind each other there: at a link, or in a
//! shaper. A shaper lets some bytes pass at once, as a token bucket has it; a link none. A policer delays
//! nothing, so a queue of its rate does not fit.

use super::passage::Passage;
use crate::detect::cause::Bucket;

/// A queue that packets wait in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Waiting {
    /// Bytes on the link a second that leave it.
    pub rate: f64,
    /// Bytes that pass without waiting when it was empty for long: a shaper's bucket; 0 for a link.
    pub at_once: f64,
    /// The most bytes that stood in it, as the model has it, the packet that leaves included.
    pub backlog: f64,
    /// The share of the variation of transit times that it removes, 1 at best: by absolute differences.
    pub explained: f64,
    /// Whether packets that are lost between the places stand in it too: then they are lost behind it.
    pub before_losses: bool,
}

/// The queue that delays is the one that drops if their rates differ by less than this.
const SAME_RATE: f64 = 0.1;

impl Waiting {
    /// Whether it has the rate of a bucket that explains losses: then both are one queue.
    pub(crate) fn has_rate(&self, bucket: &Bucket) -> bool {
        (self.rate / bucket.rate).ln().abs() < SAME_RATE
    }
}

/// Rates that are tried: from a fraction of the mean rate on, each a step above the one before.
const LEAST_RATE: f64 = 0.3;
const MOST_RATE: f64 = 1e11 / 8.0;
const STEP: f64 = 1.08;
/// Halvings of the step around the best: the backlog of a queue that is never empty adds up what a rate
/// is wrong by.
const HALVINGS: usize = 18;
/// With fewer packets nothing is fitted.
const LEAST_PACKETS: usize = 20;

/// Full packets that a shaper may let pass at once.
const AT_ONCE: [f64; 4] = [0.0, 1.0, 2.0, 10.0];

/// A queue as a model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Model {
    /// Bytes a second.
    rate: f64,
    at_once: f64,
    /// Whether packets that are lost stand in it too, or only would.
    lost_too: bool,
}

impl Model {
    /// The same, with packets that are lost behind it.
    pub(crate) fn with_losses(self) -> Self {
        Self {
            lost_too: true,
            ..self
        }
    }
}

impl Waiting {
    /// Its model.
    pub(crate) fn model(&self) -> Model {
        Model {
            rate: self.rate,
            at_once: self.at_once,
            lost_too: self.before_losses,
        }
    }
}

/// What a queue does with a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stay {
    /// Nanoseconds from its arrival until it has left.
    pub time: f64,
    /// Bytes in the queue with it.
    pub backlog: f64,
}

/// What a queue does with packets in the order of their times.
pub(crate) fn stays(passages: &[Passage], model: Model) -> impl Iterator<Item = Stay> {
    let Model {
        rate,
        at_once,
        lost_too,
    } = model;
    let per_byte = 1e9 / rate;
    let mut taken = 0.0f64;
    let mut last = passages.first().map_or(0, |passage| passage.at);
    passages.iter().map(move |passage| {
        let gap = passage.at.saturating_sub(last) as f64;
        last = last.max(passage.at);
        taken = (taken - gap / per_byte).max(0.0);
        let with_it = taken + f64::from(passage.link_bytes);
        if lost_too || !passage.lost() {
            taken = with_it;
        }
        let backlog = (with_it - at_once).max(0.0);
        Stay {
            time: backlog * per_byte,
            backlog,
        }
    })
}

/// How much longer than the quickest packet that passed each one stays in a queue, in nanoseconds.
pub(crate) fn modelled(passages: &[Passage], model: Model) -> Vec<f64> {
    let mut times: Vec<f64> = stays(passages, model).map(|stay| stay.time).collect();
    let passed = passages.iter().zip(&times);
    // The quickest packet had to be sent too.
    let shortest = passed
        .filter(|(passage, _)| passage.passed())
        .map(|(_, &time)| time)
        .fold(f64::INFINITY, f64::min);
    times.iter_mut().for_each(|time| *time -= shortest);
    times
}

/// Fits a queue to how much longer than `least` (nanoseconds) packets took. `None` with too few.
pub(crate) fn fit(passages: &[Passage], least: f64) -> Option<Waiting> {
    let mut excess: Vec<f64> = passages
        .iter()
        .filter_map(|passage| Some(passage.transit()? - least))
        .collect();
    if excess.len() < LEAST_PACKETS {
        return None;
    }
    excess.sort_by(f64::total_cmp);
    let median = excess[excess.len() / 2];
    let base: f64 = excess.iter().map(|excess| (excess - median).abs()).sum();
    if base <= 0.0 {
        return None;
    }
    let any_lost = passages.iter().any(Passage::lost);
    let full = passages.iter().map(|p| p.link_bytes).max().unwrap_or(0);
    let before = [false, true].into_iter().filter(|&too| any_lost || !too);
    let kinds = before.flat_map(|lost_too| {
        AT_ONCE.map(|packets| Model {
            rate: 0.0,
            at_once: packets * f64::from(full),
            lost_too,
        })
    });
    let found = kinds.filter_map(|kind| {
        let cost = |rate: f64| cost(passages, least, Model { rate, ..kind });
        let (rate, cost) = search(slowest(passages), cost)?;
        Some((Model { rate, ..kind }, cost))
    });
    let (model, cost) = found.min_by(|x, y| x.1.total_cmp(&y.1))?;
    let passed = stays(passages, model).zip(passages);
    let backlog = passed
        .filter(|(_, passage)| passage.passed())
        .map(|(stay, _)| stay.backlog)
        .fold(0.0, f64::max);
    Some(Waiting {
        rate: model.rate,
        at_once: model.at_once,
        backlog,
        explained: 1.0 - cost / base,
        before_losses: model.lost_too && any_lost,
    })
}

/// A fraction of the mean rate, in bytes a second.
fn slowest(passages: &[Passage]) -> f64 {
    let bytes: f64 = passages.iter().map(|p| f64::from(p.link_bytes)).sum();
    let first = passages.first().map_or(0, |p| p.at);
    let last = passages.last().map_or(0, |p| p.at);
    let seconds = (last.saturating_sub(first) as f64 / 1e9).max(1e-3);
    (bytes / seconds * LEAST_RATE).max(1.0)
}

/// The rate of least cost, and that.
fn search(from: f64, cost: impl Fn(f64) -> f64) -> Option<(f64, f64)> {
    let mut rates = Vec::new();
    let mut rate = from;
    while rate < MOST_RATE {
        rates.push((rate, cost(rate)));
        rate *= STEP;
    }
    let mut best = rates.into_iter().min_by(|x, y| x.1.total_cmp(&y.1))?;
    let mut step = STEP.ln();
    for _ in 0..HALVINGS {
        step /= 2.0;
        for rate in [best.0 * (-step).exp(), best.0 * step.exp()] {
            let cost = cost(rate);
            if cost < best.1 {
                best = (rate, cost);
            }
        }
    }
    Some(best)
}

/// By how many nanoseconds the model misses the packets' times, all together.
fn cost(passages: &[Passage], least: f64, model: Model) -> f64 {
    let passed = modelled(passages, model).into_iter().zip(passages);
    passed
        .filter_map(|(time, passage)| Some((passage.transit()? - least - time).abs()))
        .sum()
}
