//! The numbers behind a verdict, in sentences; `against` says why it was nothing else.

mod against;

use std::borrow::Cow;

use super::course::{Course, is_timeless};
use super::interval::Interval;
use super::limiter::{Limiter, Losses, Mechanism};
use super::managed::Managed;
use super::shift::Shift;
use crate::annotate::{Layer, TransferSummary};
use crate::detect::{About, AqmKind, Basis, Cause, Clue, Details, Judgement, RuledOut};

use against::ruled_out;

type Sentence = Cow<'static, str>;

/// What the detector measured of a transfer: the details of a [`Judgement`](crate::detect::Judgement)
/// of the detector `tidegate`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Findings {
    /// Whether the capture was taken behind what loses packets, and when they came to it is a guess.
    pub behind: bool,
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

/// An interval that reaches less far than this share of its value is named by that share.
const SHARE_OF_IT: f64 = 0.1;

/// A mean below this share of the most in flight says that the most was there seldom.
const SELDOM: f64 = 0.5;

/// A share of the time that an end held back is named from here on, whatever decided.
const PART: f64 = 0.2;

impl Details for Findings {
    fn evidence(&self, transfer: &TransferSummary, judgement: &Judgement) -> Vec<Clue> {
        sentences(transfer, judgement.cause, self)
    }

    fn ruled_out(&self, transfer: &TransferSummary, judgement: &Judgement) -> Vec<RuledOut> {
        match is_timeless(transfer) {
            true => Vec::new(),
            false => ruled_out(transfer, judgement, self),
        }
    }
}

