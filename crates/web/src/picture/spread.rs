//! How a transfer's measures are distributed, and whether its delays are those of the fitted limiter's queue.

use tidegate_story::account::Kept;
use tidegate_story::model::Replay;
use tidegate_trace::annotate::burst;
use tidegate_trace::detect::cause::Mechanism;
use tidegate_trace::read::Nanos;

use super::Picture;
use crate::acks::Acks;
use crate::curve::Point;
use crate::panel::{Axis, Mark, Panel};

/// Shorter gaps are drawn like this one: a microsecond, which is what most captures tell apart.
const SHORTEST: Nanos = 1_000;

impl Picture {
    /// Is it a policer? How long packets waited beside how long the queue of the fitted limiter would have held them. Those of a
    /// queue lie on the line, those of a policer at the bottom.
    pub(super) fn waited(&self, kept: &Kept, replay: &Replay) -> Option<Panel> {
        let Replay::Done(model) = replay else {
            return None;
        };
        let course = kept.findings()?.course?;
        let axis = Axis {
            title: match model.limiter.mechanism {
                Mechanism::Policer | Mechanism::Either => {
                    "delay if the limiter were a queue of this size"
                }
                Mechanism::Queue | Mechanism::BurstShaper => "delay in the fitted queue",
            },
            unit: "s",
            log: false,
        };
        let title = "Measured delay against the modelled one";
        let mut panel = Panel::over(axis, "waited", title, "s");
        // The model met the packets of the transfer in the order of time, as they are here.
        let met = model.met(std::slice::from_ref(kept)).zip(&self.sent);
        let points = met.filter_map(|(met, sent)| {
            let waited = sent.rtt()? as f64 / 1e9 - course.base;
            (!met.lost && met.at == sent.at).then_some((met.delay, waited.max(0.0)))
        });
        let points: Vec<Point> = points.collect();
        let most = points.iter().map(|(delay, _)| *delay).fold(0.0, f64::max);
        let greatest = points.iter().map(|(_, waited)| *waited).fold(0.0, f64::max);
        if points.is_empty() || most <= 0.0 {
            return None;
        }
        panel.curve(("packets", Mark::Dots, "blue"), "each packet", points);
        let end = most.min(greatest.max(most / 2.0));
        panel.aside(
            ("queue", Mark::Line, "purple"),
            "where a queue would have them",
            [(0.0, 0.0), (end, end)],
        );
        Some(panel)
    }

    /// The gaps between packets, and between their acknowledgements: a bottleneck spaces these.
    pub(super) fn gaps(&self, received: Option<&Acks>) -> Panel {
        let axis = Axis {
            title: "from one to the next",
            unit: "s",
            log: true,
        };
        let title = "Inter-arrival times, cumulative";
        let mut panel = Panel::over(axis, "gaps", title, "%");
        let sent = self.sent.iter().map(|sent| sent.at);
        let seconds = |gap: Nanos| (gap.max(SHORTEST) as f64 / 1e9).log10();
        let data = cumulative(gaps(sent).into_iter().map(seconds));
        panel.curve(("data", Mark::Steps, "blue"), "data packets", data);
        if let Some(received) = received {
            let inside = received.times();
            let inside = inside.filter(|at| (self.start..=self.end).contains(at));
            let acks = cumulative(gaps(inside).into_iter().map(seconds));
            panel.curve(("acks", Mark::Steps, "green"), "acknowledgements", acks);
        }
        if panel.curves.is_empty() {
            panel.note = Some("There is only one packet.");
        }
        panel
    }

    /// The sizes of bursts [Trickle §3.2].
    pub(super) fn bursts(&self) -> Panel {
        let axis = Axis {
            title: "packets in a burst",
            unit: "packets",
            log: true,
        };
        let mut panel = Panel::over(axis, "bursts", "Sizes of bursts, cumulative", "%");
        let sizes = burst::bursts(self.sent.iter().map(|sent| sent.at));
        let sizes = sizes.into_iter().map(|size| f64::from(size).log10());
        let label = "runs of 4 packets and more, each within 1 ms of the one before";
        panel.curve(("sizes", Mark::Steps, "blue"), label, cumulative(sizes));
        if panel.curves.is_empty() {
            panel.note =
                Some("Never were 4 packets sent with less than 1 ms from each to the next.");
        }
        panel
    }
}

/// The times from each to the next. A clock that goes back gives none.
fn gaps(times: impl Iterator<Item = Nanos>) -> Vec<Nanos> {
    let mut before = None;
    let gaps = times.filter_map(|at| {
        let gap = before.and_then(|before| at.checked_sub(before));
        before = Some(at);
        gap
    });
    gaps.collect()
}

/// For each value the share in percent of those that are not greater.
pub fn cumulative(values: impl Iterator<Item = f64>) -> Vec<Point> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let all = values.len() as f64;
    let mut points: Vec<Point> = Vec::new();
    if let Some(first) = values.first() {
        points.push((*first, 0.0));
    }
    for (rank, value) in values.into_iter().enumerate() {
        let share = (rank + 1) as f64 / all * 100.0;
        match points.last_mut() {
            Some(last) if last.0 == value && last.1 > 0.0 => last.1 = share,
            _ => points.push((value, share)),
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_reach_all() {
        let points = cumulative([3.0, 1.0, 1.0, 2.0].into_iter());
        assert_eq!(points, [(1.0, 0.0), (1.0, 50.0), (2.0, 75.0), (3.0, 100.0)]);
        assert!(cumulative(std::iter::empty()).is_empty());
    }

    #[test]
    fn gaps_ignore_steps_back() {
        assert_eq!(gaps([5, 9, 7, 8].into_iter()), [4, 1]);
    }
}
