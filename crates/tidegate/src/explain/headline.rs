//! The verdict in one sentence that needs no knowledge of networks.

use tidegate_trace::annotate::{Layer, TransferSummary};
use tidegate_trace::detect::cause::Findings;
use tidegate_trace::detect::pd::{Answer, Code};
use tidegate_trace::detect::{Cause, Judgement, Share};

use super::words::{percent, time};
use crate::units::{bytes, rate};

/// What limited the transfer, and how sure that is.
pub(super) fn sentence(transfer: &TransferSummary, judgement: &Judgement) -> String {
    let verdict = verdict(transfer, judgement);
    match judgement.confidence {
        Some(confidence) if judgement.cause != Cause::Unclear => {
            let also = also(judgement).map_or(String::new(), |part| {
                let share = percent(part.share);
                format!("; {} limited it for {share} of the time", noun(part.cause))
            });
            let sure = sure(confidence);
            format!("{verdict}{also} ({sure}: {}).", percent(confidence))
        }
        _ => format!("{verdict}."),
    }
}

/// A cause with a smaller share of the time is no more than a figure.
pub(super) const PART: f64 = 0.2;

/// The cause with the most time beside the one that decided, if that is a part worth to be told.
pub(super) fn also(judgement: &Judgement) -> Option<&Share> {
    let decided = !matches!(
        judgement.cause,
        Cause::Mixed | Cause::Unclear | Cause::RoundTrips
    );
    let mut shares = judgement.shares.iter().filter(|_| decided);
    shares.find(|part| part.cause != judgement.cause && part.share >= PART)
}

/// A confidence in words.
pub(super) fn sure(confidence: f64) -> &'static str {
    match confidence {
        c if c >= 0.965 => "almost certain",
        c if c >= 0.895 => "very likely",
        c if c >= 0.745 => "likely",
        c if c >= 0.595 => "more likely than not",
        _ => "uncertain",
    }
}

/// The verdict in a few words, for a line of a list or of a picture.
pub(super) fn in_short(transfer: &TransferSummary, judgement: &Judgement) -> String {
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
pub(super) fn is_lossless(transfer: &TransferSummary, judgement: &Judgement) -> bool {
    let answer = judgement.details::<Answer>();
    transfer.metrics.lost_packets == 0
        && answer.is_some_and(|answer| answer.all.code == Code::TooFewLosses)
}

/// The limiter's rate on the link.
fn limit(transfer: &TransferSummary, judgement: &Judgement) -> Option<String> {
    let limit = judgement.limit?;
    let on_link = transfer
        .tally
        .convert(limit.rate_bps.value, limit.layer, Layer::Link);
    Some(rate(on_link))
}

/// A transfer that got less than this share of the limit is told what it got.
const FAR_BELOW: f64 = 0.7;

/// The goodput in bit/s of a transfer that got far less than the limit: others took the rest, or its
/// TCP could not use it.
fn less_than_the_limit(transfer: &TransferSummary, judgement: &Judgement) -> Option<f64> {
    let limit = judgement.limit?;
    let goodput = transfer.metrics.goodput_bps()?;
    let allowed = transfer
        .tally
        .convert(limit.rate_bps.value, limit.layer, Layer::Payload);
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
        time(rtt.median.saturating_sub(base))
    });
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
            None => format!(
                "A policer that other traffic uses too limited this transfer: it dropped {lost} of the \
                 packets, and {goodput} got through"
            ),
        },
        Cause::Queue => {
            let to = limit.unwrap_or_else(|| format!("about {goodput}"));
            let waited = waited.map_or(String::new(), |waited| {
                format!(": half of the packets waited {waited} or longer in its queue")
            });
            let dropped = match metrics.lost_packets {
                0 => ", and none was lost".to_owned(),
                _ => format!(", and {lost} were dropped"),
            };
            format!("A slow link or a shaper limited this transfer to {to}{waited}{dropped}{got}")
        }
        Cause::Aqm => format!(
            "A slow link that keeps its queue short limited this transfer to about {goodput}: it dropped \
             {lost} of the packets as a signal to slow down"
        ),
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
        Cause::Sender => format!(
            "The sending computer limited this transfer, not the network: it never had more than {} on the \
             way at once",
            bytes(u64::from(metrics.max_in_flight))
        ),
        Cause::RoundTrips => format!(
            "Nothing but distance limited this transfer: it was over in {} before the sender could get up \
             to speed",
            time(metrics.duration)
        ),
        Cause::Mixed => {
            let parts = judgement.shares.iter().take(3);
            let parts: Vec<String> = parts
                .map(|part| {
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
pub(super) fn noun(cause: Cause) -> &'static str {
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
