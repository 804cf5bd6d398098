//! The verdict in one sentence that needs no knowledge of networks.

use tidegate_trace::annotate::{Layer, TransferSummary, Vantage};
use tidegate_trace::detect::cause::Findings;
use tidegate_trace::detect::pd::{Answer, Code};
use tidegate_trace::detect::{Cause, Judgement, Share};

use crate::units::{bytes, rate};
use crate::words::{percent, time};

/// What limited the transfer, and how sure that is.
pub fn sentence(transfer: &TransferSummary, judgement: &Judgement) -> String {
    let verdict = verdict(transfer, judgement);
    match judgement.confidence {
        Some(confidence) if judgement.cause != Cause::Unclear => {
            let also = also(judgement).map_or(String::new(), |part| {
                let share = percent(part.share);
                let noun = match part.cause {
                    Cause::Sender if repairs_slowly(judgement) => "slow repair of losses",
                    cause => noun(cause),
                };
                format!("; {noun} for {share}")
            });
            let sure = sure(confidence);
            format!("{verdict}{also} ({sure}: {}).", percent(confidence))
        }
        _ => format!("{verdict}."),
    }
}

/// A cause with a smaller share of the time is no more than a figure.
pub const PART: f64 = 0.2;

/// The cause with the most time beside the one that decided, if its part is large enough to be named.
pub fn also(judgement: &Judgement) -> Option<&Share> {
    let decided = !matches!(
        judgement.cause,
        Cause::Mixed | Cause::Unclear | Cause::RoundTrips
    );
    let mut shares = judgement.shares.iter().filter(|_| decided);
    shares.find(|part| part.cause != judgement.cause && part.share >= PART)
}

/// Whether the sender's part is that it repaired one loss a round trip.
pub fn repairs_slowly(judgement: &Judgement) -> bool {
    let course = judgement.details::<Findings>();
    let course = course.and_then(|findings| findings.course);
    course.is_some_and(|course| course.repairing >= PART)
}

/// A confidence in words.
pub fn sure(confidence: f64) -> &'static str {
    match confidence {
        c if c >= 0.965 => "almost certain",
        c if c >= 0.895 => "very likely",
        c if c >= 0.745 => "likely",
        c if c >= 0.595 => "more likely than not",
        _ => "uncertain",
    }
}

/// The verdict in a few words, for a line of a list or of a picture.
pub fn in_short(transfer: &TransferSummary, judgement: &Judgement) -> String {
    let rate = limit(transfer, judgement).map_or(String::new(), |limit| format!(" of {limit}"));
    match judgement.cause {
        Cause::Policer if judgement.details::<Answer>().is_some() => {
            let policed = judgement.policed_rate(&transfer.tally, Layer::Payload);
            policed.map_or("policer".to_owned(), |policed| {
                format!("policer of {} as payload", crate::units::rate(policed))
            })
        }
        Cause::Unclear if is_lossless(transfer, judgement) => "no losses, so no policer".to_owned(),
        Cause::Unclear => format!("unclear: {}", judgement.reason),
        cause => format!("{cause}{rate}"),
    }
}

/// Whether the published rules found no policer where there was nothing to drop: their own reason, too few
/// losses, would mislead.
pub fn is_lossless(transfer: &TransferSummary, judgement: &Judgement) -> bool {
    let answer = judgement.details::<Answer>();
    transfer.metrics.lost_packets == 0
        && answer.is_some_and(|answer| answer.all.code == Code::TooFewLosses)
}

/// Packets that waited less, in nanoseconds, hardly waited.
const HARDLY: u64 = 100_000;

/// A transfer that took less, in nanoseconds, took no time that a capture shows.
const AT_ONCE: u64 = 1_000;

/// An interval that reaches this many times as high as low is wide: the rate stands with its ends.
const WIDE: f64 = 1.25;

/// The ends of the limit's interval in bit/s at a layer, if it is wide.
pub fn wide(transfer: &TransferSummary, judgement: &Judgement, layer: Layer) -> Option<[f64; 2]> {
    let limit = judgement.limit?.at(layer, &transfer.tally);
    let (low, high) = limit.rate_bps.interval()?.into_inner();
    (high > WIDE * low).then_some([low, high])
}

