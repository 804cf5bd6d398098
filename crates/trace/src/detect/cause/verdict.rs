//! The verdict on a transfer: its losses, its delay and its course taken together.

use super::course::{Course, Held, is_timeless};
use super::departures;
use super::evidence::Findings;
use super::limiter::{LEAST_LOSSES, Limiter, Losses};
use super::network::{DECIDES, Network, PART, network};
use super::receiver::Seen;
use super::shift::Shift;
use crate::annotate::{Layer, TransferSummary, Vantage};
use crate::detect::{Basis, Cause, Estimate, Judgement, Limit, QueueKind, Share};

/// From this share of losses on, a policer slows a sender down for all of the time.
const MANY: f64 = 0.05;
/// With fewer data packets all went out in the first round trips …
const FEW_PACKETS: u64 = 11;
/// … and took no longer than this many.
const FEW_ROUNDS: u64 = 4;

/// Judges a transfer, given the path's round-trip time in seconds, the time in which the sender was held back, what explains its
/// losses, and how the capture shows when they came; the first and the third from packets of up to a basis.
pub(super) fn judge(
    summary: &TransferSummary,
    base: Option<f64>,
    held: Held,
    losses: Option<&Losses>,
    seen: Seen,
    shift: Option<&Shift>,
    basis: Basis,
) -> Judgement {
    let timeless = is_timeless(summary);
    // What comes to a receiver has passed the shaper: it does not show how long each packet waited there.
    let shift = shift.filter(|_| !seen.is_guess() || summary.path.vantage() != Vantage::Receiver);
    let (losses, shift) = match timeless {
        true => (None, None),
        false => (losses, shift),
    };
    let course = Course::of(summary, base, held, seen.waited()).filter(|_| !timeless);
    let behind = seen.is_guess();
    let shows_policer = seen.shows_policer(losses);
    let network = match timeless {
        true => Network {
            cause: Cause::Unclear,
            confidence: 0.5,
            reason: match summary.metrics.duration {
                0 => "all packets have the same time",
                _ => "times are whole seconds",
            },
            left: &[],
        },
        false => {
            let network = network(course.as_ref(), losses);
            let queued = course.is_some_and(|course| course.queued);
            match seen {
                Seen::Directly => network,
                Seen::ByStamps(_) if seen.doubts(losses) => network.doubted(),
                Seen::ByStamps(_) => network,
                Seen::Behind { slowed, .. } => {
                    let fitted = losses.is_some_and(|losses| losses.limiter.is_some());
                    network.seen_behind_losses(queued, shows_policer, fitted || slowed)
                }
            }
        }
    };
    let network = match network.cause {
        // What slows it down are the losses of the transfer that it goes on.
        Cause::Policer if summary.metrics.lost_packets < LEAST_LOSSES as u64 => Network {
            reason: "goes on a transfer whose losses fit a token bucket without a queue",
            ..network
        },
        _ => network,
    };
    let network = network.seen_through_holes(summary, losses);
    let network = network.seen_with_marks(summary, course.as_ref(), losses);
    let network = network.seen_from_afar(summary, course.as_ref(), seen);
    let network = match shift {
        Some(_) if network.allows_shift() => Network {
            cause: Cause::ShaperBurst,
            confidence: 0.95,
            reason: "fast without delay at first, then slower from a queue",
            left: &[],
        },
        _ => network,
    };
    let shares = shares(course.as_ref(), network, summary.metrics.loss_rate(), shift);
    let (cause, confidence, reason) = decide(summary, course.as_ref(), network, &shares);
    let mut judgement = Judgement::new(cause, reason);
    // The lab has no transfers that several causes limited, and none that the capture holds with gaps. `unclear` names no cause that
    // could be right.
    let holed = summary.tally.is_holed();
    // Nor do its senders use ECN. What they did for marks a fit to losses does not know.
    let marked = summary.metrics.is_marked();
    let by_ends = matches!(
        cause,
        Cause::Application | Cause::ReceiveWindow | Cause::RoundTrips
    );
    let measured =
        !matches!(cause, Cause::Mixed | Cause::Unclear) && !holed && (!marked || by_ends);
    // Without losses nothing shows that a capture was taken before what limits, if its place is not known.
    let anywhere = summary.path.vantage() == Vantage::Unknown && losses.is_none();
    let place = match seen {
        Seen::Directly if anywhere => Seen::UNKNOWN,
        seen => seen,
    };
    judgement.confidence = measured.then(|| place.confidence(cause, confidence));
    judgement.shares = shares;
    if cause == Cause::Unclear {
        judgement.left = network.left.to_vec();
    }
    let limiter = losses.and_then(|losses| losses.limiter);
    let by_shift = shift.filter(|_| cause == Cause::ShaperBurst);
    if let Some(limiter) = limiter.filter(|limiter| by_shift.is_none() || limiter.burst.is_some()) {
        judgement.basis = limiter.basis;
        if limits(cause) {
            // A queue is fitted to fewer packets than passed it.
            // Nor are times by the sender's clock exact enough: of such intervals only 83 % held the rate (studies/verdict).
            let is_rough = matches!(seen, Seen::ByStamps(_)) && cause != Cause::ShaperBurst;
            let is_known = !is_rough && !marked && (!holed || cause != Cause::Queue);
            judgement.limit = limit(&limiter).filter(|_| is_known);
            if let Some(limit) = &mut judgement.limit
                && behind
            {
                // What a queue holds shows by when losses came to it, and that is a guess there.
                limit.depth_bytes = None;
            }
            // Nor is it known there what makes the bucket's level uncertain.
            let known = !marked && (!behind || !limiter.unseen_users);
            // Nor, where the capture missed packets, who took from it.
            let known = known && !(holed && limiter.unseen_users);
            let known = known && (limiter.shared || limiter.leaves_nothing_to_others());
            judgement.shared = known.then_some(limiter.shared);
        }
    } else if let Some(shift) = by_shift {
        judgement.limit = Some(limit_by_shift(shift));
    } else if losses.is_some() || !rests_on_itself(summary, base) {
        judgement.basis = basis;
    }
    if matches!(cause, Cause::Queue | Cause::Aqm) {
        judgement.limit = departures::limit(summary, judgement.limit);
    }
    if cause == Cause::Queue {
        judgement.queue_kind = Some(match losses {
            Some(_) => QueueKind::DropTail,
            None => QueueKind::Standing,
        });
    }
    if cause == Cause::Aqm {
        let managed = losses.and_then(|losses| losses.managed);
        judgement.aqm_kind = managed.map(|managed| managed.kind);
    }
    let findings = Findings {
        behind,
        course,
        losses: losses.copied(),
        shift: shift.copied(),
    };
    judgement.with_details(findings)
}

