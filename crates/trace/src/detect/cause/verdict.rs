//! The verdict on a transfer: its losses, its delay and its course taken together.

use super::course::{Course, Held};
use super::departures;
use super::evidence::{self, Findings};
use super::limiter::{Limiter, Losses, Mechanism};
use super::receiver::Trains;
use super::shift::Shift;
use crate::annotate::{Layer, TransferSummary, Vantage};
use crate::detect::{Basis, Cause, Estimate, Judgement, Limit, QueueKind, Share};
use crate::read::Nanos;

/// What held a transfer back while neither end did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Network {
    pub cause: Cause,
    /// How often such a verdict was right in the lab (studies/verdict).
    pub confidence: f64,
    pub reason: &'static str,
    /// The causes between which nothing decides.
    pub left: &'static [Cause],
}

impl Network {
    /// Whether a level shift tells more. A bucket that explains losses without delay does not shift
    /// anything.
    fn allows_shift(&self) -> bool {
        matches!(
            self.cause,
            Cause::Queue | Cause::Aqm | Cause::Sender | Cause::RoundTrips | Cause::Unclear
        )
    }

    /// What remains of it where the capture was taken behind the losses. When a packet that is lost before
    /// would have come is a guess there, and what comes has passed the bottleneck: only its queue still
    /// shows, in the delay, and a policer that lets trains pass faster than its rate.
    fn seen_behind_losses(self, queued: bool, shows_policer: bool) -> Self {
        let guessed = matches!(
            self.cause,
            Cause::Policer | Cause::ShaperBurst | Cause::Aqm | Cause::RandomLoss
        );
        if !guessed {
            return self;
        }
        if shows_policer && self.cause == Cause::Policer {
            return Self {
                confidence: 0.9,
                reason: "losses fit a policer that lets bursts pass faster than its rate",
                ..self
            };
        }
        Self {
            cause: Cause::Unclear,
            confidence: 0.5,
            reason: "a capture behind the losses, which does not show when packets were lost",
            left: match queued {
                true => &[Cause::Policer, Cause::Queue, Cause::Aqm, Cause::RandomLoss],
                false => &[Cause::Policer, Cause::Aqm, Cause::RandomLoss],
            },
        }
    }

    /// What remains of it where no bucket explains the losses, and the capture missed packets that may have filled it.
    fn seen_through_holes(self, summary: &TransferSummary, losses: Option<&Losses>) -> Self {
        let by_delay = matches!(self.cause, Cause::Queue | Cause::Aqm | Cause::RandomLoss)
            && losses.is_some_and(|losses| losses.limiter.is_none());
        if !by_delay || !summary.tally.is_holed() {
            return self;
        }
        Self {
            cause: Cause::Unclear,
            confidence: 0.5,
            reason: "a capture that missed too many packets to say what dropped others",
            left: &[Cause::Policer, Cause::Queue, Cause::Aqm, Cause::RandomLoss],
        }
    }

    /// What remains of it where the capture was not taken at the sender. Bytes in flight are a guess there, and so is whether
    /// they filled the receive window; and at the receiver nothing shows what waits at the sender or in a short queue before
    /// it.
    fn seen_from_afar(self, vantage: Vantage, course: Option<&Course>) -> Self {
        let window = course.is_some_and(|course| course.window >= PART);
        let unclear = |reason, left| Self {
            cause: Cause::Unclear,
            confidence: 0.5,
            reason,
            left,
        };
        match (self.cause, vantage) {
            (Cause::Sender, Vantage::Between | Vantage::Receiver) if window => unclear(
                "a capture far from the sender, which does not show how full the receive window was",
                &[Cause::ReceiveWindow, Cause::Sender],
            ),
            (Cause::Sender, Vantage::Receiver) => unclear(
                "a capture at the receiver, which does not tell a sender's pace from that of a link",
                &[Cause::Sender, Cause::Queue],
            ),
            _ => self,
        }
    }
}

