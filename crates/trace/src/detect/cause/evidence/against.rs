//! Why it was none of the other causes, as far as the packets tell.

use super::{Findings, OVERSHOT, Sentence, bytes, milliseconds, percent, rate};
use crate::annotate::TransferSummary;
use crate::detect::cause::course::Course;
use crate::detect::cause::limiter::{Losses, Mechanism};
use crate::detect::cause::shift::Shift;
use crate::detect::{Cause, RuledOut};

/// An end that held the transfer back for less than this share of its time is ruled out.
const LESS: f64 = 0.25;

/// Every cause that something measured speaks against, with that. `left` are those that cannot be told apart.
pub(in crate::detect::cause) fn ruled_out(
    summary: &TransferSummary,
    verdict: Cause,
    left: &[Cause],
    findings: &Findings,
) -> Vec<RuledOut> {
    let case = Case {
        summary,
        verdict,
        course: findings.course.as_ref(),
        losses: findings.losses.as_ref(),
        shift: findings.shift.as_ref(),
    };
    let others = Cause::ALL
        .into_iter()
        .filter(|&cause| cause != verdict && !left.contains(&cause));
    others
        .filter_map(|cause| {
            let why = case.why_not(cause)?;
            Some(RuledOut { cause, why })
        })
        .collect()
}

struct Case<'a> {
    summary: &'a TransferSummary,
    verdict: Cause,
    course: Option<&'a Course>,
    losses: Option<&'a Losses>,
    shift: Option<&'a Shift>,
}

