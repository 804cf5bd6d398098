//! Summaries of simulations: throughput over windows, fairness, times.

use std::collections::BTreeMap;
use std::ops::Range;

use tidegate_limiter::Nanos;
use tidegate_limiter::pacing::Way;

use crate::experiment::Finished;
use crate::outcome::Outcome;
use crate::plan::{Plan, Traffic};

#[cfg(test)]
mod tests;

/// Jain's index of fairness: from 1/n (one gets everything) to 1 (all get the same). `None` if
/// there are fewer than two, or nothing to share.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (shares.len() > 1 && squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// The smallest value that is at least as large as `percent` of the values, which are sorted.
pub fn percentile<T: Copy>(sorted: &[T], percent: f64) -> Option<T> {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// The windows that lie completely within a time.
fn within(start: Nanos, end: Nanos, window: Nanos) -> Range<usize> {
    let window = window.max(1);
    start.div_ceil(window) as usize..(end / window) as usize
}

/// The windows that lie between the first start and the last end of an aggregate's flows. Its
/// throughput counts only in these.
pub fn windows_of_aggregate(outcome: &Outcome, aggregate: usize) -> Range<usize> {
    let flows = || {
        outcome
            .flows
            .iter()
            .filter(|flow| flow.aggregate == aggregate)
    };
    let start = flows().map(|flow| flow.start).min().unwrap_or(0);
    let end = flows().map(|flow| flow.end).max().unwrap_or(0);
    within(start, end, outcome.window)
}

/// Whether a flow has something to send during a whole window. Only then its share says something about
/// fairness.
fn is_busy(plan: &Plan, outcome: &Outcome, flow: usize, window: usize) -> bool {
    let result = &outcome.flows[flow];
    match plan.flows[flow].traffic {
        Traffic::Bulk { .. } => within(result.start, result.end, outcome.window).contains(&window),
        // A constant rate that arrives, to a packet, leaves nothing to send. The first packets are on their way yet.
        Traffic::Datagrams { rate, bytes, .. } => {
            let start = result.start.saturating_add(plan.flows[flow].delay);
            let bits = u128::from(rate.bits_per_second()) * u128::from(outcome.window);
            let got = result.windows.get(window).copied().unwrap_or(0) + u64::from(bytes);
            within(start, result.end, outcome.window).contains(&window)
                && u128::from(got) < bits / 8_000_000_000
        }
        // Between its transfers it has nothing to send.
        Traffic::OnOff { .. }
        | Traffic::Video { .. }
        | Traffic::Stream(_)
        | Traffic::Adaptive(_)
        | Traffic::Web(_) => {
            let at = result
                .completions
                .partition_point(|one| one.end / outcome.window.max(1) <= window as u64);
            let done = result.completions.get(at).map(|one| (one.start, one.end));
            // A flow that was starved until the end has something to send.
            let open = result.open.map(|start| (start, result.end));
            // A video that its server throttles wants no more than the throttled rate.
            let throttled = match &plan.flows[flow].traffic {
                Traffic::Stream(stream) if stream.pace.way != Way::None => result.stream,
                _ => None,
            };
            let throttled = throttled.and_then(|stream| stream.throttled);
            let most = throttled.map_or(Nanos::MAX, |phase| phase.start);
            let mut transfers = done.into_iter().chain(open);
            transfers
                .any(|(start, end)| within(start, end.min(most), outcome.window).contains(&window))
        }
    }
}

/// How evenly the flows of an aggregate share a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fairness {
    /// The window's number, from 0.
    pub window: usize,
    /// Jain's index, from 0 to 1, which is even.
    pub index: f64,
}

/// Jain's index among the flows of an aggregate that have something to send, for each window in
/// which there are at least two of them.
pub fn fairness(plan: &Plan, outcome: &Outcome, aggregate: usize) -> Vec<Fairness> {
    let flows: Vec<usize> = (0..outcome.flows.len())
        .filter(|&flow| outcome.flows[flow].aggregate == aggregate)
        .collect();
    let index = |window: usize| {
        let busy = flows
            .iter()
            .filter(|&&flow| is_busy(plan, outcome, flow, window));
        let bytes = busy.map(|&flow| outcome.flows[flow].windows.get(window).copied());
        let shares: Vec<f64> = bytes.map(|bytes| bytes.unwrap_or(0) as f64).collect();
        let index = jain(&shares)?;
        Some(Fairness { window, index })
    };
    windows_of_aggregate(outcome, aggregate)
        .filter_map(index)
        .collect()
}

/// How long a window lasts: the last one ends with the simulation.
pub fn width(plan: &Plan, window: usize) -> Nanos {
    let start = (window as u64).saturating_mul(plan.window);
    plan.duration.saturating_sub(start).min(plan.window)
}

/// The data transferred in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throughput {
    /// Bytes.
    pub bytes: u64,
    /// The time in which they were transferred; 0 counts as 1 ns.
    pub time: Nanos,
}

impl Throughput {
    /// Bits per second.
    pub fn bits_per_second(self) -> f64 {
        self.bytes as f64 * 8e9 / self.time.max(1) as f64
    }
}