/// A cause that limits a transfer for this share of its time decides alone.
const DECIDES: f64 = 0.5;
/// A cause with a smaller share than this is not part of a mixture.
const PART: f64 = 0.25;
/// From this share of losses on, a policer slows a sender down for all of the time.
const MANY: f64 = 0.05;
/// With fewer data packets all went out in the first round trips.
const FEW_PACKETS: u64 = 11;
/// With this many episodes, ranks of the delay beside losses that exceed 1/2 by fewer standard errors than this say that
/// losses come at any delay, where that is less than this many times the path's noise.
const RANKED: usize = 3;
const ANY_RANK: f64 = 1.0;
const RANKED_NOISE: f64 = 3.0;
/// With fewer episodes, a mean rank above this is that of a queue which drops.
const HIGH_RANK: f64 = 0.7;
/// Delay beside losses, in seconds, that no queue shows; and that none shows where it is not among the longest.
const FLAT: f64 = 0.000_5;
const HARDLY: f64 = 0.001;
/// On a path with jitter: not above the median delay, below this many times the path's noise, and below
/// this share of the 95th percentile of delays.
const NOISY: f64 = 2.0;
const LOW: f64 = 0.6;
/// The greatest delay beside each loss, at the median over the losses, is at least this share of the
/// 95th percentile, and hardly differs, where a queue drops when it is full.
const PEAK: f64 = 0.97;
const SAME_PEAK: f64 = 0.08;
/// On a slow line it may differ by a packet's time, and be less than that of packets whose acknowledgement the
/// receiver held back, where a bucket explains this much.
const NEAR_PEAK: f64 = 0.7;
const SIMILAR_PEAK: f64 = 0.3;
const HINTED: f64 = 0.2;
/// Where packets waited before a bottleneck, and beside three quarters of the losses for longer than this many
/// times the path's noise, the losses are no chance.
const WAITED: f64 = 1.0;
/// It takes this many losses to be sure of that, or a bucket that explains no less than this.
const PEAKS: usize = 10;
const NOT_CONTRADICTED: f64 = -0.03;
/// A full queue's delay stands out: at losses it is at least this share of the 95th percentile …
const FULL: f64 = 0.8;
/// … and hardly differs between losses: the quartiles' distance over the median.
const STEADY: f64 = 0.3;
/// Managed queues drop at delays that are exceeded often, or that differ.
const EXCEEDED: f64 = 0.75;
const VARIED: f64 = 0.5;
/// No managed queue lets packets wait for as long, in seconds, unless it drops often.
const BLOATED: f64 = 1.0;
/// Delays beside the losses that hardly differ: the quartiles' distance over the median.
const ALIKE: f64 = 0.05;
/// With few episodes, a delay below this, in seconds, or below a multiple of the path's noise, may be
/// the path's.
const FEW_DELAY: f64 = 0.003;
const FEW_NOISE: f64 = 4.0;
/// A second, in nanoseconds.
const SECOND: Nanos = 1_000_000_000;
/// Episodes of losses without which their delay says little.
const EPISODES: usize = 3;