/// Why it is this cause.
fn sentences(summary: &TransferSummary, cause: Cause, findings: &Findings) -> Vec<Clue> {
    let mut said = vec![Clue::new(About::Losses, lost(summary))];
    said.extend(marked(summary));
    if let Some(losses) = &findings.losses {
        let is_unseen = findings.behind || summary.tally.is_holed();
        about_losses(losses, is_unseen, &mut said);
    }
    let by_shift = findings.shift.filter(|_| cause == Cause::ShaperBurst);
    if let Some(shift) = by_shift {
        let limiter = findings.losses.and_then(|losses| losses.limiter);
        let burst = limiter.and_then(|limiter| limiter.burst);
        about_shift(&shift, burst.is_some(), &mut said);
    }
    let managed = findings.losses.and_then(|losses| losses.managed);
    if let Some(managed) = managed.filter(|_| cause == Cause::Aqm) {
        said.push(Clue::new(About::DelayBesideLosses, about_kind(&managed)));
    }
    let Some(course) = &findings.course else {
        return said;
    };
    said.push(Clue::new(
        About::Whole,
        format!(
            "The transfer took {}, which is {:.0} of its round trips.",
            seconds(course.duration),
            course.rounds.max(1.0)
        ),
    ));
    match cause {
        Cause::Application if course.starved > course.idle => said.push(starved(course)),
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
        Cause::RoundTrips => said.push(Clue::new(
            About::Beginning,
            format!(
                "Its window could still double in each round trip for {} of the time.",
                percent(course.doubling)
            ),
        )),
        Cause::Sender if course.repairing >= PART => said.push(repairing(course)),
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
    if course.repairing >= PART && cause != Cause::Sender {
        said.push(repairing(course));
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

fn marked(summary: &TransferSummary) -> Option<Clue> {
    let text = match summary.metrics.congestion_echoes {
        0 => return None,
        1 => "The receiver echoed congestion marks (ECN) once.".to_owned(),
        times => {
            format!("The receiver echoed congestion marks (ECN) at {times} separate times.")
        }
    };
    Some(Clue::new(About::Whole, text))
}

fn about_losses(losses: &Losses, is_unseen: bool, said: &mut Vec<Clue>) {
    if let Some(limiter) = &losses.limiter {
        about_limiter(limiter, is_unseen, said);
    }
    let Some(delay) = losses.delay.and_then(|delay| delay.at_losses()) else {
        return;
    };
    let waited = milliseconds(delay.max(0.0));
    let text: Sentence = match losses.limiter {
        Some(limiter)
            if !limiter.unseen_users && limiter.mechanism != Mechanism::BurstShaper =>
        format!(
            "Packets beside the median loss waited {waited}. A full queue of this size takes {} to drain.",
            milliseconds(limiter.bucket.depth / limiter.bucket.rate)
        )
        .into(),
        _ => format!("Packets beside the median loss waited {waited}.").into(),
    };
    said.push(Clue::new(About::DelayBesideLosses, text));
}

/// `is_unseen`: the capture does not show all that took from the bucket, whoever sent it.
fn about_limiter(limiter: &Limiter, is_unseen: bool, said: &mut Vec<Clue>) {
    if limiter.unseen_users {
        let whose = match is_unseen {
            true => "",
            false => " that others use too",
        };
        said.push(Clue::new(About::Level, format!(
                "Packets were lost when a token bucket{whose} could have been empty, and passed when it could \
                 not. This predicts the losses better than bursts of chance."
            )));
        return;
    }
    let bucket = limiter.bucket;
    let fitted = match limiter.basis {
        Basis::Segment => "the packets of this transfer",
        Basis::Connection => "all packets of this connection",
        Basis::Client => "all packets that went to this client",
    };
    let ends = limiter.intervals;
    let (holds, of) = match limiter.mechanism {
        Mechanism::Queue => ("A queue", "that has room for"),
        _ => ("A token bucket", "that holds"),
    };
    said.push(Clue::new(About::Level, format!(
            "{holds} of {}{} on the link {of} {}{}, fitted to {fitted}, explains {} of when packets were \
             lost (chance alone explains 0 %, a perfect model 100 %).",
            rate(bucket.rate * 8.0),
            within(bucket.rate, ends.map(|(rate, _)| rate), |end| rate(end * 8.0)),
            bytes(bucket.depth),
            within(bucket.depth, ends.and_then(|(_, depth)| depth), bytes),
            percent(limiter.explained),
        )));
    if limiter.shared {
        said.push(Clue::new(
            About::Level,
            "Other connections of this client pass through the same limiter.",
        ));
    }
    if let Some(burst) = limiter.burst {
        let queue = limiter.filled * bucket.depth;
        said.push(Clue::new(
            About::Level,
            format!(
                "About {} pass without delay, then about {} are queued.",
                bytes(burst.bytes),
                bytes(queue)
            ),
        ));
        if let Some(switch) = burst.switch {
            let fast = burst.rate_bps.map_or(String::new(), |fast| {
                format!(" Until then packets came at {}.", rate(fast))
            });
            said.push(Clue::new(
                About::Switch,
                format!(
                    "The first packet that had to wait was sent after {} and {}.{fast}",
                    seconds(switch.after as f64 / 1e9),
                    bytes(switch.bytes as f64),
                ),
            ));
        }
    }
}

/// What the level shift rests on. The burst's rate is said once: the bucket's includes the rates at which the
/// window still grew.
fn about_shift(shift: &Shift, burst_is_told: bool, said: &mut Vec<Clue>) {
    let from = shift
        .burst_rate
        .filter(|_| !burst_is_told)
        .map_or(String::new(), |fast| format!(" from {}", rate(fast * 8.0)));
    said.push(Clue::new(
        About::Switch,
        format!(
            "The rate at which packets came fell{from} to {} after {} and {}.",
            rate(shift.rate * 8.0),
            seconds(shift.switch.after as f64 / 1e9),
            bytes(shift.switch.bytes as f64),
        ),
    ));
    if let Some((before, after)) = shift.rates {
        said.push(Clue::new(About::Switch, format!(
                "In each of the last {before} intervals of {} before that it was higher than in all {after} \
                 after that.",
                milliseconds(shift.bin),
            )));
    }
    said.push(Clue::new(About::Switch, format!(
            "A queue that fills when {} beyond the rate have passed explains {} of how long packets waited: \
             half of them {} before, and one in ten {} or more after that.",
            bytes(shift.allowance),
            percent(shift.explained),
            at_most(shift.waited_before.max(0.0)),
            milliseconds(shift.waited_after),
        )));
}

fn about_kind(managed: &Managed) -> Sentence {
    let (least, first) = (milliseconds(managed.least), milliseconds(managed.first));
    let median = at_most(managed.median);
    match managed.kind {
        AqmKind::Codel => format!(
            "The first drop came when packets waited {first}, and before no drop any packet waited less than {least} \
             within 100 ms: so drops CoDel."
        ),
        AqmKind::Pie => format!(
            "The first drop came when packets waited {first}, though half of all waited {median}: PIE drops none \
             in a burst of 150 ms."
        ),
        AqmKind::Red => format!(
            "In the 100 ms before half of the drops no packet waited less than {least}. CoDel and PIE do not let \
             such a queue stand, RED does."
        ),
    }
    .into()
}

/// [Flach16 figure 14].
fn rtt_ratio(summary: &TransferSummary) -> Option<Clue> {
    let rtt = summary.metrics.rtt?;
    let times = |nanos: u64| milliseconds(nanos as f64 / 1e9);
    Some(Clue::new(
        About::RoundTrips,
        format!(
            "One round-trip time in ten is {} or less, and one in ten is {} or more: {:.1} times as long.",
            times(rtt.p10),
            times(rtt.p90),
            rtt.ratio()?,
        ),
    ))
}

fn window_full(course: &Course) -> Clue {
    let share = percent(course.window);
    Clue::new(
        About::ReceiveWindow,
        format!("The receive window left no room for another packet for {share} of the time."),
    )
}

fn repairing(course: &Course) -> Clue {
    Clue::new(
        About::Repair,
        format!(
            "For {} of the time one loss was repaired a round trip: each retransmission waited for the \
             acknowledgement of the one before, and none was lost. That is how a sender without selective \
             acknowledgements (SACK) recovers.",
            percent(course.repairing)
        ),
    )
}

fn waiting(course: &Course) -> Clue {
    Clue::new(
        About::RoundTrips,
        format!(
            "The least round-trip time of the path is {}, the median {}.",
            milliseconds(course.base),
            milliseconds(course.base + course.waiting.max(0.0))
        ),
    )
}

fn idle(summary: &TransferSummary, course: &Course, said: &mut Vec<Clue>) {
    let idle = course.idle * course.duration;
    said.push(Clue::new(
        About::Idle,
        format!(
            "For {} of {} ({}) everything was acknowledged, and there was nothing more to send.",
            seconds(idle),
            seconds(course.duration),
            percent(course.idle)
        ),
    ));
    let busy = course.duration - idle;
    if busy > 0.0 {
        let delivered = summary.metrics.delivered_bytes + summary.metrics.missed_bytes;
        let goodput = delivered as f64 * 8.0 / busy;
        said.push(Clue::new(
            About::Whole,
            format!(
                "In the rest of the time it delivered {} of payload.",
                rate(goodput)
            ),
        ));
    }
}

fn starved(course: &Course) -> Clue {
    Clue::new(
        About::Idle,
        format!(
            "For {} of {} ({}) the last packet sent was not full: there was nothing more to send.",
            seconds(course.starved * course.duration),
            seconds(course.duration),
            percent(course.starved)
        ),
    )
}

/// What the bytes in flight allow in a median round trip, beside what was delivered.
fn at_most_in_flight(summary: &TransferSummary) -> Option<Clue> {
    let metrics = &summary.metrics;
    let rtt = metrics.rtt?.median.max(1) as f64 / 1e9;
    let flight = f64::from(metrics.max_in_flight);
    let goodput = metrics.goodput_bps()?;
    // Little's law.
    let average = goodput / 8.0 * rtt;
    let on_average = match average < SELDOM * flight {
        true => format!(": on average only {} were in flight", bytes(average)),
        false => String::new(),
    };
    Some(Clue::new(
        About::InFlight,
        format!(
            "At most {} were in flight. In a median round trip of {} that allows {}. {} of payload \
             were delivered{}.",
            bytes(flight),
            milliseconds(rtt),
            rate(flight * 8.0 / rtt),
            rate(goodput),
            on_average
        ),
    ))
}

fn spacing(summary: &TransferSummary) -> Option<Clue> {
    let capacity = summary
        .metrics
        .capacity
        .filter(|capacity| capacity.trains > 1)?;
    Some(Clue::new(
        About::Spacing,
        format!(
            "In {} trains of packets the acknowledgements came as from a bottleneck of {} of payload, which \
             are {} on the link.",
            capacity.trains,
            rate(capacity.bps),
            rate(
                summary
                    .tally
                    .convert(capacity.bps, Layer::Payload, Layer::Link)
            )
        ),
    ))
}

fn overshoot(summary: &TransferSummary) -> Option<Clue> {
    let factor = summary.metrics.evidence.overshoot;
    let said = summary.metrics.lost_packets > 0 && factor >= OVERSHOT && factor.is_finite();
    said.then(|| {
        let text =
            format!("In the round trip before losses it sent at {factor:.1} times its goodput.");
        Clue::new(About::BeforeLosses, text)
    })
}

/// An interval beside its value: as a share of it if that is small, else its ends. Nothing where it is not known.
fn within(value: f64, ends: Option<Interval>, text: impl Fn(f64) -> String) -> String {
    let Some(Interval { low, high, .. }) = ends.filter(|ends| ends.low < ends.high) else {
        return String::new();
    };
    let reach = (value - low).max(high - value) / value.max(f64::MIN_POSITIVE);
    match reach < SHARE_OF_IT {
        true => format!(" (± {:.1} %)", (100.0 * reach).max(0.1)),
        false => format!(" ({} to {})", text(low), text(high)),
    }
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

/// Seconds that are not worth a number.
const HARDLY: f64 = 0.000_05;

fn milliseconds(seconds: f64) -> String {
    let milliseconds = seconds * 1e3;
    if seconds < HARDLY {
        "less than 0.1 ms".to_owned()
    } else if milliseconds < 99.95 {
        format!("{milliseconds:.1} ms")
    } else if milliseconds < 999.5 {
        format!("{milliseconds:.0} ms")
    } else {
        format!("{seconds:.1} s")
    }
}

/// At most these seconds, in words.
fn at_most(seconds: f64) -> String {
    match seconds < HARDLY {
        true => milliseconds(seconds),
        false => format!("{} or less", milliseconds(seconds)),
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