/// The limiter's rate on the link.
fn limit(transfer: &TransferSummary, judgement: &Judgement) -> Option<String> {
    let limit = judgement.limit?.at(Layer::Link, &transfer.tally);
    let likely = rate(limit.rate_bps.value);
    Some(match wide(transfer, judgement, Layer::Link) {
        Some(ends) => {
            let [low, high] = ends.map(rate);
            let unit = high.split_once(' ').map_or("", |(_, unit)| unit);
            let bare = |text: &str| text.strip_suffix(unit).map(|n| n.trim_end().to_owned());
            let [low, likely] = [low, likely].map(|text| bare(&text).unwrap_or(text));
            format!("between {low} and {high} (most likely {likely})")
        }
        None => likely,
    })
}

/// A transfer that got less than this share of the limit gets a sentence that says what it got.
const FAR_BELOW: f64 = 0.7;

/// The goodput in bit/s of a transfer that got far less than the limit: others took the rest, or its
/// TCP could not use it.
fn less_than_the_limit(transfer: &TransferSummary, judgement: &Judgement) -> Option<f64> {
    let limit = judgement.limit?;
    let goodput = transfer.metrics.goodput_bps()?;
    let least = wide(transfer, judgement, limit.layer).map_or(limit.rate_bps.value, |[low, _]| low);
    let allowed = transfer.tally.convert(least, limit.layer, Layer::Payload);
    (goodput < FAR_BELOW * allowed).then_some(goodput)
}

/// How fast a shaper let a burst pass, and when that was over.
fn burst(transfer: &TransferSummary, judgement: &Judgement) -> (String, String) {
    let limit = judgement
        .limit
        .map(|limit| limit.at(Layer::Link, &transfer.tally));
    let burst = limit.and_then(|limit| limit.burst);
    let at = burst.and_then(|burst| burst.rate_bps);
    let at = at.map_or("at full speed".to_owned(), |fast| {
        format!("at {}", rate(fast))
    });
    let after = burst
        .and_then(|burst| burst.switch)
        .map_or(String::new(), |switch| {
            format!(
                " (after {} and {})",
                time(switch.after),
                bytes(switch.bytes)
            )
        });
    (at, after)
}