/// The throughput of an aggregate in each of its windows, over the rate of its limiter; empty if it
/// has none.
pub fn normalised(finished: &Finished, aggregate: usize) -> Vec<f64> {
    let outcome = &finished.outcome;
    let (Some(Some(limit)), Some(result)) = (
        finished.group.limits.get(aggregate),
        outcome.aggregates.get(aggregate),
    ) else {
        return Vec::new();
    };
    let limit = limit.bits_per_second() as f64;
    let windows = windows_of_aggregate(outcome, aggregate);
    let bytes = windows.filter_map(|window| result.windows.get(window));
    bytes
        .map(|bytes| {
            Throughput {
                bytes: *bytes,
                time: outcome.window,
            }
            .bits_per_second()
                / limit
        })
        .collect()
}

/// The results of a point of a sweep, over all seeds and groups.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// Simulations.
    pub simulations: u64,
    /// Packets that they carried.
    pub packets: u64,
    /// Aggregates; each seed counts its own.
    pub aggregates: u64,
    /// Flows; each seed counts its own.
    pub flows: u64,
    /// Mean throughput of an aggregate in its windows, bits per second at the IP layer.
    pub throughput: Option<f64>,
    /// Mean of the windows' throughput over the limiter's rate.
    pub normalised_mean: Option<f64>,
    /// 99th percentile of it.
    pub normalised_p99: Option<f64>,
    /// Data packets dropped over data packets sent.
    pub drop_rate: Option<f64>,
    /// Median over aggregates and windows of Jain's index among flows.
    pub jain: Option<f64>,
    /// Median over flows of their median round-trip time.
    pub rtt_p50: Option<Nanos>,
    /// Median over flows of their 95th percentile.
    pub rtt_p95: Option<Nanos>,
    /// By the flows' names, the payload that their applications received.
    pub delivered: BTreeMap<String, u64>,
    /// Transfers that were completed.
    pub completions: u64,
    /// Median time of a transfer.
    pub completion_p50: Option<Nanos>,
    /// 95th percentile of it.
    pub completion_p95: Option<Nanos>,
}

impl Summary {
    /// The share of all payload that flows of a name got, 0 to 1; `None` if nothing was delivered.
    pub fn share(&self, flow: &str) -> Option<f64> {
        let all: u64 = self.delivered.values().sum();
        let part = self.delivered.get(flow).copied()?;
        (all > 0).then(|| part as f64 / all as f64)
    }
}

/// Adds simulations up to a [`Summary`].
#[derive(Debug, Default)]
pub struct Collector {
    summary: Summary,
    sent: u64,
    dropped: u64,
    throughputs: Vec<f64>,
    normalised: Vec<f64>,
    fairness: Vec<f64>,
    rtts: Vec<(Nanos, Nanos)>,
    times: Vec<Nanos>,
}

impl Collector {
    /// Adds a simulation.
    pub fn add(&mut self, finished: &Finished) {
        let (plan, outcome) = (&finished.group.plan, &finished.outcome);
        self.summary.simulations += 1;
        self.summary.packets += outcome.packets;
        self.summary.aggregates += outcome.aggregates.len() as u64;
        self.summary.flows += outcome.flows.len() as u64;
        for (index, aggregate) in outcome.aggregates.iter().enumerate() {
            let windows = windows_of_aggregate(outcome, index);
            let count = windows.len() as u64;
            let bytes: u64 = windows
                .filter_map(|window| aggregate.windows.get(window))
                .sum();
            if count > 0 {
                let time = count * outcome.window;
                self.throughputs
                    .push(Throughput { bytes, time }.bits_per_second());
            }
            self.normalised.extend(normalised(finished, index));
            let indices = fairness(plan, outcome, index);
            self.fairness.extend(indices.iter().map(|one| one.index));
        }
        for flow in &outcome.flows {
            self.sent += flow.sent_packets;
            self.dropped += flow.dropped;
            match self.summary.delivered.get_mut(&flow.name) {
                Some(sum) => *sum += flow.delivered,
                None => {
                    self.summary
                        .delivered
                        .insert(flow.name.clone(), flow.delivered);
                }
            }
            if flow.rtt.count > 0 {
                self.rtts.push((flow.rtt.p50, flow.rtt.p95));
            }
            let times = flow
                .completions
                .iter()
                .map(|one| one.end.saturating_sub(one.start));
            self.times.extend(times);
        }
    }

    /// The summary of what was added.
    pub fn finish(mut self) -> Summary {
        let mean = |values: &[f64]| {
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let mut summary = self.summary;
        summary.throughput = mean(&self.throughputs);
        summary.normalised_mean = mean(&self.normalised);
        self.normalised.sort_unstable_by(f64::total_cmp);
        summary.normalised_p99 = percentile(&self.normalised, 99.0);
        summary.drop_rate = (self.sent > 0).then(|| self.dropped as f64 / self.sent as f64);
        self.fairness.sort_unstable_by(f64::total_cmp);
        summary.jain = percentile(&self.fairness, 50.0);
        let mut rtts: Vec<Nanos> = self.rtts.iter().map(|(median, _)| *median).collect();
        rtts.sort_unstable();
        summary.rtt_p50 = percentile(&rtts, 50.0);
        let mut rtts: Vec<Nanos> = self.rtts.iter().map(|(_, tail)| *tail).collect();
        rtts.sort_unstable();
        summary.rtt_p95 = percentile(&rtts, 50.0);
        self.times.sort_unstable();
        summary.completions = self.times.len() as u64;
        summary.completion_p50 = percentile(&self.times, 50.0);
        summary.completion_p95 = percentile(&self.times, 95.0);
        summary
    }
}
