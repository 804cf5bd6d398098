//! Packets that are explained together: those of a transfer, a connection or a client.

use std::cell::OnceCell;
use std::collections::HashMap;

use super::arrival::Arrival;
use super::chance;
use super::fit::{Fit, fit_bucket};
use super::interval::{Doubt, Interval, intervals};
use crate::read::Nanos;

#[cfg(test)]
mod tests;

/// Longer scopes are fitted on the part of this many packets that has the most losses. The bucket is
/// then replayed over all of them.
const WINDOW: usize = 1 << 16;

/// A client's bucket is certain if it removes this share of the uncertainty about all losses, and is likelier than
/// bursts of chance by these nats.
const EXPLAINED: f64 = 0.6;
const LIKELIER: f64 = 100.0;
/// A rate that may be this many bytes a second, and whose interval ends at more than this many times its beginning, is not known: times are not exact
/// enough for few bursts that hardly differ to tell a fast shallow bucket from a slow deep one.
const FAST: f64 = 6e6;
const MOST_UNCERTAIN: f64 = 3.0;
/// A capture shows a burst as the sender hands it over, often as a few large packets. Lines on the way spread it, and a fast limiter
/// gains meanwhile. Which line is not known: these, in bytes a second, are tried.
const LINES: [f64; 3] = [3.125e9, 1.25e9, 0.625e9];
/// A full packet in bytes.
const PACKET: f64 = 1_518.0;

/// Packets that may share a bucket, in the order of their times, and the bucket that fits them best.
#[derive(Debug)]
pub(super) struct Scope {
    pub arrivals: Vec<Arrival>,
    pub fit: Option<Fit>,
    /// Episodes of losses.
    pub episodes: usize,
    /// Whether several connections have a part in it.
    pub is_shared: bool,
    /// Whether it has all that went to the client.
    all_seen: bool,
    /// The level that each packet meets in the fitted bucket.
    levels: Vec<f64>,
    /// Where the packets of each transfer are.
    places: HashMap<u32, Vec<u32>>,
    intervals: OnceCell<Option<(Interval, Option<Interval>)>>,
    certain: OnceCell<bool>,
}

impl Scope {
    /// Fits a bucket that starts at the likeliest of some shares of its depth. Losses at least
    /// `apart` from each other are separate episodes.
    pub fn new(arrivals: Vec<Arrival>, starts: &[f64], apart: Nanos) -> Self {
        let part = densest(&arrivals);
        let fit = fit_bucket(part, starts);
        let levels = fit.map_or_else(Vec::new, |fit| fit.bucket.levels(arrivals.iter()).collect());
        let mut places: HashMap<u32, Vec<u32>> = HashMap::new();
        let mut next = 0;
        for run in arrivals.chunk_by(|a, b| a.transfer == b.transfer) {
            let run = next..next + run.len() as u32;
            next = run.end;
            let transfer = arrivals[run.start as usize].transfer;
            places.entry(transfer).or_default().extend(run);
        }
        Self {
            fit,
            episodes: episodes(&arrivals, apart),
            is_shared: false,
            all_seen: false,
            levels,
            places,
            intervals: OnceCell::new(),
            certain: OnceCell::new(),
            arrivals,
        }
    }

    /// The same, of all that went to a client, when the number of each transfer's flow is known: whether another
    /// flow than that with the most packets has at least one in twenty.
    pub fn used_by(mut self, flows: &[u64]) -> Self {
        let mut packets: HashMap<u64, usize> = HashMap::new();
        for (&transfer, places) in &self.places {
            *packets.entry(flows[transfer as usize]).or_default() += places.len();
        }
        let most = packets.values().copied().max().unwrap_or(0);
        self.all_seen = true;
        self.is_shared = (self.arrivals.len() - most) * 20 > self.arrivals.len();
        self
    }

    /// The packets of a transfer with the levels that they meet.
    pub fn of(&self, transfer: u32) -> impl Iterator<Item = (f64, &Arrival)> {
        let places = self.places.get(&transfer).map_or(&[][..], Vec::as_slice);
        places
            .iter()
            .map(|&i| (self.levels[i as usize], &self.arrivals[i as usize]))
    }

