//! A burst-tolerant shaper, whether it drops packets or not: packets are delivered fast and without delay
//! at first, then slower and from a queue [Flach16 §5.1.2].
//!
//! A queue that fills only when an allowance of bytes is used up is fitted to how long packets waited.
//! Beside it stands the rule of ShaperProbe (Kanuparthy and Dovrolis, IMC 2011) on rates of delivery, which
//! knows nothing of delay: all rates before the shift are at least all rates after it, and their medians
//! differ. TCP differs from its probes: the rates with which a transfer begins grow from nothing, and so
//! they are left out.

use super::arrival::Arrival;
use super::delay::quantile;
use crate::annotate::Metrics;
use crate::detect::{Burst, Switch};
use crate::read::Nanos;

/// Rates are taken over a round trip, but over no less than this, in seconds: a window is sent at once …
const LEAST_BIN: f64 = 0.01;
/// … and over so much that there are at most this many.
const MOST_BINS: usize = 2_000;
/// Rates of the running median.
const RUNNING: usize = 11;
/// Rates that it takes before the shift, and after it.
const BEFORE: usize = 3;
const AFTER: usize = 8;
/// The median rate before the shift over that after it.
const RATIO: f64 = 1.1;
/// Rates at the beginning in which the window may still have grown.
const GROWING: usize = 12;
/// The part of the time that is taken for the end of the transfer: it is slow there, if it ever is.
const END: usize = 4;
/// Rounds in which rate and end of the burst are refined.
const ROUNDS: usize = 2;
/// A shaper's rate is steady: the quartiles of the rates after the shift differ by at most this share of
/// the median, and by this number of packets for each rate.
const STEADY: f64 = 0.1;
const STEPS: f64 = 2.0;
/// Behind the shift packets wait by at least this, in seconds, and by this number of packets' times, since
/// receivers acknowledge every second packet only, …
pub(super) const WAITED: f64 = 0.005;
const WAITED_PACKETS: f64 = 4.0;
/// … and before it half of them for less than a queue of this share of the allowance takes to drain.
const HARDLY: f64 = 0.2;
/// The queue behind the allowance explains this share of the variance of waiting times; more, where the
/// rule on rates does not hold. Other queues came to 0.94, shapers to 0.95 at least (studies/verdict).
const EXPLAINED: f64 = 0.95;
const ALONE_EXPLAINED: f64 = 0.98;
/// A smaller allowance, in bytes, is none.
const LEAST_ALLOWANCE: f64 = 50e3;
/// What the interval of the rate at least reaches to each side: routers round rates.
const LEAST_REACH: f64 = 0.003;
/// Packets that it lets pass.
const LEAST_PACKETS: usize = 10;
/// The end of the burst is about where the bytes beyond the rate are this share of the most, less a packet.
const USED_UP: f64 = 0.98;
const PACKET: f64 = 1_518.0;

/// The rate at which packets are delivered falls, and a queue fills.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// Bytes a second of the link before: the median of the rates that exceed the later ones. Other things
    /// than the shaper may have limited it. `None` where all passed in less time than rates are taken over.
    pub burst_rate: Option<f64>,
    /// Bytes a second of the link after.
    pub rate: f64,
    /// Half of the interval of `rate`.
    pub uncertain: f64,
    /// How many rates before and after were compared, where the rule on rates holds.
    pub rates: Option<(usize, usize)>,
    /// Seconds over which rates are taken.
    pub bin: f64,
    /// Bytes beyond the rate that passed without waiting.
    pub allowance: f64,
    /// The share of the variance of waiting times that a queue behind the allowance explains.
    pub explained: f64,
    /// The first packet that had to wait.
    pub switch: Switch,
    /// Seconds that the median packet waited before the shift.
    pub waited_before: f64,
    /// Seconds that one in ten packets exceeded after it.
    pub waited_after: f64,
}

/// A packet that came to the receiver.
struct Delivered {
    /// Its place among the packets that were sent.
    place: usize,
    /// Seconds since the first packet was sent.
    at: f64,
    /// The same, when it was sent.
    sent: f64,
    /// Bytes that had come, itself included.
    bytes: f64,
    /// Seconds of its round-trip time, if that is known.
    rtt: Option<f64>,
}

