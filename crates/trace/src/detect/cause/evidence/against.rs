//! Why it was none of the other causes, as far as the packets tell.

use super::{Findings, OVERSHOT, PART, Sentence, at_most, bytes, milliseconds, percent, rate};
use crate::annotate::TransferSummary;
use crate::detect::cause::course::Course;
use crate::detect::cause::limiter::{Losses, Mechanism};
use crate::detect::cause::shift::{self, Shift};
use crate::detect::{Cause, Judgement, RuledOut};

/// An end that held the transfer back for less than this share of its time is ruled out.
const LESS: f64 = 0.25;

/// Every cause but the verdict's, with what was measured that speaks against it, or with why it was not considered. Causes that
/// cannot be distinguished, and those that limited a part of the time, are not ruled out. Where nothing can be said, causes that
/// nothing measured speaks against are left out.
pub(super) fn ruled_out(
    summary: &TransferSummary,
    judgement: &Judgement,
    findings: &Findings,
) -> Vec<RuledOut> {
    let (verdict, left) = (judgement.cause, &judgement.left);
    let has_part = |cause: Cause| {
        let mut shares = judgement.shares.iter();
        shares.any(|part| part.cause == cause && part.share >= PART)
    };
    let case = Case {
        summary,
        verdict,
        course: findings.course.as_ref(),
        losses: findings.losses.as_ref(),
        shift: findings.shift.as_ref(),
    };
    let others = Cause::ALL
        .into_iter()
        .filter(|&cause| cause != verdict && !left.contains(&cause) && !has_part(cause));
    others
        .filter_map(|cause| {
            let nothing_is_sure = verdict == Cause::Unclear && left.is_empty();
            let why = case.why_not(cause);
            let why = why.or_else(|| case.not_considered(cause).filter(|_| !nothing_is_sure))?;
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
            Cause::ShaperBurst => self.no_burst(),
            Cause::Mixed | Cause::Unclear => None,
        }
    }

    /// Why nothing measured speaks for or against a cause.
    fn not_considered(&self, cause: Cause) -> Option<Sentence> {
        let metrics = &self.summary.metrics;
        Some(match cause {
            Cause::Mixed | Cause::Unclear => return None,
            Cause::Application | Cause::Sender | Cause::RoundTrips if self.course.is_none() => {
                "Not considered: no round-trip time is known.".into()
            }
            Cause::ReceiveWindow if !self.summary.tally.window_known => {
                "Not considered: the scale of the receive window is not known.".into()
            }
            Cause::ReceiveWindow | Cause::Application | Cause::RoundTrips => {
                let course = self.course?;
                let share = match cause {
                    Cause::ReceiveWindow => course.window,
                    Cause::Application => course.idle,
                    _ => course.doubling,
                };
                format!("It explains {} of the time.", percent(share)).into()
            }
            _ if metrics.rtt.is_none() => "Not considered: no round-trip time is known.".into(),
            // Whatever loses packets on the way.
            Cause::Policer | Cause::RandomLoss
                if self.is_lossy() && self.verdict == Cause::Unclear =>
            {
                "The losses fit what is left better.".into()
            }
            Cause::Policer | Cause::RandomLoss if self.is_lossy() => {
                "The losses fit the verdict better.".into()
            }
            Cause::Queue | Cause::Aqm | Cause::ShaperBurst => {
                let waited = at_most(self.course?.waiting.max(0.0));
                let explained = match self.verdict {
                    Cause::Unclear => "",
                    _ => ", and the verdict explains that",
                };
                format!("Half of the packets waited {waited} in queues{explained}.").into()
            }
            _ => "Nothing measured speaks for it.".into(),
        })
    }

    fn is_lossy(&self) -> bool {
        self.losses.is_some()
    }

    /// Whether a limiter or a link on the way decided.
    fn is_in_network(&self) -> bool {
        matches!(
            self.verdict,
            Cause::Policer | Cause::Queue | Cause::Aqm | Cause::ShaperBurst
        )
    }

    /// Why no shaper let a burst pass first.
    fn no_burst(&self) -> Option<Sentence> {
        let rtt = self.summary.metrics.rtt?;
        let waited = rtt.p90.saturating_sub(rtt.min) as f64 / 1e9;
        if self.shift.is_some() {
            return None;
        }
        Some(if Shift::is_possible(&self.summary.metrics) {
            "There is no moment from which on packets came slower and waited in a queue that fills when an \
             allowance for a burst is used up."
                .into()
        } else if waited < shift::WAITED {
            format!(
                "A shaper makes packets wait when its burst is used up. Nine in ten packets waited {}.",
                at_most(waited)
            )
            .into()
        } else {
            "Not considered: the transfer is too short to show two rates, one after the other."
                .into()
        })
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
                        format!(
                            "A queue that drops is full. Packets beside losses waited {waited}."
                        )
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
                self.hardly_waited()
            }
            _ => None,
        }
    }

    fn hardly_waited(&self) -> Option<Sentence> {
        let course = self.course.filter(|course| !course.queued)?;
        let waited = at_most(course.waiting.max(0.0));
        Some(format!("Half of the packets waited {waited} in queues.").into())
    }

    fn no_managed_queue(&self) -> Option<Sentence> {
        match self.verdict {
            Cause::Policer | Cause::RandomLoss => Some(
                format!(
                    "A managed queue drops packets only after others have waited. Packets beside losses \
                     waited {}.",
                    milliseconds(self.waited()?)
                )
                .into(),
            ),
            Cause::Queue if self.losses.is_none() => {
                self.hardly_lost("A managed queue drops or marks packets as soon as they wait for long.")
            }
            Cause::Queue => {
                let waited = milliseconds(self.waited()?);
                let text = match self.losses?.limiter {
                    Some(limiter) => format!(
                        "A managed queue drops before it is full. This one dropped when {} were in it, and \
                         packets beside losses waited {waited}.",
                        bytes(limiter.bucket.depth)
                    ),
                    None => format!(
                        "A managed queue drops before it is full. Packets beside losses waited {waited}; one \
                         packet in twenty waited {} or more.",
                        milliseconds(self.losses?.delay?.upper?.max(0.0))
                    ),
                };
                Some(text.into())
            }
            Cause::ShaperBurst => {
                let allowance = match self.shift {
                    Some(shift) => shift.allowance,
                    None => self.losses?.limiter?.burst?.bytes,
                };
                Some(
                    format!(
                        "{} beyond the rate passed before packets waited. A managed queue has no such \
                         allowance.",
                        bytes(allowance)
                    )
                    .into(),
                )
            }
            Cause::Sender | Cause::Application | Cause::ReceiveWindow | Cause::RoundTrips => {
                let hardly = self.hardly_lost("A managed queue drops or marks packets as soon as they wait for long.");
                hardly.or_else(|| self.hardly_waited())
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
                 that a token bucket can have at most."
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
        let course = self.course?;
        if course.window >= LESS {
            let fills_it = course.busy && self.is_in_network();
            return fills_it.then(|| {
                let share = percent(course.window);
                format!(
                    "It was full for {share} of the time, of data that waited in the queue: a larger one makes the queue longer, \
                     and the transfer no faster."
                )
                .into()
            });
        }
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
        let repairing = self.course.map_or(0.0, |course| course.repairing);
        if repairing >= PART {
            return Some(
                format!(
                    "Its slow recovery explains {} of the time.",
                    percent(repairing)
                )
                .into(),
            );
        }
        let metrics = &self.summary.metrics;
        let factor = metrics.evidence.overshoot;
        let overshot = metrics.lost_packets > 0 && factor >= OVERSHOT && factor.is_finite();
        if overshot && self.is_in_network() {
            return Some(
                format!(
                    "The sender was ready to send {factor:.1} times as fast before packets were lost."
                )
                .into(),
            );
        }
        match self.verdict {
            Cause::Queue | Cause::Aqm | Cause::ShaperBurst => {
                let course = self.course.filter(|course| course.waiting > 0.0)?;
                Some(
                    format!(
                        "It sent more than the path carries: half of the packets waited {} or longer.",
                        milliseconds(course.waiting)
                    )
                    .into(),
                )
            }
            Cause::Policer | Cause::RandomLoss if self.is_lossy() => Some(
                format!(
                    "A sender that holds itself back loses nothing. Of these packets {} were lost.",
                    percent(metrics.loss_rate())
                )
                .into(),
            ),
            Cause::ReceiveWindow => {
                let share = percent(self.course?.window);
                Some(
                    format!(
                        "It could not send more while the window was full, for {share} of the time."
                    )
                    .into(),
                )
            }
            Cause::Application => {
                let course = self.course?;
                let share = percent(course.idle.max(course.starved));
                Some(format!("It had nothing to send for {share} of the time.").into())
            }
            Cause::RoundTrips => {
                let share = percent(self.course?.doubling);
                Some(format!("Its window could still double for {share} of the time.").into())
            }
            _ => None,
        }
    }

    fn no_round_trips(&self) -> Option<Sentence> {
        let course = self.course?;
        let rounds = course.rounds.max(1.0);
        let grown = (course.doubling * course.rounds).max(1.0);
        Some(match course.doubling < LESS {
            true => format!(
                "The transfer took {rounds:.0} round trips. Its window had grown after {grown:.0} of them."
            ),
            false if self.is_in_network() || self.verdict == Cause::RandomLoss => format!(
                "Its window could still double in {} of the time, but the network slowed it down too.",
                percent(course.doubling)
            ),
            false => return None,
        }
        .into())
    }
}
