//! A transfer whose losses are to be explained, and what is known of them whatever the scope.

use std::cell::OnceCell;

use super::arrival::Arrival;
use super::chance;
use super::delay::Delay;
use super::scope::episodes;
use super::unseen::Unseen;
use crate::read::Nanos;

/// Delay at most losses and at the median loss, in seconds, with a policer whose other users are not
/// seen; or, on a path with jitter, these multiples of its noise.
const FLAT_UPPER: f64 = 0.005;
const FLAT_MEDIAN: f64 = 0.003;
const NOISY_UPPER: f64 = 3.0;
const NOISY_MEDIAN: f64 = 1.5;
/// Where packets beside the median loss have hardly waited, some may have, in seconds: receivers hold
/// acknowledgements back.
const HARDLY: f64 = 0.000_5;
const SOME_UPPER: f64 = 0.045;
/// Delay in seconds of the packet that waited least, and of the one that waited longest, beside most losses of a
/// queue; or, on a path with jitter, this multiple of its noise.
const WAITED: f64 = 0.001;
const WAITED_LONG: f64 = 0.003;
const NOISY_LONG: f64 = 3.3;
/// Fewer losses hold no evidence of unseen users.
const UNSEEN_LOSSES: usize = 10;

/// A transfer with losses.
#[derive(Debug)]
pub(super) struct Subject {
    pub number: u32,
    pub arrivals: Vec<Arrival>,
    pub losses: usize,
    pub episodes: usize,
    pub delay: Option<Delay>,
    /// The logarithm of the likelihood of its losses by chance alone.
    pub by_chance: f64,
    /// The same in a channel with memory.
    pub by_bursts: f64,
    unseen: OnceCell<Option<Unseen>>,
}

impl Subject {
    /// A transfer's packets, given the path's round-trip time in seconds.
    pub fn new(arrivals: Vec<Arrival>, base: Option<f64>, apart: Nanos) -> Self {
        let losses = arrivals.iter().filter(|arrival| arrival.lost).count();
        Self {
            number: arrivals.first().map_or(0, |arrival| arrival.transfer),
            losses,
            episodes: episodes(&arrivals, apart),
            delay: base.map(|base| Delay::of(&arrivals, base)),
            by_chance: chance::uniform(losses, arrivals.len()),
            by_bursts: chance::bursty(arrivals.iter()),
            unseen: OnceCell::new(),
            arrivals,
        }
    }

    /// The best bucket with users that are not seen. Costly, so found when it is first asked for.
    pub fn unseen(&self) -> Option<Unseen> {
        *self.unseen.get_or_init(|| {
            (self.losses >= UNSEEN_LOSSES)
                .then(|| Unseen::find(&self.arrivals))
                .flatten()
        })
    }

    /// Whether packets beside losses have hardly waited.
    pub fn is_flat(&self) -> bool {
        self.is_mostly_flat()
            && self
                .delay
                .and_then(|delay| delay.at_losses())
                .is_some_and(|median| median < FLAT_MEDIAN.max(NOISY_MEDIAN * self.noise()))
    }

    /// Whether packets waited beside three quarters of the losses: all of them a little, and some long. Where a
    /// queue of few packets drops, it has sent some of them before the next packet comes.
    pub fn waits_beside_losses(&self) -> bool {
        self.delay.and_then(|delay| delay.near).is_some_and(|near| {
            let noise = self.delay.map_or(0.0, |delay| delay.noise);
            near.lower > WAITED && near.peaks[0] > WAITED_LONG.max(NOISY_LONG * noise)
        })
    }

    /// Whether packets beside three quarters of the losses have not waited at all.
    pub fn is_exactly_flat(&self) -> bool {
        let near = self.delay.and_then(|delay| delay.near);
        near.is_some_and(|near| near.upper < HARDLY)
    }

    /// Whether packets beside the median loss have hardly waited.
    pub fn has_hardly_waited(&self) -> bool {
        let near = self.delay.and_then(|delay| delay.near);
        near.is_some_and(|near| near.median < HARDLY)
    }

    /// Whether packets beside three quarters of the losses have hardly waited.
    pub fn is_mostly_flat(&self) -> bool {
        let Some(delay) = self.delay else {
            return false;
        };
        let hardly = delay.at_losses().is_some_and(|median| median < HARDLY);
        let most = if hardly { SOME_UPPER } else { FLAT_UPPER };
        delay
            .at_most_losses()
            .is_some_and(|upper| upper < most.max(NOISY_UPPER * self.noise()))
            && !self.waits_beside_losses()
    }

    /// What the path adds to round-trip times at random, in seconds. A queue moves by a packet's
    /// time: no more than that is no noise.
    fn noise(&self) -> f64 {
        let at = |arrival: Option<&Arrival>| arrival.map_or(0, |arrival| arrival.at);
        let lasted = at(self.arrivals.last()).saturating_sub(at(self.arrivals.first()));
        let passed = (self.arrivals.len() - self.losses).max(1);
        let noise = self.delay.map_or(0.0, |delay| delay.noise);
        if noise < 2.0 * lasted as f64 / 1e9 / passed as f64 {
            return 0.0;
        }
        noise
    }

    /// The delay at the median loss as a share of the time that a full queue takes to drain.
    pub fn filled(&self, rate: f64, depth: f64) -> Option<f64> {
        Some(self.delay?.at_losses()? / (depth / rate))
    }
}
