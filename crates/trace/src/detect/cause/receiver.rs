//! A capture at the receiver, or elsewhere behind the losses. What comes there has passed the limiter, and when a packet that was lost would
//! have come is a guess between its neighbours. In a train that comes as fast as the line allows, that guess
//! makes every loss look like an excess over the line's rate. So times are blurred over such a train.
//!
//! A policer still shows: losses follow the most that its bucket can hold, and trains come faster than its
//! rate. What comes out of a queue never does.

use super::arrival::Arrival;
use super::limiter::Losses;
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
    pub fn show_policer(self, losses: &Losses) -> bool {
        let Some(limiter) = losses.limiter.filter(|limiter| limiter.unseen_users) else {
            return false;
        };
        let noise = losses.delay.map_or(0.0, |delay| delay.noise);
        let time = self.time as f64 / 1e9;
        let at_rate = self.bytes / limiter.bucket.rate;
        limiter.gain >= GAIN && at_rate >= FASTER * time && at_rate - time >= NOISY * noise
    }
}
