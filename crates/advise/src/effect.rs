//! What a limit does to users, measured in simulations.

use std::collections::BTreeMap;

use tidegate_lab::experiment::Finished;
use tidegate_lab::summary;

use crate::chance::Mean;
use crate::situation::Situation;
use crate::trial::{PAGE_FLOW, WINDOW, Workload};

/// What a limit does to users: means over all simulations.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Effect {
    /// Payload that all downloads together got, over the rate.
    pub goodput: f64,
    /// What the slowest download got, or with several users the slowest user, over an equal share of the rate.
    pub slowest: f64,
    /// Jain's index over what the users got, or the flows of a single user; `None` if there is only one.
    pub fairness: Option<f64>,
    /// Data packets dropped, over those sent.
    pub loss: f64,
    /// Data packets that were retransmissions, over those sent.
    pub retransmitted: f64,
    /// The 95th percentile of round trips beyond the path's, in seconds: the median download.
    pub delay_s: f64,
    /// Share of time in which a download got nothing for a quarter of a second.
    pub silent: f64,
    /// The 99th percentile of the rate in a quarter of a second that passed the limit, over the rate.
    pub peak: f64,
    /// From the request of a video to its first picture, in seconds. A video that never began counts with all the time
    /// that was simulated.
    pub join_s: f64,
    /// Time that a video stood still, in seconds.
    pub rebuffer_s: f64,
    /// Share of videos that stood still or never began.
    pub rebuffered: f64,
    /// Share of videos that had not arrived at the end: what their viewers waited is a lower bound.
    pub video_incomplete: f64,
    /// Share of `join_s` that is waiting for videos which never began.
    pub join_open: f64,
    /// Share of `join_s` and `rebuffer_s` that is waiting for videos which had not arrived at the end.
    pub wait_open: f64,
    /// Median time of a short transfer, in seconds. One that was not complete counts with the time that it took so far.
    pub page_s: f64,
    /// 95th percentile of it.
    pub page_p95_s: f64,
    /// Share of short transfers that were not complete at the end: their times are lower bounds.
    pub page_incomplete: f64,
    /// What each download got in bit/s of payload, in the order of the situation's senders.
    pub each: Vec<f64>,
    /// Payload and headers that all downloads together got in each window of the first simulation, in bit/s; and the
    /// same of each.
    pub over_time: OverTime,
    /// What single simulations came to.
    pub runs: Runs,
}

/// With more than this share incomplete at the end, times are lower bounds.
const INCOMPLETE: f64 = 0.1;

impl Effect {
    /// What the viewer of the video waits, in seconds.
    pub fn wait_s(&self) -> f64 {
        self.join_s + self.rebuffer_s
    }

    /// Whether `join_s` is a lower bound: much of it is waiting for videos that never began.
    pub fn join_is_bound(&self) -> bool {
        self.join_open > INCOMPLETE
    }

    /// Whether [`Effect::wait_s`] is a lower bound: much of it is waiting for videos that had not arrived.
    pub fn wait_is_bound(&self) -> bool {
        self.wait_open > INCOMPLETE
    }

    /// Whether times of short transfers are lower bounds: many were not complete.
    pub fn page_is_bound(&self) -> bool {
        self.page_incomplete > INCOMPLETE
    }
}

/// What each simulation came to, in the order of seeds: from these follows how much is chance.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Runs {
    /// As [`Effect::slowest`].
    pub slowest: Vec<f64>,
    /// As [`Effect::loss`].
    pub loss: Vec<f64>,
    /// As [`Effect::delay_s`]: the mean of a simulation's downloads.
    pub delay_s: Vec<f64>,
    /// The median time of a short transfer in each simulation, in seconds.
    pub page_s: Vec<f64>,
    /// [`Effect::join_s`] and [`Effect::rebuffer_s`]: what the viewer waited.
    pub video_s: Vec<f64>,
}

