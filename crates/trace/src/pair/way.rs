//! One way between the places: everything that goes from A to B, or from B to A.

use std::net::IpAddr;

use super::change::Changes;
use super::clock::Clocks;
use super::fit::{self, LEAST_LOSSES, beside, bucket, gain_of_unseen_users};
use super::group::{Group, groups, receiver};
use super::joined::Joined;
use super::passage::Passage;
use super::stream::{StreamReport, Transit, follow};
use super::verdict::{Between, Fits};
use super::waiting::{self, Waiting, stays};
use crate::detect::cause::Bucket;
use crate::read::Nanos;

/// What goes one way between the places.
#[derive(Debug, Clone, PartialEq)]
pub struct Way {
    /// Whether from A to B.
    pub to_b: bool,
    /// All packets, in the order in which the first place saw them.
    pub passages: Vec<Passage>,
    /// Its streams; passages name them by their index.
    pub streams: Vec<StreamReport>,
    /// Transit times of all packets.
    pub transit: Option<Transit>,
    /// What was changed on the way.
    pub changes: Changes,
    /// A pause of this length ends a burst, in nanoseconds.
    pub burst_gap: Nanos,
    /// What explains losses and transit times.
    pub fits: Fits,
    /// What is between the places.
    pub verdict: Between,
    /// Receivers judged apart, those with the most losses first: where all of them together fit no limiter,
    /// and each may have one.
    pub groups: Vec<Group>,
}

/// A burst ends with a pause of this share of the round trip between the places, but at least
/// of this time.
const BURST_SHARE: f64 = 0.125;
const LEAST_BURST_GAP: Nanos = 1_000_000;

impl Way {
    /// Gathers and fits what goes one way.
    pub(crate) fn new(joined: &Joined, to_b: bool) -> Self {
        let (mut passages, mut streams) = (Vec::new(), Vec::new());
        for (index, shared) in joined.shared.iter().enumerate() {
            if shared.to_b == to_b {
                let number = streams.len() as u32;
                streams.push(follow(joined, index, number, &mut passages));
            }
        }
        passages.sort_by_key(|passage| passage.at);
        let burst_gap = burst_gap(joined.clocks);
        mark_bursts(&mut passages, burst_gap);
        let times = passages.iter().filter_map(Passage::transit).collect();
        let transit = Transit::of(times);
        let all = fits(&passages, transit);
        let groups = if all.lost >= LEAST_LOSSES && all.explaining_bucket().is_none() {
            groups(&passages, &streams, fits)
        } else {
            Vec::new()
        };
        Self {
            to_b,
            streams,
            transit,
            changes: Changes::of(joined, to_b),
            burst_gap,
            verdict: all.verdict(),
            fits: all,
            groups,
            passages,
        }
    }

    /// How long each packet that was not lost would have waited if a limiter were a queue that holds as much as
    /// its bucket, in nanoseconds.
    pub fn as_queue<'a>(
        &'a self,
        bucket: &'a Bucket,
    ) -> impl Iterator<Item = (&'a Passage, f64)> + 'a {
        fit::as_queue(&self.passages, bucket).map(|(i, wait)| (&self.passages[i], wait))
    }

    /// How long each packet that passed waited in a queue by the model, in nanoseconds.
    pub fn in_queue<'a>(
        &'a self,
        queue: &'a Waiting,
    ) -> impl Iterator<Item = (&'a Passage, f64)> + 'a {
        let stays = stays(&self.passages, queue.model());
        let passed = self.passages.iter().zip(stays);
        passed.filter_map(|(passage, stay)| {
            passage.transit()?;
            Some((passage, stay.time))
        })
    }

    /// What explains a stream's losses and transit times, and what that means: by its receiver, or by all.
    pub fn judged(&self, stream: &StreamReport) -> (&Fits, Between) {
        let address = receiver(stream);
        let group = self.groups.iter().find(|group| group.receiver == address);
        group.map_or((&self.fits, self.verdict), |group| {
            (&group.fits, group.verdict)
        })
    }

    /// What explains most of the losses: of the receiver with the most, or of all, and the receiver.
    pub fn mainly(&self) -> (&Fits, Between, Option<IpAddr>) {
        match self.groups.first() {
            Some(group) => (&group.fits, group.verdict, Some(group.receiver)),
            None => (&self.fits, self.verdict, None),
        }
    }

    /// Sums over its streams.
    pub fn sum(&self, count: impl Fn(&StreamReport) -> u64) -> u64 {
        self.streams.iter().map(count).sum()
    }
}

fn fits(passages: &[Passage], transit: Option<Transit>) -> Fits {
    let window = fit::window(passages);
    let least = transit.map_or(0.0, |transit| transit.least);
    let waiting = waiting::fit(window, least);
    let beside = beside(window, least, waiting.as_ref());
    let bucket = bucket(window, least, waiting.as_ref(), beside.as_ref());
    Fits {
        shared: gain_of_unseen_users(window),
        lost: passages.iter().filter(|passage| passage.lost()).count(),
        packets: passages.len(),
        fitted: window.len(),
        bucket,
        waiting,
        beside,
        transit,
    }
}

fn burst_gap(clocks: Option<Clocks>) -> Nanos {
    let round_trip = clocks.and_then(|clocks| clocks.least_round_trip());
    let share = round_trip.unwrap_or(0.0) * BURST_SHARE;
    (share as Nanos).max(LEAST_BURST_GAP)
}

fn mark_bursts(passages: &mut [Passage], gap: Nanos) {
    let (mut last, mut bytes) = (None, 0u32);
    for passage in passages {
        if last.is_none_or(|last| passage.at.saturating_sub(last) > gap) {
            bytes = 0;
        }
        passage.in_burst = bytes;
        bytes = bytes.saturating_add(passage.link_bytes);
        last = Some(passage.at);
    }
}
