//! Which kind of managed queue dropped packets, as far as that can be told.
//!
//! CoDel drops when no packet of the last 100 ms has waited for less than 5 ms, one packet at a time, and so
//! holds the queue short (RFC 8289). RED drops by the mean length of the queue and lets it stand [Floyd93]; CoDel
//! and PIE would empty such a queue. PIE drops at random around 15 ms (RFC 8033), as RED may too, so it is
//! not told from others.

use super::arrival::Arrival;
use super::delay::quantile;
use crate::detect::AqmKind;

/// CoDel's interval and its target less what round-trip times are off, in seconds (RFC 8289 §4).
const INTERVAL: f64 = 0.1;
const TARGET: f64 = 0.004_5;
/// Drops that come closer, in seconds, are neighbours. CoDel's would be so after 25 drops in a row only.
const CLOSE: f64 = 0.02;
/// Fewer drops tell nothing.
const LEAST_DROPS: usize = 3;
/// Packets before the median drop of CoDel wait for less than this, in seconds, and 95 % of all for less than
/// this. Both were chosen on the tuned half of the lab's transfers, as was what follows.
const SHORT: f64 = 0.02;
const MOSTLY_SHORT: f64 = 0.025;
/// Where more has waited than this, in seconds, for all of an interval before half of the drops, it is RED …
const STANDING: f64 = 0.065;
/// … unless this share of drops are neighbours, as after an overshoot.
const BUNCHED: f64 = 0.3;

/// A managed queue of a known kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Managed {
    /// The kind.
    pub kind: AqmKind,
    /// No packet waited for less, in seconds, in the 100 ms before a drop: the first quartile over the drops for
    /// CoDel, the median for RED.
    pub least: f64,
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
        let mut least: Vec<f64> = dropped
            .iter()
            .map(|drop| least_before(&passed, drop))
            .collect();
        let close = dropped
            .windows(2)
            .filter(|pair| pair[1].at - pair[0].at < CLOSE)
            .count();
        let close = close as f64 / (dropped.len() - 1) as f64;
        let [lower, median] = [0.25, 0.5].map(|share| quantile(&mut least, share));
        let waits = |packets: &[Leaving]| packets.iter().map(|packet| packet.waited).collect();
        let mut at_drops: Vec<f64> = waits(&dropped);
        let mut all: Vec<f64> = waits(&passed);
        let short = quantile(&mut at_drops, 0.5) < SHORT && quantile(&mut all, 0.95) < MOSTLY_SHORT;
        if lower >= TARGET && close == 0.0 && short {
            return Some(Self {
                kind: AqmKind::Codel,
                least: lower,
            });
        }
        (median > STANDING && close < BUNCHED).then_some(Self {
            kind: AqmKind::Red,
            least: median,
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

/// The least that a packet waited which left in the interval before a drop.
fn least_before(passed: &[Leaving], drop: &Leaving) -> f64 {
    let from = passed.partition_point(|packet| packet.at < drop.at - INTERVAL);
    let to = passed.partition_point(|packet| packet.at < drop.at);
    let within = passed.get(from..to).unwrap_or_default();
    within
        .iter()
        .map(|packet| packet.waited)
        .fold(drop.waited, f64::min)
}

#[cfg(test)]
mod tests;