/// Judges a transfer, given the path's round-trip time in seconds, the time in which the sender was held back, what explains its
/// losses, and its fastest trains behind the losses; the first and the third from packets of up to a basis.
pub(super) fn judge(
    summary: &TransferSummary,
    base: Option<f64>,
    held: Held,
    losses: Option<&Losses>,
    trains: Option<Trains>,
    shift: Option<&Shift>,
    basis: Basis,
) -> Judgement {
    // Where all packets have the same time, or times are whole seconds, nothing can be said.
    let metrics = &summary.metrics;
    let whole = |time: Nanos| time.is_multiple_of(SECOND);
    let untimed = whole(metrics.first_sent) && whole(metrics.duration);
    let timeless = metrics.data_packets > 1 && (metrics.duration == 0 || untimed);
    let (losses, shift) = match timeless {
        true => (None, None),
        false => (losses, shift),
    };
    let course = Course::of(summary, base, held).filter(|_| !timeless);
    let behind = summary.is_behind_losses();
    let shows_policer = trains
        .zip(losses)
        .is_some_and(|(trains, losses)| trains.show_policer(losses));
    let network = match timeless {
        true => Network {
            cause: Cause::Unclear,
            confidence: 0.5,
            reason: match metrics.duration {
                0 => "all packets have the same time",
                _ => "times are whole seconds",
            },
            left: &[],
        },
        false => {
            let network = network(course.as_ref(), losses);
            let queued = course.is_some_and(|course| course.queued);
            match behind {
                true => network.seen_behind_losses(queued, shows_policer),
                false => network,
            }
        }
    };
    let network = network.seen_through_holes(summary, losses);
    let network = network.seen_from_afar(summary.path.vantage(), course.as_ref());
    let network = match shift {
        Some(_) if network.allows_shift() => Network {
            cause: Cause::ShaperBurst,
            confidence: 0.95,
            reason: "fast without delay at first, then slower from a queue",
            left: &[],
        },
        _ => network,
    };
    let shares = shares(
        course.as_ref(),
        network.cause,
        summary.metrics.loss_rate(),
        shift,
    );
    let (cause, confidence, reason) = decide(summary, course.as_ref(), network, &shares);
    let mut judgement = Judgement::new(cause, reason);
    // The lab has no transfers that several causes limited, and none that the capture holds with gaps.
    let holed = summary.tally.is_holed();
    let measured = cause == Cause::Unclear || cause != Cause::Mixed && !holed;
    judgement.confidence = measured.then_some(confidence);
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
            judgement.limit = limit(&limiter).filter(|_| !holed || cause != Cause::Queue);
            if let Some(limit) = &mut judgement.limit
                && behind
            {
                // What a queue holds shows by when losses came to it, and that is a guess there.
                limit.depth_bytes = None;
            }
            // Nor is it known there what makes the bucket's level uncertain.
            let known = !behind || !limiter.unseen_users;
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
        course,
        losses: losses.copied(),
        shift: shift.copied(),
    };
    judgement.evidence = evidence::sentences(summary, cause, &findings);
    if !timeless {
        judgement.ruled_out = evidence::ruled_out(summary, cause, &judgement.left, &findings);
    }
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

fn network(course: Option<&Course>, losses: Option<&Losses>) -> Network {
    let unclear = |left, reason| Network {
        cause: Cause::Unclear,
        confidence: 0.5,
        reason,
        left,
    };
    let found = |cause, confidence, reason| Network {
        cause,
        confidence,
        reason,
        left: &[],
    };
    let Some(losses) = losses else {
        return match course {
            Some(course) if course.queued => found(
                Cause::Queue,
                0.9,
                "packets waited in a queue that did not overflow",
            ),
            Some(course) if course.doubling >= DECIDES => {
                found(Cause::RoundTrips, 0.9, "over before the window had grown")
            }
            Some(course) if course.might_be_queued => unclear(
                &[Cause::Sender, Cause::Queue],
                "the sender's pacing, or a bottleneck with hardly a queue",
            ),
            Some(_) => found(Cause::Sender, 0.9, "the sender's window or pacing"),
            None => unclear(&[], "no round-trip times"),
        };
    };
    match losses.limiter {
        Some(limiter) => match limiter.mechanism {
            Mechanism::Policer if limiter.unseen_users => found(
                Cause::Policer,
                0.9,
                "losses fit a policer that others use too",
            ),
            Mechanism::Policer => found(
                Cause::Policer,
                0.98,
                "losses fit a token bucket without a queue",
            ),
            Mechanism::Queue => found(Cause::Queue, 0.97, "losses fit a queue that is full"),
            Mechanism::Either => unclear(
                &[Cause::Policer, Cause::Queue],
                "a policer, or a queue of less than a millisecond",
            ),
            Mechanism::BurstShaper => found(
                Cause::ShaperBurst,
                0.95,
                "a burst passes, then a queue fills",
            ),
        },
        None => unexplained(losses, course.is_some_and(|course| course.queued)),
    }
}

