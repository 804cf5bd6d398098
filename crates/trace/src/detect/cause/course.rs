//! How a transfer went: which share of its time the endpoints held it back.

use super::stamps::Waited;
use crate::annotate::TransferSummary;
use crate::read::Nanos;

/// Segments that a sender may send before the first acknowledgement (RFC 6928).
const INITIAL_WINDOW: f64 = 10.0;
/// A queue stands where the median round-trip time exceeds the path's by this, in seconds, …
const STANDING: f64 = 0.001_5;
/// … and by this share of the path's.
const STANDING_SHARE: f64 = 0.05;
/// Below this, in seconds, median and least hardly differ.
const HARDLY: f64 = 0.000_3;
/// A queue that others fill too delays by this, in seconds, and by this share of the path's time.
const CROWDED: f64 = 0.005;
const CROWDED_SHARE: f64 = 0.2;
/// Packets that arrive as fast as the transfer goes on average, within this factor, left a bottleneck.
const SATURATED: f64 = 1.6;
/// Within this factor the bottleneck was busy nearly all the time.
const BUSY: f64 = 1.15;
/// Trains of packets that such a capacity rests on.
const TRAINS: usize = 8;

/// A second, in nanoseconds.
const SECOND: Nanos = 1_000_000_000;

/// Whether nothing can be said, since all packets have the same time, or times are whole seconds.
pub(super) fn is_timeless(summary: &TransferSummary) -> bool {
    let metrics = &summary.metrics;
    let whole = |time: Nanos| time.is_multiple_of(SECOND);
    let untimed = whole(metrics.first_sent) && whole(metrics.duration);
    metrics.data_packets > 1 && (metrics.duration == 0 || untimed)
}

/// Time in which the sender's packets say that it was held back, and not by the network.
#[derive(Debug, Clone, Copy, Default)]
pub struct Held {
    /// One loss was repaired a round trip.
    pub repairing: Nanos,
    /// The application had written nothing more.
    pub starved: Nanos,
}

/// Shares of a transfer's time, and what is known of the path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Course {
    /// The transfer's duration in seconds.
    pub duration: f64,
    /// Round trips that it took, of the median length.
    pub rounds: f64,
    /// The share of time in which the application had nothing to send.
    pub idle: f64,
    /// The share in which the receive window left no room.
    pub window: f64,
    /// The share in which the window could still double each round trip.
    pub doubling: f64,
    /// The share in which the application had written nothing more, though data may have been in flight.
    pub starved: f64,
    /// The share in which one loss was repaired a round trip.
    pub repairing: f64,
    /// The path's round-trip time in seconds.
    pub base: f64,
    /// By how much the median round-trip time exceeds it, in seconds.
    pub waiting: f64,
    /// Whether packets waited before a bottleneck.
    pub queued: bool,
    /// Whether that bottleneck was busy nearly all the time: then a receive window that is full is full of what waits
    /// there, and a larger one would make the transfer no faster.
    pub busy: bool,
    /// Whether they may have waited there, though too short to be sure.
    pub might_be_queued: bool,
}

impl Course {
    /// The course of a transfer over a path with this round-trip time in seconds, and what packets waited there, if the
    /// sender's clock tells that. `None` where no round-trip time is known.
    pub(super) fn of(
        summary: &TransferSummary,
        base: Option<f64>,
        held: Held,
        waited: Option<Waited>,
    ) -> Option<Self> {
        let metrics = &summary.metrics;
        let rtt = metrics.rtt?;
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let least = seconds(rtt.min);
        // A capture between the ends sees both parts of the round trip.
        let there = metrics.rtt_to_sender.zip(summary.path.to_sender);
        let [median_there, least_there] =
            there.map_or([0.0; 2], |(median, least)| [median, least].map(seconds));
        let median = (seconds(rtt.median) + median_there).max(1e-6);
        let duration = seconds(metrics.duration).max(1e-6);
        let base = base.map_or(least, |base| base.min(least)) + least_there;
        let rounds = duration / median;
        let waiting = waited.map_or(median - base, |waited| waited.median);
        let capacity = metrics.train_rate.zip(metrics.goodput_bps());
        let within = |factor: f64| {
            capacity.is_some_and(|(capacity, goodput)| {
                capacity.trains >= TRAINS && capacity.bps < factor * goodput
            })
        };
        let saturated = within(SATURATED);
        let share = |nanos: u64| (seconds(nanos) / duration).min(1.0);
        let crowded = CROWDED.max(CROWDED_SHARE * base);
        // What passed before the capture is in the time that the sender took to answer, with what it waited itself.
        let behind = seconds(rtt.median) - least;
        let stands = waiting >= STANDING.max(STANDING_SHARE * base);
        Some(Self {
            duration,
            rounds,
            idle: share(summary.tally.idle),
            window: share(summary.tally.window_limited),
            doubling: (doublings(summary) / rounds).min(1.0),
            starved: share(held.starved),
            repairing: share(held.repairing),
            base,
            waiting,
            // A queue in which nearly all packets waited was never empty.
            busy: stands && (within(BUSY) || waited.is_some_and(|waited| waited.lower >= STANDING)),
            queued: saturated && stands
                || waiting >= crowded && (there.is_none() || waited.is_some() || behind >= crowded),
            might_be_queued: match waited {
                // Not even the clock of a sender shows a queue of less than its tick.
                Some(waited) => saturated || waited.upper >= HARDLY,
                None => saturated && waiting >= HARDLY || waiting >= crowded,
            },
        })
    }
}

impl Course {
    /// The share of time in which the application had nothing to send. That in which it had written nothing more counts
    /// from `least` on: a small send buffer runs empty, too, before the application can write again.
    pub(super) fn idle_or_starved(&self, least: f64) -> f64 {
        let starved = if self.starved >= least {
            self.starved
        } else {
            0.0
        };
        self.idle.max(starved)
    }
}

/// Round trips in which the window doubled from the initial one to the most that was in flight,
/// with the one in which the last acknowledgement came back. Where data of the segment before was still in flight,
/// the window had grown before.
fn doublings(summary: &TransferSummary) -> f64 {
    let initial = INITIAL_WINDOW * f64::from(summary.mss.max(1));
    let most = f64::from(summary.metrics.max_in_flight);
    match f64::from(summary.under_way) {
        0.0 => (most / initial).max(1.0).log2() + 1.0,
        before => (most / initial.max(before)).max(1.0).log2(),
    }
}
