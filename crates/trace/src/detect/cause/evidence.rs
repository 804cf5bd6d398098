//! The numbers behind a verdict, in sentences; `against` says why it was nothing else.

mod against;

use std::borrow::Cow;

use super::course::Course;
use super::limiter::{Limiter, Losses, Mechanism};
use super::managed::Managed;
use super::shift::Shift;
use crate::annotate::TransferSummary;
use crate::detect::{AqmKind, Basis, Cause};

pub(super) use against::ruled_out;

type Sentence = Cow<'static, str>;

/// What the detector measured of a transfer: the details of a [`Judgement`](crate::detect::Judgement)
/// of the detector `tidegate`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Findings {
    /// How the transfer went; `None` where no round-trip time is known.
    pub course: Option<Course>,
    /// What became of the search for a limiter; `None` with fewer losses than
    /// [`LEAST_LOSSES`](super::LEAST_LOSSES).
    pub losses: Option<Losses>,
    /// Where its packets began to wait and to come slower.
    pub shift: Option<Shift>,
}

/// Below this factor a sender did not overshoot before its losses.
const OVERSHOT: f64 = 1.2;

/// What an end held back for this share of the time is told, whatever decided.
const PART: f64 = 0.2;

/// Why it is this cause.
pub(super) fn sentences(
    summary: &TransferSummary,
    cause: Cause,
    findings: &Findings,
) -> Vec<Sentence> {
    let mut said = vec![lost(summary)];
    if let Some(losses) = &findings.losses {
        about_losses(losses, &mut said);
    }
    let by_shift = findings.shift.filter(|_| cause == Cause::ShaperBurst);
    if let Some(shift) = by_shift {
        about_shift(&shift, &mut said);
    }
    let managed = findings.losses.and_then(|losses| losses.managed);
    if let Some(managed) = managed.filter(|_| cause == Cause::Aqm) {
        said.push(about_kind(&managed));
    }
    let Some(course) = &findings.course else {
        return said;
    };
    said.push(
        format!(
            "The transfer took {}, which is {:.0} of its round trips.",
            seconds(course.duration),
            course.rounds.max(1.0)
        )
        .into(),
    );
    match cause {
        Cause::Application => idle(summary, course, &mut said),
        Cause::ReceiveWindow => {
            said.push(window_full(course));
            said.extend(at_most_in_flight(summary));
        }
        Cause::Mixed => {
            if course.idle > 0.0 {
                idle(summary, course, &mut said);
            }
            if course.window > 0.0 {
                said.push(window_full(course));
            }
            said.push(waiting(course));
        }
        Cause::RoundTrips => said.push(
            format!(
                "Its window could still double in each round trip for {} of the time.",
                percent(course.doubling)
            )
            .into(),
        ),
        Cause::Sender if course.repairing >= PART => said.push(
            format!(
                "For {} of the time one loss was repaired a round trip: each retransmission waited for the \
                 acknowledgement of the one before, and none was lost.",
                percent(course.repairing)
            )
            .into(),
        ),
        Cause::Sender => {
            said.push(waiting(course));
            said.extend(at_most_in_flight(summary));
        }
        _ => {
            said.push(waiting(course));
            if matches!(cause, Cause::Queue | Cause::Aqm | Cause::ShaperBurst) {
                said.extend(spacing(summary));
            }
            if cause == Cause::ShaperBurst {
                said.extend(rtt_ratio(summary));
            }
            said.extend(overshoot(summary));
        }
    }
    if course.idle >= PART && !matches!(cause, Cause::Application | Cause::Mixed) {
        idle(summary, course, &mut said);
    }
    if course.window >= PART && !matches!(cause, Cause::ReceiveWindow | Cause::Mixed) {
        said.push(window_full(course));
    }
    said
}

fn lost(summary: &TransferSummary) -> Sentence {
    let metrics = &summary.metrics;
    let all = metrics.data_packets;
    let share = percent(metrics.loss_rate());
    let episodes = metrics.evidence.loss_episodes;
    match metrics.lost_packets {
        0 => format!("None of {all} data packets was lost."),
        1 => format!("1 of {all} data packets was lost ({share})."),
        lost if episodes > 1 => format!(
            "{lost} of {all} data packets were lost ({share}), at {episodes} separate times."
        ),
        lost => format!("{lost} of {all} data packets were lost ({share})."),
    }
    .into()
}