impl Runs {
    /// The simulations of the experiment that has the most.
    pub fn most(&self) -> u64 {
        let counts = [&self.slowest, &self.page_s, &self.video_s].map(Vec::len);
        counts
            .into_iter()
            .fold(0, |most, count| most.max(count as u64))
    }
}

/// Rates over time, in windows of [`WINDOW`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OverTime {
    /// Of all downloads together, in bit/s.
    pub all: Vec<f64>,
    /// Of each.
    pub each: Vec<Vec<f64>>,
}

/// Adds simulations of one remedy up.
#[derive(Debug, Default, Clone)]
pub struct Collector {
    downloads: f64,
    videos: f64,
    sum: Effect,
    fairness: f64,
    delays: Vec<f64>,
    peaks: Vec<f64>,
    pages: Vec<f64>,
    /// Short transfers that were not complete.
    open: usize,
}

impl Collector {
    /// Adds a simulation.
    pub fn add(&mut self, situation: &Situation, workload: Workload, finished: &Finished) {
        match workload {
            Workload::Downloads => self.downloads(situation, finished),
            Workload::Video => self.video(finished),
            Workload::Pages => self.pages(finished),
        }
    }

    fn downloads(&mut self, situation: &Situation, finished: &Finished) {
        let (plan, outcome) = (&finished.group.plan, &finished.outcome);
        let seconds = plan.duration as f64 / 1e9;
        let got: Vec<f64> = outcome
            .flows
            .iter()
            .map(|flow| flow.delivered as f64 * 8.0 / seconds)
            .collect();
        let rate = situation.today.rate.bits_per_second() as f64;
        let sum = &mut self.sum;
        sum.goodput += got.iter().sum::<f64>() / rate;
        let mut users: BTreeMap<usize, f64> = BTreeMap::new();
        for (flow, (sender, got)) in situation.senders().iter().zip(&got).enumerate() {
            let key = if situation.compares_users() {
                sender.user
            } else {
                flow
            };
            *users.entry(key).or_default() += got;
        }
        let users: Vec<f64> = users.into_values().collect();
        let equal = situation.today.rate.bits_per_second() as f64 / users.len().max(1) as f64;
        let slowest = users.iter().copied().fold(f64::INFINITY, f64::min) / equal;
        sum.slowest += slowest;
        sum.runs.slowest.push(slowest);
        self.fairness += summary::jain(&users).unwrap_or(1.0);
        let count = |what: fn(&tidegate_lab::outcome::FlowOutcome) -> u64| {
            outcome.flows.iter().map(what).sum::<u64>() as f64
        };
        let sent = count(|flow| flow.sent_packets).max(1.0);
        let loss = count(|flow| flow.dropped) / sent;
        sum.loss += loss;
        sum.runs.loss.push(loss);
        sum.retransmitted += count(|flow| flow.retransmitted) / sent;
        let before = self.delays.len();
        for (flow, plan) in outcome.flows.iter().zip(&plan.flows) {
            if flow.rtt.count > 0 {
                self.delays
                    .push(flow.rtt.p95.saturating_sub(plan.delay) as f64 / 1e9);
            }
            // From its start on; a starved flow's windows are missing.
            let windows = (plan.start / WINDOW + 1) as usize
                ..(finished.group.plan.duration / WINDOW) as usize;
            let silent = windows
                .clone()
                .filter(|&window| flow.windows.get(window).is_none_or(|&bytes| bytes == 0));
            sum.silent += silent.count() as f64
                / windows.len().max(1) as f64
                / outcome.flows.len().max(1) as f64;
        }
        sum.runs
            .delay_s
            .push(Mean::of(&self.delays[before..]).value);
        self.peaks.extend(summary::normalised(finished, 0));
        sum.each.resize(got.len(), 0.0);
        for (sum, got) in sum.each.iter_mut().zip(&got) {
            *sum += got;
        }
        if self.downloads == 0.0 {
            let rates = |windows: &[u64]| {
                windows
                    .iter()
                    .map(|&bytes| bytes as f64 * 8e9 / WINDOW as f64)
                    .collect()
            };
            sum.over_time = OverTime {
                all: outcome
                    .aggregates
                    .first()
                    .map_or(Vec::new(), |all| rates(&all.windows)),
                each: outcome
                    .flows
                    .iter()
                    .map(|flow| rates(&flow.windows))
                    .collect(),
            };
        }
        self.downloads += 1.0;
    }

