//! Finds the pattern of losses and TCP, and its evidence [Flach16 §4.4].

use super::metrics::Metrics;
use super::pattern::{Evidence, Pattern};
use super::rtt::median;
use super::sent::Sent;
use super::transfer::Transfer;
use crate::read::Nanos;

/// Linux's least retransmission time-out, and twice the delay of an acknowledgement.
const MIN_STALL: Nanos = 200_000_000;
/// Shorter round trips hold too few packets to measure a rate.
const MIN_ROUND: Nanos = 1_000_000;
/// Bursts are "multiple times" the policed rate.
const STAIRCASE_OVERSHOOT: f64 = 2.0;
const STAIRCASE_STALLED: f64 = 0.2;
/// A window of two packets, and what is left of an earlier one.
const DOUBLING_FLIGHT: f64 = 3.0;
/// Few losses over a long time: the policed flows of the paper lose 20 % and more where the
/// pattern is another.
const AVOIDANCE_LOSS: f64 = 0.05;

pub(super) fn find(
    transfer: &Transfer<'_>,
    metrics: &Metrics,
    scratch: &mut Vec<f64>,
) -> (Pattern, Evidence) {
    let mut evidence = Evidence::default();
    if metrics.lost_packets == 0 {
        return (Pattern::None, evidence);
    }
    let rtt = metrics.rtt.map_or(0, |rtt| rtt.median);
    episodes(transfer, rtt.max(MIN_ROUND), &mut evidence, scratch);
    overshoot(
        transfer,
        rtt.max(MIN_ROUND),
        metrics,
        &mut evidence,
        scratch,
    );
    stalls(
        transfer,
        MIN_STALL.max(2 * rtt),
        metrics.duration,
        &mut evidence,
    );
    scratch.clear();
    scratch.extend(transfer.sent.iter().map(|sent| f64::from(sent.in_flight)));
    let rank = (scratch.len() * 90).div_ceil(100) - 1;
    let (_, &mut flight, _) = scratch.select_nth_unstable_by(rank, f64::total_cmp);
    evidence.flight_packets = flight / f64::from(transfer.mss.max(1));

    let loss_rate = metrics.loss_rate();
    let pattern = if evidence.loss_episodes >= 3 && evidence.flight_packets <= DOUBLING_FLIGHT {
        Pattern::DoublingWindow
    } else if evidence.stalls >= 2
        && evidence.stalled >= STAIRCASE_STALLED
        && evidence.overshoot >= STAIRCASE_OVERSHOOT
    {
        Pattern::Staircase
    } else if evidence.loss_episodes >= 2
        && loss_rate <= AVOIDANCE_LOSS
        && evidence.stalled < STAIRCASE_STALLED
        && evidence.overshoot < STAIRCASE_OVERSHOOT
    {
        Pattern::CongestionAvoidance
    } else {
        Pattern::None
    };
    (pattern, evidence)
}

fn episodes(transfer: &Transfer<'_>, apart: Nanos, evidence: &mut Evidence, sizes: &mut Vec<f64>) {
    sizes.clear();
    let mut last: Option<Nanos> = None;
    for sent in transfer.sent.iter().filter(|sent| sent.lost()) {
        match (last, sizes.last_mut()) {
            (Some(last), Some(size)) if sent.at.saturating_sub(last) < apart => *size += 1.0,
            _ => sizes.push(1.0),
        }
        last = Some(sent.at);
    }
    evidence.loss_episodes = sizes.len() as u32;
    evidence.losses_per_episode = median(sizes).unwrap_or(0.0);
}

/// How fast the sender went in the round trip before the first loss of each episode.
fn overshoot(
    transfer: &Transfer<'_>,
    round: Nanos,
    metrics: &Metrics,
    evidence: &mut Evidence,
    rates: &mut Vec<f64>,
) {
    let Some(goodput) = metrics.goodput_bps().filter(|&rate| rate > 0.0) else {
        return;
    };
    rates.clear();
    // The packets of the round trip up to the current one, as a window of indices.
    let (mut first, mut bytes) = (0, 0u64);
    let mut last_loss: Option<Nanos> = None;
    for sent in transfer.sent {
        bytes += u64::from(sent.len);
        while sent.at.saturating_sub(transfer.sent[first].at) > round {
            bytes -= u64::from(transfer.sent[first].len);
            first += 1;
        }
        if sent.lost() {
            if last_loss.is_none_or(|last| sent.at.saturating_sub(last) >= round) {
                rates.push(bytes as f64 * 8e9 / round as f64 / goodput);
            }
            last_loss = Some(sent.at);
        }
    }
    evidence.overshoot = median(rates).unwrap_or(0.0);
}

/// Progress is a packet that the network let through; a stall is the time between two.
fn stalls(transfer: &Transfer<'_>, long: Nanos, duration: Nanos, evidence: &mut Evidence) {
    let mut last: Option<&Sent> = None;
    let mut lost_between = false;
    let mut stalled = 0;
    for sent in transfer.sent {
        if sent.lost() {
            lost_between = true;
            continue;
        }
        if let Some(before) = last {
            let pause = sent.at.saturating_sub(before.at);
            if pause >= long && lost_between {
                evidence.stalls += 1;
                stalled = pause.saturating_add(stalled);
            }
        }
        last = Some(sent);
        lost_between = false;
    }
    if duration > 0 {
        evidence.stalled = stalled.min(duration) as f64 / duration as f64;
    }
}