impl Shift {
    /// Finds the shift in a transfer's packets, in the order in which they were sent.
    pub fn of(arrivals: &[Arrival]) -> Option<Self> {
        let delivered = delivered(arrivals);
        let (first, last) = (delivered.first()?, delivered.last()?);
        let least = delivered.iter().filter_map(|packet| packet.rtt);
        let base = least.min_by(f64::total_cmp)?;
        let lasted = last.at - first.at;
        let bin = base.max(LEAST_BIN).max(lasted / MOST_BINS as f64);
        let rates = rates(&delivered, bin);
        if rates.len() < BEFORE + AFTER {
            return None;
        }
        let end = &mut rates[rates.len() - (rates.len() / END).max(AFTER)..].to_vec();
        let mut from = last.at - bin * end.len() as f64;
        let mut rate = quantile(end, 0.5);
        for _ in 0..=ROUNDS {
            from = used_up(&delivered, rate, from)?;
            rate = rate_behind(&delivered, from)?;
        }
        let backlog = Backlog::of(&delivered, rate, base)?;
        let switch = &delivered[backlog.place];
        let in_bins = (switch.at - first.at) / bin;
        let before = &rates[..(in_bins as usize).min(rates.len())];
        let after = &rates[(in_bins.ceil() as usize + 1).min(rates.len())..];
        let mut after = running_median(after);
        let [low, median, high] = [0.25, 0.5, 0.75].map(|share| quantile(&mut after, share));
        let compared = compared(before, &after);
        let (waited_before, waited_after) = waited(&delivered, backlog.place, base);
        let needed = compared.map_or(ALONE_EXPLAINED, |_| EXPLAINED);
        let is_shaper = after.len() >= AFTER
            && high - low <= STEADY * median + STEPS * PACKET / bin
            && backlog.place >= LEAST_PACKETS
            && backlog.allowance >= LEAST_ALLOWANCE
            && backlog.explained >= needed
            && waited_after >= WAITED.max(WAITED_PACKETS * PACKET / rate)
            && waited_before * rate <= HARDLY * backlog.allowance;
        let before = &before[before.len() - compared.unwrap_or(before.len())..];
        is_shaper.then(|| Self {
            burst_rate: burst_rate(before, rate),
            rate,
            uncertain: LEAST_REACH * rate
                + (high - low) / (after.len() as f64).sqrt()
                + PACKET / (last.at - switch.at),
            rates: compared.map(|before| (before, after.len())),
            bin,
            allowance: backlog.allowance,
            explained: backlog.explained,
            switch: switch_at(arrivals, switch.place),
            waited_before,
            waited_after,
        })
    }

    /// Whether a transfer lasts long enough, and its packets wait, so that the search is worth its while.
    pub(super) fn is_possible(metrics: &Metrics) -> bool {
        let Some(rtt) = metrics.rtt else {
            return false;
        };
        let bins = metrics.duration / rtt.min.max((LEAST_BIN * 1e9) as Nanos);
        let waited = rtt.p90.saturating_sub(rtt.min) as f64 / 1e9;
        bins >= (BEFORE + AFTER) as Nanos && waited >= WAITED
    }

    /// What passed before it.
    pub fn burst(&self) -> Burst {
        Burst {
            rate_bps: self.burst_rate.map(|rate| rate * 8.0),
            bytes: self.allowance,
            switch: Some(self.switch),
        }
    }
}

/// ShaperProbe's rule: how many rates before the shift are at least all after it, if these are enough and
/// differ enough. `after` is smoothed already.
fn compared(before: &[f64], after: &[f64]) -> Option<usize> {
    let before = running_median(before);
    let most = after.iter().copied().max_by(f64::total_cmp)?;
    let lower = before.iter().rposition(|&rate| rate < most);
    let grown = lower.map_or(0, |last| last + 1);
    let higher = before.len() - grown;
    let median = |rates: &[f64]| quantile(&mut rates.to_vec(), 0.5);
    let holds = grown <= GROWING
        && higher >= BEFORE
        && after.len() >= AFTER
        && median(&before[grown..]) > RATIO * median(after);
    holds.then_some(higher)
}

/// What passed before the packet of a place, where a fitted bucket says that it was the first to wait:
/// `allowance` bytes beyond the rate in bytes a second.
pub(super) fn burst_until(
    arrivals: &[Arrival],
    place: Option<usize>,
    allowance: f64,
    rate: f64,
) -> Burst {
    let delivered = delivered(arrivals);
    let place = place.filter(|&place| place > 0);
    let fast = place.and_then(|place| {
        let base = delivered.iter().filter_map(|packet| packet.rtt);
        let bin = base.min_by(f64::total_cmp)?.max(LEAST_BIN);
        let before = delivered.partition_point(|packet| packet.place < place);
        let rates = rates(
            &delivered[..before],
            bin.max(delivered.last()?.at / MOST_BINS as f64),
        );
        burst_rate(&rates, rate)
    });
    Burst {
        rate_bps: fast.map(|rate| rate * 8.0),
        bytes: allowance,
        switch: place.map(|place| switch_at(arrivals, place)),
    }
}

/// The median of the rates before the shift that exceed the rate after it.
fn burst_rate(before: &[f64], rate: f64) -> Option<f64> {
    let mut fast = before.to_vec();
    fast.retain(|&fast| fast > RATIO * rate);
    (!fast.is_empty()).then(|| quantile(&mut fast, 0.5))
}

/// Before the packet of a place, in the order in which they were sent.
fn switch_at(arrivals: &[Arrival], place: usize) -> Switch {
    let sent = |place: usize| arrivals.get(place).map_or(0, |arrival| arrival.at);
    let before = arrivals.iter().take(place);
    Switch {
        after: sent(place).saturating_sub(sent(0)),
        bytes: before.map(|arrival| f64::from(arrival.weight)).sum::<f64>() as u64,
    }
}

