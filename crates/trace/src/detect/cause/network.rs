//! What held a transfer back on the way, by its losses and its delay, and what of that a capture can show where it was taken.

use super::course::Course;
use super::limiter::{Losses, Mechanism};
use super::receiver::Seen;
use crate::annotate::{TransferSummary, Vantage};
use crate::detect::Cause;

/// A full window, and what may have filled it.
const WINDOW_OR_QUEUE: &[Cause] = &[Cause::ReceiveWindow, Cause::Queue];
/// A cause that limits a transfer for this share of its time decides alone.
pub(super) const DECIDES: f64 = 0.5;
/// A cause with a smaller share than this is not part of a mixture.
pub(super) const PART: f64 = 0.25;
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
/// How often it is one then.
const BY_PEAKS: f64 = 0.7;
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
/// Episodes of losses without which their delay says little.
const EPISODES: usize = 3;

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
    pub(super) fn allows_shift(&self) -> bool {
        matches!(
            self.cause,
            Cause::Queue | Cause::Aqm | Cause::Sender | Cause::RoundTrips | Cause::Unclear
        )
    }

    /// Whether a receive window that is full is, or may be, full of what waits in a queue.
    pub(super) fn fills_window(&self, course: &Course) -> bool {
        let queue = matches!(self.cause, Cause::Queue | Cause::Aqm | Cause::ShaperBurst);
        queue && course.busy || self.left == WINDOW_OR_QUEUE
    }

    /// What remains of it where the capture was taken behind the losses. When a packet that is lost before
    /// would have come is a guess there, and what comes has passed the bottleneck: only its queue still
    /// shows, in the delay, and a policer that lets trains pass faster than its rate. `burst`: one may have passed before
    /// the queue filled.
    pub(super) fn seen_behind_losses(self, queued: bool, shows_policer: bool, burst: bool) -> Self {
        if self.cause == Cause::Queue && burst {
            return Self {
                cause: Cause::Unclear,
                confidence: 0.5,
                reason: "a capture behind the losses, which does not show whether a burst passed before packets waited",
                left: &[Cause::Queue, Cause::ShaperBurst],
            };
        }
        // Of queues that show by the greatest delays only, fewer than half were queues there (studies/verdict).
        let hardly_shows = self.cause == Cause::Queue && self.confidence <= BY_PEAKS;
        let guessed = hardly_shows
            || matches!(
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
            left: match queued || hardly_shows {
                true => &[Cause::Policer, Cause::Queue, Cause::Aqm, Cause::RandomLoss],
                false => &[Cause::Policer, Cause::Aqm, Cause::RandomLoss],
            },
        }
    }

    /// What remains of a policer with other users that the sender's clock hardly shows.
    pub(super) fn doubted(self) -> Self {
        if self.cause != Cause::Policer {
            return self;
        }
        Self {
            cause: Cause::Unclear,
            confidence: 0.5,
            reason: "a policer that others use too, or random loss",
            left: &[Cause::Policer, Cause::RandomLoss],
        }
    }

    /// What remains of it where no bucket explains the losses, and the capture missed packets that may have filled it.
    pub(super) fn seen_through_holes(
        self,
        summary: &TransferSummary,
        losses: Option<&Losses>,
    ) -> Self {
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

    /// What it is where nothing was lost, and the receiver echoed congestion marks: a queue that marks is a managed one. Some
    /// limiters mark without a queue.
    pub(super) fn seen_with_marks(
        self,
        summary: &TransferSummary,
        course: Option<&Course>,
        losses: Option<&Losses>,
    ) -> Self {
        let by_delay = losses.is_none() && self.cause != Cause::ShaperBurst;
        let Some(course) = course.filter(|_| by_delay && summary.metrics.is_marked()) else {
            return self;
        };
        match course.queued || course.might_be_queued {
            true => Self {
                cause: Cause::Aqm,
                confidence: 0.85,
                reason: "packets were marked (ECN), not dropped",
                left: &[],
            },
            false => Self {
                cause: Cause::Unclear,
                confidence: 0.5,
                reason: "packets were marked (ECN), though hardly any waited",
                left: &[Cause::Policer, Cause::Aqm],
            },
        }
    }

    /// What remains of it where the capture was not taken at the sender. Bytes in flight are a guess there, and so is whether
    /// they filled the receive window; at the receiver nothing shows what waits at the sender or in a short queue before it; and
    /// on the way only timestamps show what waits before the capture.
    pub(super) fn seen_from_afar(
        self,
        summary: &TransferSummary,
        course: Option<&Course>,
        seen: Seen,
    ) -> Self {
        let window = course.is_some_and(|course| course.window >= PART);
        let unclear = |reason, left| Self {
            cause: Cause::Unclear,
            confidence: 0.5,
            reason,
            left,
        };
        let before = summary.metrics.rtt_to_sender;
        match (self.cause, summary.path.vantage()) {
            (Cause::Queue, Vantage::Between | Vantage::Receiver)
                if window && course.is_some_and(|course| !course.busy) =>
            {
                unclear(
                    "a capture far from the sender, which does not show whether the receive window was full of what waited in \
                     a queue",
                    WINDOW_OR_QUEUE,
                )
            }
            (Cause::Sender, Vantage::Between | Vantage::Receiver) if window => unclear(
                "a capture far from the sender, which does not show how full the receive window was",
                &[Cause::ReceiveWindow, Cause::Sender],
            ),
            (Cause::Sender, Vantage::Receiver) if seen.is_guess() => unclear(
                "a capture at the receiver, which does not tell a sender's pace from that of a link",
                &[Cause::Sender, Cause::Queue],
            ),
            (Cause::Sender, Vantage::Between) if before.is_none() => unclear(
                "a capture on the way without timestamps, which does not show what waits before it",
                &[Cause::Sender, Cause::Queue],
            ),
            _ => self,
        }
    }
}

/// What held a transfer back on the way, given how it went and what explains its losses.
pub(super) fn network(course: Option<&Course>, losses: Option<&Losses>) -> Network {
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
            confidence: BY_PEAKS,
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
