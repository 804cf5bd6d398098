//! The limiter that a verdict rests on, replayed over the packets: its level, and the delay of its queue.

use std::collections::BTreeMap;

use tidegate_trace::annotate::TransferId;
use tidegate_trace::detect::Basis;
use tidegate_trace::detect::cause::{Arrival, Limiter, Mechanism};
use tidegate_trace::read::Nanos;

use crate::account::{Account, Kept};

/// What a packet met.
#[derive(Debug, Clone, Copy)]
pub struct Met {
    /// When it was sent.
    pub at: Nanos,
    /// Bytes that the bucket held, or that were free in the queue.
    pub level: f64,
    /// Seconds that a queue of this size would have delayed it.
    pub delay: f64,
    /// Whether the network lost it.
    pub lost: bool,
}

/// A fitted limiter over the packets of one flow.
pub struct Model {
    /// What was fitted.
    pub limiter: Limiter,
    /// What the packets of each of the flow's transfers met, in the order of their times.
    met: BTreeMap<TransferId, Vec<Met>>,
}

/// Whether the limiter can be replayed.
pub enum Replay {
    /// No limiter explains the transfer.
    NoLimiter,
    /// Not from this capture, for this reason.
    Impossible(&'static str),
    /// The limiter, and what the packets met.
    Done(Model),
}

impl Model {
    /// Replays the limiter of the transfer that is explained.
    pub fn of(account: &Account) -> Replay {
        let kept = account.chosen();
        let Some(limiter) = limiter(kept) else {
            return Replay::NoLimiter;
        };
        if limiter.unseen_users {
            return Replay::Impossible(
                "The level of the policer's bucket is not known: traffic that does not go to this client takes from it too.",
            );
        }
        let chosen = kept.transfer.id;
        let arrivals = account.together.with(chosen, |id| match limiter.basis {
            Basis::Client => true,
            Basis::Connection => id.flow == chosen.flow,
            Basis::Segment => id == chosen,
        });
        let Some(arrivals) = arrivals else {
            return Replay::Impossible(
                "The limiter's level is not shown: it depends on all packets that went to the client, and these are too many.",
            );
        };
        let mut met: BTreeMap<TransferId, Vec<Met>> = BTreeMap::new();
        let levels = limiter
            .bucket
            .levels(arrivals.iter().map(|(_, arrival)| arrival));
        for (level, (id, arrival)) in levels.zip(&arrivals) {
            if id.flow == chosen.flow {
                met.entry(*id).or_default().push(Met {
                    at: arrival.at,
                    level,
                    delay: delay(&limiter, level, arrival),
                    lost: arrival.lost,
                });
            }
        }
        Replay::Done(Self { limiter, met })
    }

    /// What the packets of these transfers met.
    pub fn met<'a>(&'a self, transfers: &'a [Kept]) -> impl Iterator<Item = Met> + 'a {
        transfers
            .iter()
            .filter_map(|kept| self.met.get(&kept.transfer.id))
            .flatten()
            .copied()
    }
}

fn limiter(kept: &Kept) -> Option<Limiter> {
    kept.findings()?.losses?.limiter
}

/// Seconds that a packet waits in the limiter's queue, or would wait if it had one.
fn delay(limiter: &Limiter, level: f64, arrival: &Arrival) -> f64 {
    let bucket = limiter.bucket;
    let queue = match limiter.mechanism {
        // Only the part that is not for bursts delays.
        Mechanism::BurstShaper => limiter.filled * bucket.depth,
        _ => bucket.depth,
    };
    ((queue - level + f64::from(arrival.weight)) / bucket.rate).max(0.0)
}