/// What came to the receiver, and when. Where a round-trip time is not known, that of the packet before
/// is taken.
fn delivered(arrivals: &[Arrival]) -> Vec<Delivered> {
    let start = arrivals.first().map_or(0, |arrival| arrival.at);
    let (mut bytes, mut at, mut latest) = (0.0, 0.0_f64, 0.0);
    let passed = arrivals
        .iter()
        .enumerate()
        .filter(|(_, arrival)| !arrival.lost);
    passed
        .map(|(place, arrival)| {
            let rtt = arrival.passed_rtt();
            latest = rtt.unwrap_or(latest);
            bytes += f64::from(arrival.weight);
            // Acknowledgements come in order.
            let sent = arrival.at.saturating_sub(start) as f64 / 1e9;
            at = at.max(sent + latest);
            Delivered {
                place,
                at,
                sent,
                bytes,
                rtt,
            }
        })
        .collect()
}

/// Bytes a second in each whole bin.
fn rates(delivered: &[Delivered], bin: f64) -> Vec<f64> {
    let start = delivered.first().map_or(0.0, |first| first.at);
    let lasted = delivered.last().map_or(0.0, |last| last.at - start);
    let mut rates = vec![0.0; (lasted / bin) as usize];
    let mut before = 0.0;
    for packet in delivered {
        if let Some(rate) = rates.get_mut(((packet.at - start) / bin) as usize) {
            *rate += (packet.bytes - before) / bin;
        }
        before = packet.bytes;
    }
    rates
}

/// The median of up to [`RUNNING`] values around each.
fn running_median(values: &[f64]) -> Vec<f64> {
    let half = RUNNING / 2;
    (0..values.len())
        .map(|i| {
            let around = &values[i.saturating_sub(half)..(i + half + 1).min(values.len())];
            quantile(&mut around.to_vec(), 0.5)
        })
        .collect()
}

/// When what was delivered beyond a rate, in bytes a second, stops to grow, if it does so before `from`. Times
/// in seconds.
fn used_up(delivered: &[Delivered], rate: f64, from: f64) -> Option<f64> {
    let first = delivered.first()?;
    let beyond = |packet: &Delivered| packet.bytes - rate * (packet.at - first.at);
    let behind = delivered.iter().filter(|packet| packet.at >= from);
    let most = quantile(&mut behind.map(beyond).collect::<Vec<f64>>(), 0.5);
    let end = delivered
        .iter()
        .find(|packet| beyond(packet) >= USED_UP * most - PACKET)?;
    Some(end.at)
}

/// Bytes a second behind a time, but for a tenth of what is left, in which the burst may still end.
fn rate_behind(delivered: &[Delivered], from: f64) -> Option<f64> {
    let last = delivered.last()?;
    let from = from * 0.9 + last.at * 0.1;
    let first = delivered.iter().find(|packet| packet.at >= from)?;
    (last.at > first.at).then(|| (last.bytes - first.bytes) / (last.at - first.at))
}

/// A queue that fills when an allowance is used up, fitted to how long packets waited.
struct Backlog {
    /// The first packet that waits, among what was delivered.
    place: usize,
    allowance: f64,
    explained: f64,
}

impl Backlog {
    /// For a rate in bytes a second, over a path's round-trip time in seconds.
    fn of(delivered: &[Delivered], rate: f64, base: f64) -> Option<Self> {
        let (mut beyond, mut sent, mut bytes) = (0.0, 0.0, 0.0);
        // Bytes beyond the rate, and those that can be delivered while a packet waits.
        let met: Vec<(f64, Option<f64>)> = delivered
            .iter()
            .map(|packet| {
                beyond = (beyond - rate * (packet.sent - sent)).max(0.0) + packet.bytes - bytes;
                (sent, bytes) = (packet.sent, packet.bytes);
                (beyond, packet.rtt.map(|rtt| (rtt - base) * rate))
            })
            .collect();
        let known = || {
            met.iter()
                .filter_map(|&(beyond, waited)| Some((beyond, waited?)))
        };
        let waits = known().filter(|&(_, waited)| waited >= WAITED * rate);
        let mut without = waits
            .map(|(beyond, waited)| beyond - waited)
            .collect::<Vec<f64>>();
        let allowance = quantile(&mut without, 0.5);
        let mean = known().map(|point| point.1).sum::<f64>() / known().count() as f64;
        let all: f64 = known().map(|point| (point.1 - mean).powi(2)).sum();
        let left = |(beyond, waited): (f64, f64)| (waited - (beyond - allowance).max(0.0)).powi(2);
        Some(Self {
            place: met.iter().position(|point| point.0 > allowance + PACKET)?,
            allowance,
            explained: 1.0 - known().map(left).sum::<f64>() / all,
        })
    }
}

/// Seconds that packets waited: the median before a place, and what one in ten exceeds behind it.
fn waited(delivered: &[Delivered], place: usize, base: f64) -> (f64, f64) {
    let (before, behind) = delivered.split_at(place);
    let at = |packets: &[Delivered], share| {
        let mut rtts: Vec<f64> = packets.iter().filter_map(|packet| packet.rtt).collect();
        quantile(&mut rtts, share) - base
    };
    (at(before, 0.5), at(behind, 0.9))
}

#[cfg(test)]
mod tests;