    /// All packets with the levels that they meet.
    pub fn arrivals_and_levels(&self) -> impl Iterator<Item = (f64, &Arrival)> {
        self.levels.iter().copied().zip(&self.arrivals)
    }

    /// Whether the bucket explains so much of all that went to a client that one transfer's losses need not prove
    /// it again.
    pub fn is_certain(&self) -> bool {
        *self.certain.get_or_init(|| {
            let part = densest(&self.arrivals);
            let lost = part.iter().filter(|arrival| arrival.lost).count();
            self.all_seen
                && self.fit.is_some_and(|fit| {
                    fit.log_likelihood >= (1.0 - EXPLAINED) * chance::uniform(lost, part.len())
                        && fit.log_likelihood >= LIKELIER + chance::bursty(part.iter())
                })
        })
    }

    /// The intervals of the fitted bucket's rate (bytes a second) and depth (bytes), as far as they have ends. Where
    /// others may use the bucket unseen, both must have both.
    pub fn intervals(&self) -> Option<(Interval, Option<Interval>)> {
        *self.intervals.get_or_init(|| {
            let fit = self.fit?;
            let doubt = Doubt::of(fit.bucket.rate, self.episodes, self.all_seen);
            let part = densest(&self.arrivals);
            let (mut rate, mut depth) = intervals(part, &fit, doubt);
            let ends = if self.all_seen { 1 } else { 2 };
            let is_known = |interval: &Interval| interval.ends >= ends;
            let is_narrow =
                |rate: &Interval| rate.high < FAST || rate.high <= MOST_UNCERTAIN * rate.low;
            if rate.high >= FAST && is_known(&rate) && is_narrow(&rate) {
                for line in LINES {
                    let Some((spread, other)) = behind_line(part, &fit, line) else {
                        continue;
                    };
                    if doubt.allows(&other, &fit) {
                        let (other_rate, other_depth) = intervals(&spread, &other, doubt);
                        rate = rate.with(other_rate);
                        depth = depth.with(other_depth);
                    }
                }
            }
            (is_known(&rate) && is_narrow(&rate)).then_some((rate, Some(depth).filter(is_known)))
        })
    }
}

/// Packets as they leave a line that sends this many bytes a second, and the bucket that fits them best. `None` where the line
/// spreads no burst so far that the given bucket would gain a packet by it.
fn behind_line(arrivals: &[Arrival], fit: &Fit, line: f64) -> Option<(Vec<Arrival>, Fit)> {
    let mut free = 0;
    let mut latest = 0;
    let spread: Vec<Arrival> = arrivals
        .iter()
        .map(|&arrival| {
            let at = arrival.at.max(free);
            free = at.saturating_add((f64::from(arrival.weight) / line * 1e9) as Nanos);
            latest = latest.max(at - arrival.at);
            Arrival { at, ..arrival }
        })
        .collect();
    if latest as f64 / 1e9 * fit.bucket.rate < PACKET {
        return None;
    }
    let other = fit_bucket(&spread, &[fit.bucket.start])?;
    Some((spread, other))
}

/// The part of [`WINDOW`] packets that has the most losses, in steps of half of it.
fn densest(arrivals: &[Arrival]) -> &[Arrival] {
    let starts = (0..arrivals.len()).step_by(WINDOW / 2);
    let parts = starts.map(|start| &arrivals[start..(start + WINDOW).min(arrivals.len())]);
    let losses = |part: &&[Arrival]| part.iter().filter(|arrival| arrival.lost).count();
    // Of equals the first: there the bucket is full.
    parts.rev().max_by_key(losses).unwrap_or(arrivals)
}

/// Episodes of losses: losses at most `apart` after the one before belong together.
pub fn episodes(arrivals: &[Arrival], apart: Nanos) -> usize {
    let mut last: Option<Nanos> = None;
    let mut count = 0;
    for loss in arrivals.iter().filter(|arrival| arrival.lost) {
        count += usize::from(last.is_none_or(|last| loss.at.saturating_sub(last) > apart));
        last = Some(loss.at);
    }
    count
}