fn verdict(transfer: &TransferSummary, judgement: &Judgement) -> String {
    let metrics = &transfer.metrics;
    if judgement.details::<Answer>().is_some() {
        return published(transfer, judgement);
    }
    let lost = percent(metrics.loss_rate());
    let goodput = metrics.goodput_bps().map_or("-".to_owned(), rate);
    let limit = limit(transfer, judgement);
    let findings = judgement.details::<Findings>();
    let course = findings.and_then(|findings| findings.course);
    let share = |cause: Cause| {
        let shares = judgement.shares.iter();
        let share = shares
            .filter(|share| share.cause == cause)
            .map(|share| share.share);
        percent(share.sum())
    };
    let waited = metrics.rtt.zip(course).map(|(rtt, course)| {
        let base = (course.base * 1e9) as u64;
        rtt.median.saturating_sub(base)
    });
    let waited = waited.filter(|&waited| waited >= HARDLY).map(time);
    // A queue's rate, and else what got through.
    let about = || format!("about {goodput} of payload");
    let got = less_than_the_limit(transfer, judgement);
    let got = got.map_or(String::new(), |got| {
        format!(", and {} of payload got through", rate(got))
    });
    match judgement.cause {
        Cause::Policer => match limit {
            Some(limit) => {
                let whom = match judgement.shared {
                    Some(true) => "this transfer and other connections together",
                    _ => "this transfer",
                };
                format!(
                    "A policer limited {whom} to {limit}: it dropped the packets that exceeded this \
                     rate, {lost} of all{got}"
                )
            }
            None if transfer.path.vantage() == Vantage::Receiver => format!(
                "A policer limited this transfer: it dropped {lost} of the packets, and {goodput} of payload got \
                 through"
            ),
            None => {
                let shared = match judgement.shared {
                    Some(true) => " that other traffic uses too",
                    _ => "",
                };
                format!(
                    "A policer{shared} limited this transfer: it dropped {lost} of the packets, and {goodput} of payload got \
                     through"
                )
            }
        },
        Cause::Queue => {
            let to = limit.unwrap_or_else(about);
            let waited = waited.map_or(String::new(), |waited| {
                format!(": half of the packets waited {waited} or longer in its queue")
            });
            let is_full = findings.is_some_and(|findings| findings.losses.is_some());
            let dropped = match metrics.lost_packets {
                0 => ", which never overflowed".to_owned(),
                _ if is_full => format!(", and {lost} were dropped when it was full"),
                _ => format!(", and {lost} were lost"),
            };
            format!("A slow link or a shaper limited this transfer to {to}{waited}{dropped}{got}")
        }
        Cause::Aqm => {
            let did = match (metrics.is_marked(), metrics.lost_packets) {
                (false, _) => format!("dropped {lost} of the packets"),
                (true, 0) => "marked packets (ECN)".to_owned(),
                (true, _) => format!("marked packets (ECN), and dropped {lost},"),
            };
            format!(
                "A slow link that keeps its queue short limited this transfer to {}: it {did} as a signal to \
                 slow down",
                limit.unwrap_or_else(about)
            )
        }
        Cause::ShaperBurst => {
            let to = limit.unwrap_or_else(|| "a lower rate".to_owned());
            let (burst, after) = burst(transfer, judgement);
            format!(
                "A shaper let a burst pass {burst} and then{after} limited this transfer to {to}, with \
                 packets waiting in its queue{got}"
            )
        }
        Cause::RandomLoss => format!(
            "Packets were lost at random ({lost}), not because a limit was exceeded, and the sender slowed \
             down after each loss"
        ),
        Cause::ReceiveWindow => format!(
            "The receiver limited this transfer: its buffer had no room for more data for {} of the time",
            share(Cause::ReceiveWindow)
        ),
        Cause::Application => format!(
            "The sending application limited this transfer, not the network: it had nothing to send for {} \
             of the time",
            share(Cause::Application)
        ),
        Cause::Sender if repairs_slowly(judgement) => format!(
            "The sender's TCP limited this transfer, not the network: for {} of the time it repaired one loss a \
             round trip",
            percent(course.map_or(0.0, |course| course.repairing))
        ),
        Cause::Sender => format!(
            "The sending computer limited this transfer, not the network: it never had more than {} on the \
             way at once",
            bytes(u64::from(metrics.max_in_flight))
        ),
        Cause::RoundTrips if metrics.data_packets == 1 => {
            "Nothing limited this transfer: it was a single packet".to_owned()
        }
        Cause::RoundTrips if metrics.duration < AT_ONCE => {
            "Nothing but distance limited this transfer: it was over before the sender could get up to speed".to_owned()
        }
        Cause::RoundTrips => format!(
            "Nothing but distance limited this transfer: it was over in {} before the sender could get up \
             to speed",
            time(metrics.duration)
        ),
        Cause::Mixed => {
            // The first two, and a third that is more than a figure.
            let parts = judgement.shares.iter().take(3).enumerate();
            let parts: Vec<String> = parts
                .filter(|(i, part)| *i < 2 || part.share >= PART)
                .map(|(_, part)| {
                    format!(
                        "{} for {} of the time",
                        noun(part.cause),
                        percent(part.share)
                    )
                })
                .collect();
            format!(
                "Several things limited this transfer in turn: {}",
                list(&parts)
            )
        }
        Cause::Unclear => {
            let left: Vec<String> = judgement
                .left
                .iter()
                .map(|&cause| noun(cause).into())
                .collect();
            let left = match &left[..] {
                [] => judgement.reason.to_string(),
                left => format!("either {}", left.join(" or ")),
            };
            format!("What limited this transfer is not certain: {left}")
        }
    }
}

/// What the published rules find.
fn published(transfer: &TransferSummary, judgement: &Judgement) -> String {
    let policed = judgement.policed_rate(&transfer.tally, Layer::Payload);
    match (judgement.cause, policed) {
        (Cause::Policer, Some(policed)) => format!(
            "A policer limited this transfer to {} of payload: its losses fit a token bucket",
            rate(policed)
        ),
        (Cause::Policer, None) => {
            "A policer limited this transfer: its losses fit a token bucket".to_owned()
        }
        _ if transfer.metrics.lost_packets == 0 => {
            "No policer limited this transfer: no packet was lost".to_owned()
        }
        _ => format!(
            "No policer was found to limit this transfer: {}",
            judgement.reason
        ),
    }
}

/// A cause as the subject of a sentence.
pub fn noun(cause: Cause) -> &'static str {
    match cause {
        Cause::Policer => "a policer",
        Cause::Queue => "a slow link or a shaper",
        Cause::Aqm => "a link with a managed queue",
        Cause::ShaperBurst => "a shaper that tolerates bursts",
        Cause::RandomLoss => "random loss",
        Cause::ReceiveWindow => "the receiver's window",
        Cause::Application => "the sending application",
        Cause::Sender => "the sender's TCP",
        Cause::RoundTrips => "the round trips in which TCP gets up to speed",
        Cause::Mixed => "several causes",
        Cause::Unclear => "an unknown cause",
    }
}

fn list(parts: &[String]) -> String {
    match parts {
        [] => "none of them for most of the time".to_owned(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests;
