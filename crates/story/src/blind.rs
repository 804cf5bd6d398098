//! What stays unknown, and where the figures are blind.

use tidegate_trace::annotate::Vantage;
use tidegate_trace::detect::{Basis, Cause};
use tidegate_trace::flow::Ended;

use crate::account::{Account, Kept, MOST_TRANSFERS};
use crate::headline::noun;
use crate::units::{bytes, plural};

/// What the capture does not show, in sentences.
pub fn unknown(account: &Account, kept: &Kept) -> Vec<String> {
    let transfer = &kept.transfer;
    let (tally, metrics) = (&transfer.tally, &transfer.metrics);
    let mut said: Vec<String> = Vec::new();
    let mut say = |text: &str| said.push(text.to_owned());
    if !metrics.acknowledged {
        say(
            "No round-trip time is known, because no acknowledgement of these data was captured: only one direction may have been. So \
             no queue can be seen, nor what was in flight or delivered.",
        );
    } else if metrics.rtt.is_none() {
        say(
            "No round-trip time is known, because no acknowledgement could be matched to a packet. So no queue can be seen.",
        );
    }
    if !tally.window_known {
        say(
            "The scale of the receive window is not known: the capture does not hold the first packets of both \
             sides. So the capture does not show whether the receiver limited the transfer.",
        );
    }
    if tally.unseen_bytes > 0 {
        let counted = match tally.missed() {
            0 => {
                "That is more than it holds, so they do not count as delivered: the goodput is a lower bound. Losses"
            }
            _ => "They count as delivered; losses",
        };
        say(&format!(
            "{} are missing from the capture. {counted} among them are not known.",
            bytes(tally.unseen_bytes)
        ));
    }
    if transfer.continues {
        say("The transfer was too long to be judged in one: this is a later part of it.");
    }
    if account.left_out > 0 {
        say(&format!(
            "{} that took less time {} not looked at here: at most {MOST_TRANSFERS} segments are.",
            plural(
                account.left_out,
                "segment of the flow",
                "segments of the flow"
            ),
            if account.left_out == 1 { "is" } else { "are" },
        ));
    }
    match account.ended {
        Ended::CaptureEnd => say("The capture ended before the connection did."),
        Ended::Evicted => say(
            "The connection was dropped because too many were active at once (see --max-flows).",
        ),
        Ended::Closed | Ended::Idle | Ended::Reused => {}
    }
    about_the_verdict(kept, &mut say);
    say(vantage(transfer.path.vantage(), metrics.rtt.is_some()));
    said
}

/// Where the capture was taken, and which figures are blind there
/// (docs/reference/annotations.md).
fn vantage(vantage: Vantage, has_round_trips: bool) -> &'static str {
    match vantage {
        Vantage::Sender => {
            "The capture was taken at the sender. What happens behind the receiver's acknowledgements it \
             cannot show."
        }
        Vantage::Between => {
            "The capture was taken on the way. Round-trip times and bytes in flight are those behind it, and \
             it cannot tell where before it a packet was lost."
        }
        Vantage::Receiver if has_round_trips => {
            "The capture was taken at the receiver. Losses are inferred from gaps: those at the end of a flight, \
             and retransmissions that were lost too, are not seen. In the lab 0.3 % of the losses were missing \
             where many packets were in flight, and 18 % where three were. Round-trip times come from \
             timestamps, and include the time that packets waited at the sender."
        }
        Vantage::Receiver => {
            "The capture was taken at the receiver. Losses are inferred from gaps: those at the end of a flight, \
             and retransmissions that were lost too, are not seen. Capture at the sender to see queues."
        }
        Vantage::Unknown => {
            "It is not known where the capture was taken. Losses and round-trip times are complete at the \
             sender only."
        }
    }
}

fn about_the_verdict(kept: &Kept, say: &mut impl FnMut(&str)) {
    let judgement = &kept.judgement;
    let findings = kept.findings();
    let is_behind =
        kept.transfer.is_behind_losses() || findings.is_some_and(|findings| findings.behind);
    if let Some(losses) = findings.and_then(|findings| findings.losses)
        && let Some(limiter) = losses.limiter
    {
        match judgement.limit {
            None if matches!(judgement.cause, Cause::Policer | Cause::Queue) && is_behind => say(
                "The limiter's rate and size are not known, because a capture behind it does not show exactly when \
                 the lost packets were sent. Capture at the sender to measure them.",
            ),
            None if kept.transfer.tally.is_holed() => say(
                "The limiter's rate and size are not known, because the capture missed packets that passed it.",
            ),
            None if kept.transfer.metrics.is_marked() => say(
                "The limiter's rate and size are not known, because packets were marked too (ECN). A limiter that marks drops \
                 later than a bucket that is fitted to its losses.",
            ),
            None if matches!(judgement.cause, Cause::Policer | Cause::Queue) => {
                say(match judgement.shared {
                    Some(true) => {
                        "The limiter's rate and size are not known, because other traffic passes through it too."
                    }
                    _ => {
                        "The limiter's rate and size are not known: there are too few losses, or other traffic passes \
                         through it too."
                    }
                });
            }
            Some(limit) if limit.depth_bytes.is_none() => say(
                "The bucket's size is not known, because it is not known how full it was when this transfer \
                 began.",
            ),
            _ => {}
        }
        let is_alone = judgement.cause == Cause::Policer && !limiter.unseen_users;
        if limiter.basis != Basis::Client && is_alone {
            say("It is not certain whether other connections use the policer too.");
        }
    }
    let lost = kept.transfer.metrics.lost_packets > 0;
    let is_near = matches!(
        kept.transfer.path.vantage(),
        Vantage::Sender | Vantage::Unknown
    );
    match judgement.cause {
        Cause::Queue => say(
            "A shaper and a link of the same rate look alike in a capture: packets wait in a queue before both.",
        ),
        Cause::Sender => say(
            "A sender that paces itself looks like an application that writes at a steady rate.",
        ),
        Cause::Application if lost && is_near => say(
            "If the sending machine shapes its traffic (`tc qdisc`), packets waited before this capture saw them, and \
             the application only looks slow. `tidegate sample --hook tc` captures in front of such a shaper.",
        ),
        Cause::Unclear => {
            let left: Vec<&str> = left(kept).into_iter().map(noun).collect();
            say(&format!("Not ruled out: {}.", left.join(", ")));
        }
        _ => {}
    }
    let untold = judgement
        .shares
        .iter()
        .find(|part| part.cause == Cause::Unclear);
    if let Some(part) = untold.filter(|_| judgement.cause != Cause::Unclear) {
        say(&format!(
            "For {} of the time {} limited it.",
            crate::words::percent(part.share),
            noun(Cause::Unclear)
        ));
    }
}

/// The causes that an unclear verdict leaves: those that cannot be distinguished or, where nothing can be
/// said, all that nothing measured speaks against.
pub fn left(kept: &Kept) -> Vec<Cause> {
    let judgement = &kept.judgement;
    if judgement.cause != Cause::Unclear || !judgement.left.is_empty() {
        return judgement.left.clone();
    }
    let single = [
        Cause::Policer,
        Cause::Queue,
        Cause::Aqm,
        Cause::ShaperBurst,
        Cause::RandomLoss,
        Cause::ReceiveWindow,
        Cause::Application,
        Cause::Sender,
        Cause::RoundTrips,
    ];
    let ruled_out = judgement.ruled_out(&kept.transfer);
    let is_out = |cause: &Cause| ruled_out.iter().any(|out| out.cause == *cause);
    single.into_iter().filter(|cause| !is_out(cause)).collect()
}