/// Whether the path's round-trip time, in seconds, is the transfer's least.
fn rests_on_itself(summary: &TransferSummary, base: Option<f64>) -> bool {
    let least = summary.metrics.rtt.map(|rtt| rtt.min as f64 / 1e9);
    least.zip(base).is_none_or(|(least, base)| least <= base)
}

/// Whether a cause has a rate.
fn limits(cause: Cause) -> bool {
    matches!(cause, Cause::Policer | Cause::Queue | Cause::ShaperBurst)
}

/// The limiter's settings, where they are known.
fn limit(limiter: &Limiter) -> Option<Limit> {
    let (rate, depth) = limiter.intervals?;
    Some(Limit {
        rate_bps: Estimate {
            value: limiter.bucket.rate * 8.0,
            low: rate.low * 8.0,
            high: rate.high * 8.0,
        },
        layer: Layer::Link,
        burst: limiter.burst,
        // How full the bucket was when a single transfer began is not known, and so neither is its depth.
        depth_bytes: depth
            .filter(|_| limiter.basis != Basis::Segment)
            .map(|depth| Estimate {
                value: limiter.bucket.depth,
                low: depth.low,
                high: depth.high,
            }),
    })
}

/// What a level shift tells of a shaper.
fn limit_by_shift(shift: &Shift) -> Limit {
    Limit {
        rate_bps: Estimate {
            value: shift.rate * 8.0,
            low: (shift.rate - shift.uncertain) * 8.0,
            high: (shift.rate + shift.uncertain) * 8.0,
        },
        layer: Layer::Link,
        // Its queue did not overflow, and how much of the allowance the transfer found is not known.
        depth_bytes: None,
        burst: Some(shift.burst()),
    }
}