/// The cause of losses that no bucket explains, by the delay beside them, and by whether packets waited before a
/// bottleneck.
fn unexplained(losses: &Losses, queued: bool) -> Network {
    let unclear = |left, reason| Network {
        cause: Cause::Unclear,
        confidence: 0.5,
        reason,
        left,
    };
    let known = losses.delay.and_then(|delay| {
        let (near, median, upper) = (delay.near?, delay.median?, delay.upper?);
        Some((near, median, upper, delay.noise, delay.rank))
    });
    let Some((near, median, upper, noise, rank)) = known else {
        return unclear(&[], "no round-trip times beside the losses");
    };
    let top = near.median / upper.max(1e-9);
    let spread = (near.upper - near.lower) / near.median.max(1e-9);
    let unrelated = !(queued && near.lower > WAITED * noise)
        && near.median <= median
        && near.median < NOISY * noise
        && near.upper < 2.0 * NOISY * noise
        && top < LOW;
    let any_rank = !queued
        && near.median < RANKED_NOISE * noise
        && rank.is_some_and(|rank| rank.episodes >= RANKED && rank.excess() < ANY_RANK);
    let high = rank.is_some_and(|rank| rank.mean > HIGH_RANK);
    let hardly_waited = near.median < FLAT || near.median < HARDLY && !high;
    if hardly_waited || unrelated || any_rank {
        return match losses.might_be_policed {
            true => unclear(
                &[Cause::Policer, Cause::RandomLoss],
                "a policer that others use too, or random loss",
            ),
            false => Network {
                cause: Cause::RandomLoss,
                confidence: 0.9,
                reason: "losses at any rate and delay",
                left: &[],
            },
        };
    }
    let few_episodes = losses.episodes < EPISODES;
    let contradicted = losses.explained.is_none_or(|explained| explained < 0.0);
    let [lower_peak, peak, upper_peak] = near.peaks;
    let spread_of_peaks = upper_peak - lower_peak;
    let at_peak = top >= FULL && peak >= PEAK * upper && spread_of_peaks < SAME_PEAK * peak;
    let many = near.losses >= PEAKS && !few_episodes;
    // A full queue delays all that it holds alike, by its size.
    let steady = near.losses < PEAKS || spread.min(spread_of_peaks / peak.max(1e-9)) < SAME_PEAK;
    if top >= FULL && spread < STEADY && steady && !contradicted || at_peak && many {
        return Network {
            cause: Cause::Queue,
            confidence: 0.8,
            reason: "losses where the delay is at its highest",
            left: &[],
        };
    }
    let hardly = losses
        .explained
        .is_some_and(|explained| explained > NOT_CONTRADICTED);
    if at_peak && (hardly || near.losses >= PEAKS) {
        return unclear(
            &[Cause::Queue, Cause::Aqm],
            "a full queue, or a managed one",
        );
    }
    if few_episodes && !high && near.median < FEW_DELAY.max(FEW_NOISE * noise) {
        return unclear(
            &[Cause::Aqm, Cause::RandomLoss],
            "a managed queue, or random loss",
        );
    }
    let hinted = losses.explained.is_some_and(|explained| explained > HINTED);
    if hinted && peak >= NEAR_PEAK * upper && spread_of_peaks < SIMILAR_PEAK * peak {
        return Network {
            cause: Cause::Queue,
            confidence: 0.7,
            reason: "losses where the delay of some packets is at its highest",
            left: &[],
        };
    }
    // A queue that is full once or twice, for seconds, loses what it may at any delay; and on a slow line what waited for
    // as long is exceeded by what the receiver acknowledged later.
    let bloated = few_episodes && near.median > BLOATED;
    let alike = near.upper - near.lower < ALIKE * near.median && hinted;
    let exceeded = top < EXCEEDED || spread > VARIED || !steady || contradicted;
    if exceeded && !bloated && !alike {
        return Network {
            cause: Cause::Aqm,
            confidence: 0.85,
            reason: "losses at delays that other packets exceed",
            left: &[],
        };
    }
    unclear(
        &[Cause::Queue, Cause::Aqm],
        "a full queue, or a managed one",
    )
}

/// How the transfer's time divides between the ends and the network.
fn shares(
    course: Option<&Course>,
    network: Cause,
    loss_rate: f64,
    shift: Option<&Shift>,
) -> Vec<Share> {
    let Some(course) = course else {
        return Vec::new();
    };
    // A window that is full of what waits in a shaper's queue bounds the queue, not the rate.
    let window = match shift.filter(|_| network == Cause::ShaperBurst) {
        Some(shift) => course
            .window
            .min(shift.switch.after as f64 / 1e9 / course.duration),
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

/// The cause with the most time, or that several have a part.
fn decide(
    summary: &TransferSummary,
    course: Option<&Course>,
    network: Network,
    shares: &[Share],
) -> (Cause, f64, &'static str) {
    let few = summary.metrics.data_packets < FEW_PACKETS && summary.metrics.lost_packets == 0;
    let idle = course.is_some_and(|course| course.idle >= DECIDES);
    if few && !idle {
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