fn about_losses(losses: &Losses, said: &mut Vec<Sentence>) {
    if let Some(limiter) = &losses.limiter {
        about_limiter(limiter, said);
    }
    let Some(delay) = losses.delay.and_then(|delay| delay.at_losses()) else {
        return;
    };
    let waited = milliseconds(delay.max(0.0));
    said.push(match losses.limiter {
        Some(limiter)
            if !limiter.unseen_users && limiter.mechanism != Mechanism::BurstShaper =>
        format!(
            "Packets beside the median loss waited {waited}. A full queue of this size takes {} to drain.",
            milliseconds(limiter.bucket.depth / limiter.bucket.rate)
        )
        .into(),
        _ => format!("Packets beside the median loss waited {waited}.").into(),
    });
}

fn about_limiter(limiter: &Limiter, said: &mut Vec<Sentence>) {
    if limiter.unseen_users {
        said.push(
            "Packets were lost when a token bucket that others use too could have been empty, and \
             passed when it could not. This predicts the losses better than bursts of chance."
                .into(),
        );
        return;
    }
    let bucket = limiter.bucket;
    let fitted = match limiter.basis {
        Basis::Segment => "the packets of this transfer",
        Basis::Connection => "all packets of this connection",
        Basis::Client => "all packets that went to this client",
    };
    let (holds, of) = match limiter.mechanism {
        Mechanism::Queue => ("A queue", "that has room for"),
        _ => ("A token bucket", "that holds"),
    };
    said.push(
        format!(
            "{holds} of {} on the link {of} {}, fitted to {fitted}, explains {} of when packets were \
             lost (chance alone explains 0 %, a perfect model 100 %).",
            rate(bucket.rate * 8.0),
            bytes(bucket.depth),
            percent(limiter.explained),
        )
        .into(),
    );
    if limiter.shared {
        said.push("Other connections of this client pass through the same limiter.".into());
    }
    if let Some(burst) = limiter.burst {
        let queue = limiter.filled * bucket.depth;
        said.push(
            format!(
                "About {} pass without delay, then about {} are queued.",
                bytes(burst.bytes),
                bytes(queue)
            )
            .into(),
        );
        if let Some(switch) = burst.switch {
            let fast = burst.rate_bps.map_or(String::new(), |fast| {
                format!(" Until then packets came at {}.", rate(fast))
            });
            said.push(
                format!(
                    "The first packet that had to wait was sent after {} and {}.{fast}",
                    seconds(switch.after as f64 / 1e9),
                    bytes(switch.bytes as f64),
                )
                .into(),
            );
        }
    }
}

/// What the level shift rests on.
fn about_shift(shift: &Shift, said: &mut Vec<Sentence>) {
    let from = shift
        .burst_rate
        .map_or(String::new(), |fast| format!(" from {}", rate(fast * 8.0)));
    said.push(
        format!(
            "The rate at which packets came fell{from} to {} after {} and {}.",
            rate(shift.rate * 8.0),
            seconds(shift.switch.after as f64 / 1e9),
            bytes(shift.switch.bytes as f64),
        )
        .into(),
    );
    if let Some((before, after)) = shift.rates {
        said.push(
            format!(
                "In each of the last {before} intervals of {} before that it was higher than in all {after} \
                 after that.",
                milliseconds(shift.bin),
            )
            .into(),
        );
    }
    said.push(
        format!(
            "A queue that fills when {} beyond the rate have passed explains {} of how long packets waited: \
             half of them {} or less before, and one in ten {} or more after that.",
            bytes(shift.allowance),
            percent(shift.explained),
            milliseconds(shift.waited.0.max(0.0)),
            milliseconds(shift.waited.1),
        )
        .into(),
    );
}

fn about_kind(managed: &Managed) -> Sentence {
    let least = milliseconds(managed.least);
    match managed.kind {
        AqmKind::Codel => format!(
            "In the 100 ms before three of four drops no packet waited less than {least}, and no two drops came \
             within 20 ms: so drops CoDel."
        ),
        AqmKind::Red => format!(
            "In the 100 ms before half of the drops no packet waited less than {least}. CoDel and PIE do not let \
             such a queue stand, RED does."
        ),
    }
    .into()
}