impl Case<'_> {
    fn why_not(&self, cause: Cause) -> Option<Sentence> {
        match cause {
            Cause::Policer => self.no_policer(),
            Cause::Queue => self.no_queue(),
            Cause::Aqm => self.no_managed_queue(),
            Cause::RandomLoss => self.no_random_loss(),
            Cause::ReceiveWindow => self.no_receive_window(),
            Cause::Application => self.no_application(),
            Cause::Sender => self.no_sender(),
            Cause::RoundTrips => self.no_round_trips(),
            Cause::ShaperBurst | Cause::Mixed | Cause::Unclear => None,
        }
    }

    /// Seconds that packets beside the median loss waited.
    fn waited(&self) -> Option<f64> {
        Some(self.losses?.delay?.at_losses()?.max(0.0))
    }

    /// Why nothing that shows by losses limited the transfer: there were hardly any.
    fn hardly_lost(&self, needs: &str) -> Option<Sentence> {
        match self.summary.metrics.lost_packets {
            0 => Some(format!("No packet was lost. {needs}").into()),
            1 if self.losses.is_none() => Some(format!("Only one packet was lost. {needs}").into()),
            lost if self.losses.is_none() => {
                Some(format!("Only {lost} packets were lost. {needs}").into())
            }
            _ => None,
        }
    }

    fn no_policer(&self) -> Option<Sentence> {
        let hardly = self.hardly_lost("A policer limits a transfer by dropping its packets.");
        if hardly.is_some() {
            return hardly;
        }
        let losses = self.losses?;
        match losses.limiter.map(|limiter| limiter.mechanism) {
            Some(Mechanism::Queue | Mechanism::BurstShaper) => Some(
                format!(
                    "A policer delays nothing. Packets beside losses waited {}.",
                    milliseconds(self.waited()?)
                )
                .into(),
            ),
            Some(Mechanism::Policer | Mechanism::Either) => None,
            None if self.verdict == Cause::Unclear || losses.might_be_policed => None,
            None => Some(match losses.explained {
                Some(explained) if explained > 0.0 => format!(
                    "The token bucket that fits best explains {} of when packets were lost.",
                    percent(explained)
                )
                .into(),
                _ => "No token bucket explains when packets were lost better than chance does."
                    .into(),
            }),
        }
    }

    fn no_queue(&self) -> Option<Sentence> {
        match self.verdict {
            Cause::Policer => {
                let waited = milliseconds(self.waited()?);
                let limiter = self.losses?.limiter?;
                if limiter.unseen_users {
                    return Some(
                        format!("A queue that drops is full. Packets beside losses waited only {waited}.")
                            .into(),
                    );
                }
                let bucket = limiter.bucket;
                Some(
                    format!(
                        "A full queue of {} that drains at {} delays packets by {}. Packets beside \
                         losses waited {waited}.",
                        bytes(bucket.depth),
                        rate(bucket.rate * 8.0),
                        milliseconds(bucket.depth / bucket.rate),
                    )
                    .into(),
                )
            }
            Cause::RandomLoss => Some(
                format!(
                    "A queue that drops is full. Packets beside losses waited {}, and the delay of \
                     others was no less.",
                    milliseconds(self.waited()?)
                )
                .into(),
            ),
            Cause::Aqm => {
                let upper = self.losses?.delay?.upper?;
                Some(
                    format!(
                        "A queue without management drops only when it is full. Packets beside losses \
                         waited {}; one packet in twenty waited {} or more.",
                        milliseconds(self.waited()?),
                        milliseconds(upper.max(0.0))
                    )
                    .into(),
                )
            }
            Cause::ShaperBurst => {
                let shift = self.shift?;
                Some(
                    format!(
                        "{} beyond the rate passed before packets waited. In a queue without an allowance for \
                         bursts they would have waited {}.",
                        bytes(shift.allowance),
                        milliseconds(shift.allowance / shift.rate),
                    )
                    .into(),
                )
            }
            Cause::Sender | Cause::Application | Cause::ReceiveWindow | Cause::RoundTrips => {
                let course = self.course.filter(|course| !course.queued)?;
                Some(
                    format!(
                        "Half of the packets waited {} or less in queues.",
                        milliseconds(course.waiting.max(0.000_1))
                    )
                    .into(),
                )
            }
            _ => None,
        }
    }

    fn no_managed_queue(&self) -> Option<Sentence> {
        match self.verdict {
            Cause::Policer => Some(
                format!(
                    "A managed queue drops packets only after others have waited. Packets beside losses \
                     waited {}.",
                    milliseconds(self.waited()?)
                )
                .into(),
            ),
            Cause::Queue if self.losses.is_none() => {
                self.hardly_lost("A managed queue drops packets as soon as they wait for long.")
            }
            _ => None,
        }
    }

    fn no_random_loss(&self) -> Option<Sentence> {
        let hardly = self.hardly_lost("Random loss slows a transfer by losing its packets.");
        if hardly.is_some() {
            return hardly;
        }
        let losses = self.losses?;
        if losses.limiter.is_some_and(|limiter| limiter.unseen_users) {
            return Some(
                "Chance, even chance that strikes in bursts, predicts these losses less well than the level \
                 that a shared bucket can have at most."
                    .into(),
            );
        }
        if losses.limiter.is_some() {
            // Nats to powers of ten.
            let power = losses.beats_bursts? / std::f64::consts::LN_10;
            return (power >= 1.0).then(|| {
                format!(
                    "These losses are 10^{power:.0} times as likely with that bucket as with chance, even \
                     chance that strikes in bursts."
                )
                .into()
            });
        }
        matches!(self.verdict, Cause::Queue | Cause::Aqm).then_some(())?;
        Some(
            format!(
                "Random losses fall at any delay. Packets beside these losses waited {}.",
                milliseconds(self.waited()?)
            )
            .into(),
        )
    }

    fn no_receive_window(&self) -> Option<Sentence> {
        let course = self.course.filter(|course| course.window < LESS)?;
        self.summary.tally.window_known.then(|| {
            if course.window == 0.0 {
                "The receive window always left room for another packet.".into()
            } else {
                let share = percent(course.window);
                format!("The receive window was full for {share} of the time.").into()
            }
        })
    }

    fn no_application(&self) -> Option<Sentence> {
        let course = self.course.filter(|course| course.idle < LESS)?;
        Some(if course.idle == 0.0 {
            "The sender always had data in flight.".into()
        } else {
            let share = percent(course.idle);
            format!("The sender had nothing in flight for {share} of the time.").into()
        })
    }

    fn no_sender(&self) -> Option<Sentence> {
        let metrics = &self.summary.metrics;
        let factor = metrics.evidence.overshoot;
        let overshot = metrics.lost_packets > 0 && factor >= OVERSHOT && factor.is_finite();
        let network = matches!(
            self.verdict,
            Cause::Policer | Cause::Queue | Cause::Aqm | Cause::ShaperBurst
        );
        (overshot && network).then(|| {
            format!(
                "The sender was ready to send {factor:.1} times as fast before packets were lost."
            )
            .into()
        })
    }

    fn no_round_trips(&self) -> Option<Sentence> {
        let course = self.course.filter(|course| course.doubling < LESS)?;
        Some(
            format!(
                "The transfer took {:.0} round trips. Its window had grown after {:.0} of them.",
                course.rounds,
                (course.doubling * course.rounds).max(1.0)
            )
            .into(),
        )
    }
}
