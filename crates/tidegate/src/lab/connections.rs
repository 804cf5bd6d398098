//! The picture of a connection over time: windows, round trips, pacing rate, and when it repaired losses.

use tidegate_lab::outcome::State;
use tidegate_lab::tcp::cc::LossState;
use tidegate_plot::{Ink, Panels};

/// Height of the panel of windows, and of each other panel, in pixels.
const HEIGHTS: (f64, f64) = (190.0, 110.0);

/// Draws the states of a flow's connections, one after the other, until the end of the simulation in seconds.
/// `None` without states.
pub fn draw(title: &str, states: &[State], end: f64) -> Option<String> {
    states.first()?;
    let mut picture = Panels::new(title, "time [s]", 0.0, end);
    picture.describe(
        "Congestion window, threshold and packets in flight, round-trip times and pacing rate over time.",
    );

    let most = |value: fn(&State) -> u32| states.iter().map(value).max().unwrap_or(0);
    let top = most(|state| state.snapshot.cwnd).max(most(|state| state.snapshot.in_flight));
    let panel = picture.panel("segments", HEIGHTS.0, 0.0, f64::from(top.max(1)) * 1.05);
    let repairs = |state| {
        let bars = spans(states, state, end).into_iter();
        bars.map(move |(from, to)| (from, to, f64::from(top) * 1.05))
    };
    panel.bars(Ink::Orange, "fast recovery", repairs(LossState::Recovery));
    panel.bars(Ink::Grey, "timeout", repairs(LossState::Loss));
    let flight = |state: &State| Some(f64::from(state.snapshot.in_flight));
    panel.steps(Ink::Blue, "in flight", curve(states, end, flight));
    let cwnd = |state: &State| Some(f64::from(state.snapshot.cwnd));
    panel.steps(Ink::Black, "congestion window", curve(states, end, cwnd));
    let ssthresh = |state: &State| {
        let ssthresh = state.snapshot.ssthresh;
        (ssthresh <= top).then(|| f64::from(ssthresh))
    };
    panel.dashed(Ink::Green, "threshold", curve(states, end, ssthresh));
    let pairs = states.windows(2);
    let lost = pairs.filter(|pair| {
        pair[0].connection == pair[1].connection
            && pair[1].snapshot.counts.lost > pair[0].snapshot.counts.lost
    });
    let lost = lost.map(|pair| (seconds(pair[1].at), f64::from(pair[1].snapshot.in_flight)));
    panel.crosses(Ink::Red, "losses found", lost);

    let srtt = |state: &State| state.snapshot.srtt.map(|rtt| rtt as f64 / 1e6);
    let least = |state: &State| state.snapshot.min_rtt.map(|rtt| rtt as f64 / 1e6);
    let longest = states.iter().filter_map(srtt).fold(0.0, f64::max);
    let panel = picture.panel(
        "round-trip time [ms]",
        HEIGHTS.1,
        0.0,
        longest.max(0.001) * 1.05,
    );
    panel.steps(Ink::Black, "smoothed", curve(states, end, srtt));
    panel.dashed(Ink::Green, "least", curve(states, end, least));

    let pacing = |state: &State| state.snapshot.pacing_rate.map(|rate| rate as f64 * 8e-6);
    if states.iter().any(|state| pacing(state).is_some()) {
        // A first guess from a short round trip can be far above everything after it.
        let mut rates: Vec<f64> = states.iter().filter_map(pacing).collect();
        rates.sort_unstable_by(f64::total_cmp);
        let top = rates[(rates.len() - 1) * 99 / 100] * 1.05;
        let panel = picture.panel("pacing rate [Mbit/s]", HEIGHTS.1, 0.0, top.max(0.001));
        panel.steps(Ink::Blue, "payload", curve(states, end, pacing));
    }
    Some(picture.svg())
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// A value over time, with a gap between connections.
fn curve(states: &[State], end: f64, value: impl Fn(&State) -> Option<f64>) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let mut before: Option<&State> = None;
    for state in states {
        if before.is_some_and(|before| before.connection != state.connection) {
            points.push((seconds(state.at), f64::NAN));
        }
        points.push((seconds(state.at), value(state).unwrap_or(f64::NAN)));
        before = Some(state);
    }
    // The last state lasts until the end.
    points.extend(before.map(|last| (end, value(last).unwrap_or(f64::NAN))));
    points
}

/// The times that a connection spent in a state.
fn spans(states: &[State], wanted: LossState, end: f64) -> Vec<(f64, f64)> {
    let mut spans: Vec<(f64, f64)> = Vec::new();
    let ends = states.iter().skip(1).map(|state| seconds(state.at));
    for (state, until) in states.iter().zip(ends.chain([end])) {
        if state.snapshot.state != wanted {
            continue;
        }
        let from = seconds(state.at);
        match spans.last_mut() {
            Some(last) if last.1 >= from => last.1 = until,
            _ => spans.push((from, until)),
        }
    }
    spans
}
