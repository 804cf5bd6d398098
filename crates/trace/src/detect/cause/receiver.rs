//! A capture at the receiver, or elsewhere behind the losses. What comes there has passed the limiter, and unless the sender's clock
//! tells it (`stamps.rs`), when a packet that was lost would have come is a guess between its neighbours. In a train that comes as fast as the line allows, that guess
//! makes every loss look like an excess over the line's rate. So times are blurred over such a train.
//!
//! A policer still shows: losses follow the most that its bucket can hold, and trains come faster than its
//! rate. What comes out of a queue never does.

use super::arrival::Arrival;
use super::limiter::Losses;
use super::stamps::Waited;
use crate::detect::Cause;
use crate::read::Nanos;

/// Packets between the first and the last of a train.
const PACKETS: usize = 8;
/// The share of trains that is as fast as the line, or nearly.
const FASTEST: usize = 10;
/// Nats that losses must tell of a policer. In the lab's tuned half, other causes came to 15 without a queue
/// that contradicts them (`studies/verdict`).
const GAIN: f64 = 25.0;
/// Trains come faster than the policer's rate by this factor, and earlier than at that rate by this many
/// times the path's noise.
const FASTER: f64 = 1.25;
const NOISY: f64 = 3.0;

/// How a capture shows when packets came to what lost some.
#[derive(Debug, Clone, Copy)]
pub(super) enum Seen {
    /// It was taken before that.
    Directly,
    /// By the sender's clock, in a capture behind it; and what packets waited.
    ByStamps(Waited),
    /// Only by when packets came to a capture behind it.
    Behind {
        /// Their fastest trains.
        trains: Option<Trains>,
        /// Whether they came faster at first.
        slowed: bool,
    },
}

/// Confidences at the sender, and those of the same verdicts at the receiver where they are lower there: by the sender's clock,
/// and without it. Shares of right verdicts in the tuned half of the lab's transfers, rounded down (studies/verdict).
const LOWER: [(Cause, f64, f64, f64); 6] = [
    (Cause::Policer, 0.98, 0.95, 0.9),
    (Cause::Queue, 0.97, 0.8, 0.8),
    (Cause::Queue, 0.9, 0.9, 0.8),
    (Cause::RandomLoss, 0.9, 0.65, 0.7),
    (Cause::Application, 0.95, 0.85, 0.9),
    (Cause::Sender, 0.9, 0.9, 0.8),
];

impl Seen {
    /// Where it is not known where the capture was taken.
    pub const UNKNOWN: Self = Self::Behind {
        trains: None,
        slowed: false,
    };

    /// How often a verdict is right that has this confidence at the sender.
    pub fn confidence(self, cause: Cause, at_sender: f64) -> f64 {
        let lower = LOWER
            .iter()
            .find(|&&(of, before, ..)| of == cause && before == at_sender);
        match (self, lower) {
            (Self::ByStamps(_), Some(&(_, _, lower, _)))
            | (Self::Behind { .. }, Some(&(_, _, _, lower))) => lower,
            _ => at_sender,
        }
    }

    /// Whether it is a guess.
    pub fn is_guess(self) -> bool {
        matches!(self, Self::Behind { .. })
    }

    /// What packets waited, where the sender's clock tells that.
    pub fn waited(self) -> Option<Waited> {
        match self {
            Self::ByStamps(waited) => Some(waited),
            _ => None,
        }
    }

    /// Whether a bucket with unseen users predicts losses too little better than chance to be a policer's.
    pub fn doubts(self, losses: Option<&Losses>) -> bool {
        let limiter = losses.and_then(|losses| losses.limiter);
        let doubtful = limiter.is_some_and(|limiter| limiter.unseen_users && limiter.gain < GAIN);
        matches!(self, Self::ByStamps(_)) && doubtful
    }

    /// Whether losses that follow a bucket are a policer's, though it is.
    pub fn shows_policer(self, losses: Option<&Losses>) -> bool {
        match self {
            Self::Behind {
                trains: Some(trains),
                ..
            } => losses.is_some_and(|losses| trains.show_policer(losses)),
            _ => false,
        }
    }
}

/// Parts of a transfer's packets whose times are compared, and the share of the median part's time that the fastest one in the
/// first half takes where packets came faster at first.
const EIGHTHS: usize = 8;
const SLOWED: f64 = 0.6;

/// Whether packets, in the order of their times, came faster at first than later, as behind a shaper that lets a burst pass. What a
/// queue delivers never comes faster than its rate.
pub(super) fn slowed(arrivals: &[Arrival]) -> bool {
    let times: Vec<Nanos> = arrivals
        .iter()
        .filter(|arrival| !arrival.lost)
        .map(|arrival| arrival.at)
        .collect();
    let part = times.len() / EIGHTHS;
    if part < PACKETS {
        return false;
    }
    let took = |i: usize| times[(i + 1) * part - 1].saturating_sub(times[i * part]);
    let mut all: Vec<Nanos> = (0..EIGHTHS).map(took).collect();
    let fastest = all[..EIGHTHS / 2].iter().copied().min().unwrap_or(0);
    let median = *all.select_nth_unstable(EIGHTHS / 2).1;
    (fastest as f64) < SLOWED * median as f64
}

/// How fast packets come that nothing held up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trains {
    time: Nanos,
    bytes: f64,
}

impl Trains {
    /// The fastest trains of a transfer's packets, in the order of their times.
    pub fn of(arrivals: &[Arrival]) -> Option<Self> {
        let whole = arrivals.windows(PACKETS + 1);
        let whole = whole.filter(|train| train.iter().all(|arrival| !arrival.lost));
        let mut times: Vec<Nanos> = whole
            .map(|train| train[PACKETS].at.saturating_sub(train[0].at))
            .collect();
        let fastest = times.len() / FASTEST;
        let weight = arrivals.iter().map(|arrival| f64::from(arrival.weight));
        (!times.is_empty()).then(|| Self {
            time: *times.select_nth_unstable(fastest).1,
            bytes: weight.sum::<f64>() / arrivals.len() as f64 * PACKETS as f64,
        })
    }

    /// Blurs times over the fastest trains.
    pub fn blur(self, arrivals: &mut [Arrival]) {
        for arrival in arrivals {
            arrival.at -= arrival.at % self.time.max(1);
        }
    }

    /// Whether losses that follow a bucket are a policer's.
    fn show_policer(self, losses: &Losses) -> bool {
        let Some(limiter) = losses.limiter.filter(|limiter| limiter.unseen_users) else {
            return false;
        };
        let noise = losses.delay.map_or(0.0, |delay| delay.noise);
        let time = self.time as f64 / 1e9;
        let at_rate = self.bytes / limiter.bucket.rate;
        limiter.gain >= GAIN && at_rate >= FASTER * time && at_rate - time >= NOISY * noise
    }
}