/// [Flach16 figure 14].
fn rtt_ratio(summary: &TransferSummary) -> Option<Sentence> {
    let rtt = summary.metrics.rtt?;
    let times = |nanos: u64| milliseconds(nanos as f64 / 1e9);
    Some(
        format!(
            "One round-trip time in ten is {} or less, and one in ten is {} or more: {:.1} times as long.",
            times(rtt.p10),
            times(rtt.p90),
            rtt.ratio()?,
        )
        .into(),
    )
}

fn window_full(course: &Course) -> Sentence {
    let share = percent(course.window);
    format!("The receive window left no room for another packet for {share} of the time.").into()
}

fn waiting(course: &Course) -> Sentence {
    format!(
        "The least round-trip time of the path is {}, the median {}.",
        milliseconds(course.base),
        milliseconds(course.base + course.waiting.max(0.0))
    )
    .into()
}

fn idle(summary: &TransferSummary, course: &Course, said: &mut Vec<Sentence>) {
    let idle = course.idle * course.duration;
    said.push(
        format!(
            "For {} of {} ({}) everything was acknowledged, and there was nothing more to send.",
            seconds(idle),
            seconds(course.duration),
            percent(course.idle)
        )
        .into(),
    );
    let busy = course.duration - idle;
    if busy > 0.0 {
        let goodput = summary.metrics.delivered_bytes as f64 * 8.0 / busy;
        said.push(
            format!(
                "In the rest of the time it delivered {} of payload.",
                rate(goodput)
            )
            .into(),
        );
    }
}

/// What the bytes in flight allow in a median round trip, beside what was delivered.
fn at_most_in_flight(summary: &TransferSummary) -> Option<Sentence> {
    let metrics = &summary.metrics;
    let rtt = metrics.rtt?.median.max(1) as f64 / 1e9;
    let flight = f64::from(metrics.max_in_flight);
    let goodput = metrics.goodput_bps()?;
    Some(
        format!(
            "At most {} were in flight. In a median round trip of {} that allows {}. {} of payload \
             were delivered.",
            bytes(flight),
            milliseconds(rtt),
            rate(flight * 8.0 / rtt),
            rate(goodput)
        )
        .into(),
    )
}

fn spacing(summary: &TransferSummary) -> Option<Sentence> {
    let capacity = summary
        .metrics
        .capacity
        .filter(|capacity| capacity.trains > 1)?;
    Some(
        format!(
            "In {} trains of packets the acknowledgements came as from a bottleneck of {} of payload.",
            capacity.trains,
            rate(capacity.bps)
        )
        .into(),
    )
}

fn overshoot(summary: &TransferSummary) -> Option<Sentence> {
    let factor = summary.metrics.evidence.overshoot;
    (summary.metrics.lost_packets > 0 && factor >= OVERSHOT && factor.is_finite()).then(|| {
        format!("In the round trip before losses it sent at {factor:.1} times its goodput.").into()
    })
}

fn rate(bits_per_second: f64) -> String {
    let (value, unit) = match bits_per_second {
        r if r < 999.5e3 => (r / 1e3, "kbit/s"),
        r if r < 999.5e6 => (r / 1e6, "Mbit/s"),
        r => (r / 1e9, "Gbit/s"),
    };
    let decimals = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

fn percent(share: f64) -> String {
    let percent = 100.0 * share.clamp(0.0, 1.0);
    if percent > 0.0 && percent < 0.05 {
        "less than 0.1 %".to_owned()
    } else if percent > 0.0 && percent < 9.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

fn milliseconds(seconds: f64) -> String {
    let milliseconds = seconds * 1e3;
    if milliseconds < 0.05 {
        "less than 0.1 ms".to_owned()
    } else if milliseconds < 99.95 {
        format!("{milliseconds:.1} ms")
    } else if milliseconds < 999.5 {
        format!("{milliseconds:.0} ms")
    } else {
        format!("{seconds:.1} s")
    }
}

fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 0.9995 => milliseconds(s),
        s if s < 99.95 => format!("{s:.1} s"),
        s => format!("{s:.0} s"),
    }
}

fn bytes(bytes: f64) -> String {
    match bytes {
        b if b < 9_950.0 => format!("{:.1} kB", b / 1e3),
        b if b < 999_500.0 => format!("{:.0} kB", b / 1e3),
        b => format!("{:.1} MB", b / 1e6),
    }
}
