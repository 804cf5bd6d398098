//! Which kind of managed queue dropped packets, where its drops show that.
//!
//! CoDel drops when no packet of the last 100 ms has waited for less than 5 ms, and so holds the queue short (RFC 8289).
//! PIE drops none in the first 150 ms that packets wait, and then at random at a target of 15 ms (RFC 8033 §4.1, §4.4).
//! RED drops by the mean length of the queue and lets it stand [Floyd93]; CoDel and PIE would empty such a queue.

use std::collections::VecDeque;

use super::arrival::Arrival;
use super::delay::quantile;
use crate::detect::AqmKind;

/// CoDel's interval and its target less what round-trip times are off, in seconds (RFC 8289 §4).
const INTERVAL: f64 = 0.1;
const TARGET: f64 = 0.004_1;
/// Packets waited for no longer than this, in seconds, when CoDel dropped the first: its interval, in which a window may
/// still grow. This and what follows were chosen on the tuned half of the lab's transfers.
const SOON: f64 = 0.12;
/// Half of all packets wait in its queue for less than this, in seconds. That grows until it drops: before the median
/// drop the least wait is below this share of what the dropped packet waited.
const SHORT: f64 = 0.016_5;
const GROWN: f64 = 0.9;
/// Packets waited for longer than this, in seconds, when PIE dropped the first. It drops none that hardly waited, and half
/// of all wait for less than the second.
const LATE: f64 = 0.135;
const WAITED: f64 = 0.001_2;
const EMPTIED: f64 = 0.073;
/// Where more has waited than this, in seconds, for all of an interval before half of the drops, it is RED, and PIE
/// only where less has …
const STANDING: f64 = 0.1;
const NOT_STANDING: f64 = 0.095;
/// … unless this share of drops come closer than this, in seconds, as after an overshoot.
const BUNCHED: f64 = 0.85;
const CLOSE: f64 = 0.02;
/// Fewer drops tell nothing.
const LEAST_DROPS: usize = 3;

/// A managed queue of a known kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Managed {
    /// The kind.
    pub kind: AqmKind,
    /// No packet waited for less, in seconds, in the 100 ms before a drop: the least over the drops for CoDel, or else
    /// the median.
    pub least: f64,
    /// How long the packet before the first drop waited, in seconds.
    pub first: f64,
    /// How long the median packet waited, in seconds.
    pub median: f64,
}

/// A packet that leaves the queue, or is dropped there: when, and how long it has waited, in seconds.
#[derive(Debug, Clone, Copy)]
struct Leaving {
    at: f64,
    waited: f64,
}

impl Managed {
    /// Tells the kind by a transfer's packets, in the order of their times, over the path's round-trip time in
    /// seconds.
    pub fn of(arrivals: &[Arrival], base: f64) -> Option<Self> {
        let (passed, dropped) = leaving(arrivals, base);
        if dropped.len() < LEAST_DROPS {
            return None;
        }
        let mut least = least_before(&passed, &dropped);
        let close = dropped
            .windows(2)
            .filter(|pair| pair[1].at - pair[0].at < CLOSE)
            .count();
        let close = close as f64 / (dropped.len() - 1) as f64;
        let [least_of_all, least] = [0.0, 0.5].map(|share| quantile(&mut least, share));
        let waits = |packets: &[Leaving]| packets.iter().map(|packet| packet.waited).collect();
        let mut at_drops: Vec<f64> = waits(&dropped);
        let mut all: Vec<f64> = waits(&passed);
        let [shortest, at_drops] = [0.0, 0.5].map(|share| quantile(&mut at_drops, share));
        let median = quantile(&mut all, 0.5);
        let first = dropped[0].waited;
        let kind = if least > STANDING && close < BUNCHED && first > SOON {
            AqmKind::Red
        } else if least <= NOT_STANDING && first > LATE && shortest > WAITED && median < EMPTIED {
            AqmKind::Pie
        } else if first <= SOON
            && least_of_all > TARGET
            && median < SHORT
            && least <= GROWN * at_drops
        {
            AqmKind::Codel
        } else {
            return None;
        };
        Some(Self {
            kind,
            least: match kind {
                AqmKind::Codel => least_of_all,
                _ => least,
            },
            first,
            median,
        })
    }
}

/// What passed and what was dropped. A packet that is dropped has waited for as long as the one before it.
fn leaving(arrivals: &[Arrival], base: f64) -> (Vec<Leaving>, Vec<Leaving>) {
    let (mut passed, mut dropped) = (Vec::new(), Vec::new());
    let start = arrivals.first().map_or(0, |arrival| arrival.at);
    let mut latest = None;
    for arrival in arrivals {
        let sent = arrival.at.saturating_sub(start) as f64 / 1e9;
        let rtt = arrival.passed_rtt();
        let waited = rtt.map(|rtt| (rtt - base).max(0.0));
        latest = waited.or(latest);
        let leaves = latest.map(|waited| Leaving {
            at: sent + waited,
            waited,
        });
        if arrival.lost {
            dropped.extend(leaves);
        } else if waited.is_some() {
            passed.extend(leaves);
        }
    }
    (passed, dropped)
}

/// For each drop, in the order of their times, the least that a packet waited which left in the interval before it.
fn least_before(passed: &[Leaving], dropped: &[Leaving]) -> Vec<f64> {
    let by_time = |packets: &[Leaving]| {
        // Packets that were sent later may leave sooner, by round-trip times that are a little off.
        let mut sorted = packets.to_vec();
        sorted.sort_by(|one, other| one.at.total_cmp(&other.at));
        sorted
    };
    let mut passed = by_time(passed).into_iter().peekable();
    // Packets of the interval, without those that a later one undercuts: the first waited the least.
    let mut within: VecDeque<Leaving> = VecDeque::new();
    let each = by_time(dropped).into_iter();
    each.map(|drop| {
        while let Some(packet) = passed.next_if(|packet| packet.at < drop.at) {
            while within
                .back()
                .is_some_and(|before| before.waited >= packet.waited)
            {
                within.pop_back();
            }
            within.push_back(packet);
        }
        while within
            .front()
            .is_some_and(|packet| packet.at < drop.at - INTERVAL)
        {
            within.pop_front();
        }
        let least = within.front().map(|packet| packet.waited);
        least.map_or(drop.waited, |least| least.min(drop.waited))
    })
    .collect()
}

#[cfg(test)]
mod tests;
