//! The numbers behind a verdict, in sentences.

use std::borrow::Cow;

use super::course::Course;
use super::limiter::{Losses, Mechanism};
use crate::annotate::TransferSummary;
use crate::detect::{Cause, RuledOut};

type Sentence = Cow<'static, str>;

/// What was measured of a transfer.
pub(super) fn sentences(
    summary: &TransferSummary,
    course: Option<&Course>,
    losses: Option<&Losses>,
) -> Vec<Sentence> {
    let mut said: Vec<Sentence> = Vec::new();
    let metrics = &summary.metrics;
    said.push(match metrics.lost_packets {
        0 => format!("None of {} data packets was lost.", metrics.data_packets).into(),
        lost => format!(
            "{lost} of {} data packets were lost ({:.1} %).",
            metrics.data_packets,
            100.0 * metrics.loss_rate()
        )
        .into(),
    });
    if let Some(course) = course {
        said.push(
            format!(
                "The transfer took {:.3} s, {:.0} round trips. The median round-trip time is {:.1} ms \
                 above the path's {:.1} ms.",
                course.duration,
                course.rounds,
                course.waiting * 1e3,
                course.base * 1e3
            )
            .into(),
        );
    }
    if let Some(losses) = losses {
        about_losses(losses, &mut said);
    }
    said
}

fn about_losses(losses: &Losses, said: &mut Vec<Sentence>) {
    if let Some(delay) = losses.delay.and_then(|delay| delay.at_losses()) {
        said.push(
            format!(
                "Packets beside the median loss waited {:.1} ms.",
                delay.max(0.0) * 1e3
            )
            .into(),
        );
    }
    let Some(limiter) = losses.limiter else {
        return;
    };
    if limiter.unseen_users {
        said.push(
            "The losses follow the upper bound of a token bucket's level better than bursts of \
             chance. Packets that the capture does not hold take from it too, so its rate is not known."
                .into(),
        );
        return;
    }
    let bucket = limiter.bucket;
    said.push(
        format!(
            "A bucket of {:.3} Mbit/s and {:.1} kB, counted in frames, explains {:.0} % of what is \
             uncertain about the losses.",
            bucket.rate * 8e-6,
            bucket.depth / 1e3,
            100.0 * limiter.explained
        )
        .into(),
    );
    if limiter.mechanism == Mechanism::BurstShaper {
        let queue = limiter.filled * bucket.depth;
        said.push(
            format!(
                "About {:.0} kB pass without delay, then about {:.0} kB are queued.",
                (bucket.depth - queue) / 1e3,
                queue / 1e3
            )
            .into(),
        );
    }
}

/// Why it is none of the other causes, as far as the packets tell.
pub(super) fn ruled_out(
    verdict: Cause,
    course: Option<&Course>,
    losses: Option<&Losses>,
) -> Vec<RuledOut> {
    let mut reasons: Vec<(Cause, Sentence)> = Vec::new();
    if let Some(course) = course {
        let percent = |share: f64| 100.0 * share;
        reasons.push((
            Cause::Application,
            format!(
                "It had nothing to send for {:.0} % of the time.",
                percent(course.idle)
            )
            .into(),
        ));
        reasons.push((
            Cause::ReceiveWindow,
            format!(
                "The receive window left no room for {:.0} % of the time.",
                percent(course.window)
            )
            .into(),
        ));
    }
    match losses {
        None => reasons.extend([
            (Cause::Policer, "Fewer than 3 packets were lost.".into()),
            (Cause::RandomLoss, "Fewer than 3 packets were lost.".into()),
        ]),
        Some(losses) => without_limiter(losses, &mut reasons),
    }
    reasons
        .into_iter()
        .filter(|(cause, _)| *cause != verdict && verdict != Cause::Mixed)
        .map(|(cause, why)| RuledOut { cause, why })
        .collect()
}

fn without_limiter(losses: &Losses, reasons: &mut Vec<(Cause, Sentence)>) {
    let explained = losses.explained.unwrap_or(0.0).max(0.0) * 100.0;
    let waited = losses
        .delay
        .and_then(|delay| delay.at_losses())
        .unwrap_or(0.0)
        .max(0.0)
        * 1e3;
    match losses.limiter.map(|limiter| (limiter.mechanism, limiter.filled)) {
        Some((Mechanism::Policer, filled)) => reasons.push((
            Cause::Queue,
            format!(
                "A full queue of this size would delay packets beside losses. They waited {waited:.1} \
                 ms, {:.0} % of that.",
                100.0 * filled.max(0.0)
            )
            .into(),
        )),
        Some((_, filled)) => reasons.push((
            Cause::Policer,
            format!(
                "Packets beside losses waited {waited:.1} ms, {:.0} % of the time that a full queue \
                 takes to drain. A policer delays nothing.",
                100.0 * filled
            )
            .into(),
        )),
        None => reasons.push((
            Cause::Policer,
            format!("No token bucket explains more than {explained:.0} % of what is uncertain about the losses.").into(),
        )),
    }
    if let Some(gain) = losses
        .beats_bursts
        .filter(|&gain| gain > 0.0 && losses.limiter.is_some())
    {
        reasons.push((
            Cause::RandomLoss,
            format!("The bucket is likelier than bursts of chance by {gain:.0} nats.").into(),
        ));
    }
}