/// How the transfer's time divides between the ends and the network.
fn shares(
    course: Option<&Course>,
    network: Network,
    loss_rate: f64,
    shift: Option<&Shift>,
) -> Vec<Share> {
    let Some(course) = course else {
        return Vec::new();
    };
    // A window that is full of what waits in a queue bounds the queue, not the rate.
    let fills_window = network.fills_window(course);
    let network = network.cause;
    let window = match shift.filter(|_| network == Cause::ShaperBurst) {
        Some(shift) => course
            .window
            .min(shift.switch.after as f64 / 1e9 / course.duration),
        None if fills_window => 0.0,
        None => course.window,
    };
    // Where nothing was in flight while the window was full, it was the receiver that held the transfer back.
    // A sender that a policer slows down below a packet a round trip is not idle for lack of data.
    let waits = network == Cause::Policer && loss_rate >= MANY;
    let idle = match waits {
        true => 0.0,
        false => course.idle_or_starved(DECIDES).min(1.0 - window),
    };
    let rest = (1.0 - idle - window).max(0.0);
    let repairing = course.repairing.min(rest);
    let rest = rest - repairing;
    // Until the window has grown, only the round trips limit; a network that drops or queues ends that.
    let doubling = match network {
        Cause::Sender | Cause::RoundTrips => course.doubling.min(rest),
        _ => 0.0,
    };
    let others = match network {
        Cause::RoundTrips => Cause::Sender,
        other => other,
    };
    let mut shares = vec![
        Share {
            cause: Cause::Application,
            share: idle,
        },
        Share {
            cause: Cause::ReceiveWindow,
            share: window,
        },
        Share {
            cause: Cause::RoundTrips,
            share: doubling,
        },
        Share {
            cause: Cause::Sender,
            share: repairing,
        },
    ];
    let others = Share {
        cause: others,
        share: rest - doubling,
    };
    match shares.iter_mut().find(|share| share.cause == others.cause) {
        Some(same) => same.share += others.share,
        None => shares.push(others),
    }
    shares.retain(|share| share.share > 0.0);
    shares.sort_by(|a, b| b.share.total_cmp(&a.share));
    shares
}

/// Whether a transfer of few packets, whose round-trip times are not known, took no longer than they need: otherwise they may
/// have waited for anything.
fn is_short(summary: &TransferSummary) -> bool {
    let metrics = &summary.metrics;
    let round_trip = summary.path.round_trip().unwrap_or(0);
    metrics.data_packets == 1 || metrics.duration <= FEW_ROUNDS * round_trip
}

/// The cause with the most time, or that several have a part.
fn decide(
    summary: &TransferSummary,
    course: Option<&Course>,
    network: Network,
    shares: &[Share],
) -> (Cause, f64, &'static str) {
    let few = summary.metrics.data_packets < FEW_PACKETS && summary.metrics.lost_packets == 0;
    let idle = course.is_some_and(|course| course.idle >= DECIDES);
    if few && !idle && (course.is_some() || is_short(summary)) {
        return (Cause::RoundTrips, 0.9, "too few packets for anything else");
    }
    let Some(first) = shares.first() else {
        return (network.cause, network.confidence, network.reason);
    };
    let second = shares.get(1).map_or(0.0, |share| share.share);
    if first.share < DECIDES && second >= PART && first.cause != Cause::ReceiveWindow {
        return (
            Cause::Mixed,
            0.7,
            "several causes, each for a part of the time",
        );
    }
    match first.cause {
        Cause::Application => (
            Cause::Application,
            0.95,
            "nothing to send for most of the time",
        ),
        Cause::ReceiveWindow => (Cause::ReceiveWindow, 0.95, "the receive window was full"),
        Cause::RoundTrips => (Cause::RoundTrips, 0.9, "over before the window had grown"),
        Cause::Sender if !matches!(network.cause, Cause::Sender | Cause::RoundTrips) => {
            (Cause::Sender, 0.9, "one loss was repaired a round trip")
        }
        _ if network.cause == Cause::RoundTrips => {
            (Cause::Sender, 0.9, "the sender's window or pacing")
        }
        _ => (network.cause, network.confidence, network.reason),
    }
}

#[cfg(test)]
mod tests;