    fn video(&mut self, finished: &Finished) {
        let flows = finished.outcome.flows.iter();
        // What has arrived as a whole waits no more.
        let viewings = flows.filter_map(|flow| Some((flow.stream?, !flow.completions.is_empty())));
        for (stream, has_arrived) in viewings {
            let viewing = stream.viewing;
            let join = viewing.join.unwrap_or(viewing.duration) as f64 / 1e9;
            let stalled = viewing.stalled as f64 / 1e9;
            self.sum.runs.video_s.push(join + stalled);
            self.sum.join_s += join;
            self.sum.rebuffer_s += stalled;
            self.sum.rebuffered +=
                f64::from(u8::from(viewing.join.is_none() || viewing.rebufferings > 0));
            if viewing.join.is_none() {
                self.sum.join_open += join;
            }
            if !has_arrived {
                self.sum.wait_open += join + stalled;
                self.sum.video_incomplete += 1.0;
            }
            self.videos += 1.0;
        }
    }

    fn pages(&mut self, finished: &Finished) {
        let end = finished.group.plan.duration;
        let flows = finished.outcome.flows.iter();
        let pages = flows.filter(|flow| flow.name == PAGE_FLOW);
        self.open += pages.clone().filter(|flow| flow.open.is_some()).count();
        let times = pages.flat_map(|flow| {
            let done = flow.completions.iter();
            let done = done.map(|one| one.end.saturating_sub(one.start));
            // One that is not complete counts with the time that it took so far.
            done.chain(flow.open.map(|start| end.saturating_sub(start)))
        });
        let mut times: Vec<f64> = times.map(|time| time as f64 / 1e9).collect();
        times.sort_unstable_by(f64::total_cmp);
        let median = summary::percentile(&times, 50.0).unwrap_or(0.0);
        self.sum.runs.page_s.push(median);
        self.pages.extend(times);
    }

    /// The means.
    pub fn finish(&self, situation: &Situation) -> Effect {
        let Self {
            downloads,
            videos,
            sum,
            fairness,
            mut delays,
            mut peaks,
            mut pages,
            open,
        } = self.clone();
        let (downloads, videos) = (downloads.max(1.0), videos.max(1.0));
        for values in [&mut delays, &mut peaks, &mut pages] {
            values.sort_unstable_by(f64::total_cmp);
        }
        let at = |values: &[f64], percent: f64| summary::percentile(values, percent).unwrap_or(0.0);
        let part = |part: f64, all: f64| if all > 0.0 { part / all } else { 0.0 };
        Effect {
            goodput: sum.goodput / downloads,
            slowest: sum.slowest / downloads,
            fairness: (situation.total() > 1).then_some(fairness / downloads),
            loss: sum.loss / downloads,
            retransmitted: sum.retransmitted / downloads,
            delay_s: at(&delays, 50.0),
            silent: sum.silent / downloads,
            peak: at(&peaks, 99.0),
            join_s: sum.join_s / videos,
            rebuffer_s: sum.rebuffer_s / videos,
            rebuffered: sum.rebuffered / videos,
            video_incomplete: sum.video_incomplete / videos,
            join_open: part(sum.join_open, sum.join_s),
            wait_open: part(sum.wait_open, sum.wait_s()),
            page_s: at(&pages, 50.0),
            page_p95_s: at(&pages, 95.0),
            page_incomplete: open as f64 / pages.len().max(1) as f64,
            each: sum.each.iter().map(|sum| sum / downloads).collect(),
            over_time: sum.over_time,
            runs: sum.runs,
        }
    }
}
