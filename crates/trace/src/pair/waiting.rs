//! The queue that explains best how much longer packets took than the quickest.
//!
//! A queue of one rate makes a packet wait until all before it have left (Lindley's recursion). If
//! such a rate explains the transit times, packets wait behind each other there: at a link, or in a
//! shaper. A policer delays nothing, so a queue of its rate does not fit.

use super::passage::{Fate, Passage};

/// A queue that packets wait in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Waiting {
    /// Bytes on the link a second that leave it.
    pub rate: f64,
    /// The most bytes that stood in it, as the model has it, the packet that leaves included.
    pub backlog: f64,
    /// The share of the variation of transit times that it removes, 1 at best: by absolute differences.
    pub explained: f64,
    /// Whether packets that are lost between the places stand in it too: then they are lost behind it.
    pub before_losses: bool,
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

/// What a queue does with a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stay {
    /// Nanoseconds from its arrival until it has left.
    pub time: f64,
    /// Bytes in the queue with it.
    pub backlog: f64,
}

/// What a queue of a rate (bytes a second) does with packets in the order of their times. Packets that
/// are lost stand in it too, or only would.
pub(crate) fn stays(passages: &[Passage], rate: f64, lost_too: bool) -> impl Iterator<Item = Stay> {
    let per_byte = 1e9 / rate;
    let mut backlog = 0.0f64;
    let mut last = passages.first().map_or(0, |passage| passage.at);
    passages.iter().map(move |passage| {
        let gap = passage.at.saturating_sub(last) as f64;
        last = last.max(passage.at);
        backlog = (backlog - gap / per_byte).max(0.0);
        let with_it = backlog + f64::from(passage.link_bytes);
        if lost_too || !passage.lost() {
            backlog = with_it;
        }
        Stay {
            time: with_it * per_byte,
            backlog: with_it,
        }
    })
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
    let found = [false, true].into_iter().filter(|&too| any_lost || !too);
    let found = found.filter_map(|lost_too| {
        let cost = |rate: f64| cost(passages, least, rate, lost_too);
        let (rate, cost) = search(slowest(passages), cost)?;
        Some((rate, cost, lost_too))
    });
    let (rate, cost, before_losses) = found.min_by(|x, y| x.1.total_cmp(&y.1))?;
    let passed = stays(passages, rate, before_losses).zip(passages);
    let backlog = passed
        .filter(|(_, passage)| matches!(passage.fate, Fate::Passed(_)))
        .map(|(stay, _)| stay.backlog)
        .fold(0.0, f64::max);
    Some(Waiting {
        rate,
        backlog,
        explained: 1.0 - cost / base,
        before_losses: before_losses && any_lost,
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
fn cost(passages: &[Passage], least: f64, rate: f64, lost_too: bool) -> f64 {
    // The quickest packet had to be sent too.
    let mut shortest = f64::INFINITY;
    for (stay, passage) in stays(passages, rate, lost_too).zip(passages) {
        if passage.transit().is_some() {
            shortest = shortest.min(stay.time);
        }
    }
    stays(passages, rate, lost_too)
        .zip(passages)
        .filter_map(|(stay, passage)| {
            let excess = passage.transit()? - least;
            Some((excess - (stay.time - shortest)).abs())
        })
        .sum()
}
