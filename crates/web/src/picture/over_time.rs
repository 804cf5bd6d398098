//! The panels of a transfer that share its axis of time.

use tidegate_story::account::Kept;
use tidegate_story::model::{Met, Replay};
use tidegate_story::units::rate;
use tidegate_trace::annotate::{Marks, Sent};
use tidegate_trace::detect::Cause;
use tidegate_trace::detect::cause::Mechanism;
use tidegate_trace::read::Nanos;

use super::Picture;
use crate::acks::Acks;
use crate::curve::Point;
use crate::panel::{Mark, Panel};

/// Windows of the throughput over a transfer, unless their length is chosen.
const WINDOWS: u64 = 200;
/// The shortest that is taken then: a millisecond.
const SHORTEST: Nanos = 1_000_000;
/// More windows than that take more memory than pictures are worth.
const MOST_WINDOWS: u64 = 1 << 20;
/// A modelled round-trip time this many times the greatest that was measured is not shown: the rest would be flat.
const MOST_TIMES: f64 = 5.0;

impl Picture {
    /// Points at the times of packets.
    fn at<'a>(
        &'a self,
        which: impl Fn(&Sent) -> bool + 'a,
        value: impl Fn(&Sent) -> f64 + 'a,
    ) -> impl Iterator<Item = Point> + 'a {
        let packets = self.sent.iter().filter(move |sent| which(sent));
        packets.map(move |sent| (self.since(sent.at), value(sent)))
    }

    /// Sequence numbers, as in [Flach16 Figures 1 and 10].
    pub(super) fn sequence(&self, received: Option<&Acks>) -> Panel {
        let mut panel = Panel::new("sequence", "Sequence number", "B");
        panel.follows = true;
        let seq = |sent: &Sent| self.place(sent.seq);
        let arrived =
            |again: bool| move |sent: &Sent| !sent.lost() && sent.is_retransmission() == again;
        let acks = acknowledgements(&self.sent);
        let acks = acks.map(|(at, end)| (self.since(at), self.place(end)));
        if let Some(received) = received {
            let edges = received.windows(self.origin);
            let edges = edges.map(|(at, _, edge)| (at, self.place(edge)));
            panel.aside(
                ("window", Mark::Steps, "grey"),
                "receive window",
                self.inside(edges),
            );
            let blocks = received.blocks(self.origin);
            let blocks = blocks.flat_map(|(at, start, end)| [(at, start), (at, end)]);
            let blocks = blocks.map(|(at, end)| (at, self.place(end)));
            panel.aside(
                ("sacked", Mark::Bars, "sky"),
                "selectively acknowledged",
                self.inside(blocks),
            );
        }
        panel.curve(("acked", Mark::Steps, "green"), "acknowledged", acks);
        panel.curve(
            ("data", Mark::Dots, "blue"),
            "data",
            self.at(arrived(false), seq),
        );
        panel.curve(
            ("again", Mark::Dots, "orange"),
            "retransmission",
            self.at(arrived(true), seq),
        );
        panel.curve(
            ("lost", Mark::Crosses, "red"),
            "lost",
            self.at(Sent::lost, seq),
        );
        if let Some((bps, ends)) = self.limit_line() {
            panel.curve(
                ("limit", Mark::Dashed, "black"),
                format!("{} as payload", rate(bps)),
                ends,
            );
        }
        panel
    }

    /// Points at times, in the transfer's time.
    fn inside(&self, values: impl Iterator<Item = (Nanos, f64)>) -> impl Iterator<Item = Point> {
        let inside = values.filter(|(at, _)| (self.start..=self.end).contains(at));
        inside.map(|(at, value)| (self.since(at), value))
    }

    /// The line that progress cannot cross for long: through the first loss with the limit as its slope, to where the transfer ends.
    fn limit_line(&self) -> Option<(f64, [Point; 2])> {
        let bps = self.limit_bps?;
        let first = self.sent.iter().find(|sent| sent.lost())?;
        let (from, begin) = (self.since(first.at), self.place(first.seq));
        let last = self.sent.iter().map(Sent::end).max()?;
        let bytes_a_second = bps / 8.0;
        let until = (from + (self.place(last) - begin) / bytes_a_second).min(self.seconds());
        let to = (until, begin + (until - from) * bytes_a_second);
        (bps > 0.0).then_some((bps, [(from, begin), to]))
    }

    /// The length of windows that suits the transfer.
    pub(super) fn suitable_window(&self) -> Nanos {
        (self.end.saturating_sub(self.start) / WINDOWS + 1).max(SHORTEST)
    }

    /// Counts throughput and goodput in windows of this length, or of one that suits the transfer.
    ///
    /// # Errors
    /// That is no length.
    pub fn count_in(&mut self, seconds: Option<f64>) -> Result<(), String> {
        let least = self.end.saturating_sub(self.start) / MOST_WINDOWS + 1;
        self.window = match seconds {
            None => self.suitable_window(),
            Some(seconds) if seconds.is_finite() && seconds > 0.0 => {
                ((seconds * 1e9).round() as Nanos).max(least)
            }
            Some(seconds) => return Err(format!("{seconds} s is no length of a window")),
        };
        let throughput = self.throughput();
        for panel in &mut self.panels {
            if panel.key == throughput.key {
                *panel = throughput;
                break;
            }
        }
        Ok(())
    }

    /// Throughput, which counts what was sent, and goodput, which counts what was acknowledged, in windows of equal length.
    pub(super) fn throughput(&self) -> Panel {
        let width = self.window.max(1);
        let whole = self.end.saturating_sub(self.start);
        // The last window ends with the transfer. It lasts at least half as long as the others: in less, a packet is a peak.
        let count = ((whole + width / 2) / width).clamp(1, MOST_WINDOWS + 1) as usize;
        let mut windows = vec![(0u64, 0u64); count];
        let place = |at: Nanos| ((at.saturating_sub(self.start) / width) as usize).min(count - 1);
        for sent in &self.sent {
            windows[place(sent.at)].0 += u64::from(sent.len);
        }
        let mut before = self.origin;
        for (at, end) in acknowledgements(&self.sent) {
            windows[place(at)].1 += end.saturating_sub(before);
            before = before.max(end);
        }
        let points = |value: fn(&(u64, u64)) -> u64| {
            let windows = windows.iter().enumerate();
            let mut points: Vec<Point> = windows
                .map(|(i, window)| {
                    let begin = i as u64 * width;
                    let end = if i + 1 == count { whole } else { begin + width };
                    let seconds = (end - begin).max(super::SHORTEST) as f64 / 1e9;
                    (begin as f64 / 1e9, value(window) as f64 * 8.0 / seconds)
                })
                .collect();
            points.extend(points.last().map(|last| (self.seconds(), last.1)));
            points
        };
        let mut panel = Panel::new("throughput", "Throughput and goodput", "bit/s");
        panel.curve(
            ("sent", Mark::Steps, "blue"),
            "throughput: payload sent",
            points(|window| window.0),
        );
        panel.curve(
            ("acked", Mark::Steps, "green"),
            "goodput: payload acknowledged",
            points(|window| window.1),
        );
        if let Some(bps) = self.limit_bps {
            panel.curve(
                ("limit", Mark::Dashed, "black"),
                "the limit as payload",
                self.across(bps),
            );
        }
        panel
    }

    /// A level line.
    fn across(&self, value: f64) -> [Point; 2] {
        [(0.0, value), (self.seconds(), value)]
    }

    /// Bytes in flight, with the window that matters.
    pub(super) fn in_flight(&self, kept: &Kept, received: Option<&Acks>) -> Panel {
        let mut panel = Panel::new("flight", "Bytes in flight", "B");
        let flight = |sent: &Sent| f64::from(sent.in_flight);
        if let Some(received) = received {
            let windows = received.windows(self.origin);
            let windows = windows.map(|(at, window, _)| (at, window as f64));
            panel.aside(
                ("window", Mark::Steps, "grey"),
                "receive window",
                self.inside(windows),
            );
        }
        panel.curve(
            ("flight", Mark::Line, "blue"),
            "in flight",
            self.at(|_| true, flight),
        );
        panel.curve(
            ("full", Mark::Dots, "purple"),
            "receive window full",
            self.at(|sent| sent.marks.has(Marks::WINDOW_FULL), flight),
        );
        panel.curve(
            ("lost", Mark::Crosses, "red"),
            "lost",
            self.at(Sent::lost, flight),
        );
        let course = kept.findings().and_then(|findings| findings.course);
        if let Some((course, bps)) = course.zip(self.limit_bps) {
            let trip = bps / 8.0 * course.base;
            let most = self
                .sent
                .iter()
                .map(|sent| f64::from(sent.in_flight))
                .fold(0.0, f64::max);
            if trip <= most {
                panel.curve(
                    ("trip", Mark::Dashed, "black"),
                    "a round trip's worth at the limit",
                    self.across(trip),
                );
            }
        }
        panel
    }

    /// Round-trip times, and what the fitted limiter's queue adds, or would add.
    pub(super) fn round_trips(&self, kept: &Kept, replay: &Replay) -> Option<Panel> {
        let measured: Vec<Point> = self
            .sent
            .iter()
            .filter_map(|sent| Some((self.since(sent.at), sent.rtt()? as f64 / 1e9)))
            .collect();
        let greatest = measured.iter().map(|(_, rtt)| *rtt).fold(0.0, f64::max);
        let mut panel = Panel::new("rtt", "Round-trip time", "s");
        panel.curve(("measured", Mark::Dots, "sky"), "measured", measured);
        let course = kept.findings().and_then(|findings| findings.course)?;
        panel.curve(
            ("base", Mark::Dashed, "grey"),
            "least of the path",
            self.across(course.base),
        );
        if let Replay::Done(model) = replay {
            let label = match model.limiter.mechanism {
                Mechanism::Policer | Mechanism::Either => {
                    "if the limiter were a queue of this size"
                }
                Mechanism::Queue | Mechanism::BurstShaper => "with the fitted queue's delay",
            };
            let most = MOST_TIMES * greatest;
            let points = model
                .met(std::slice::from_ref(kept))
                .filter(|met| !met.lost);
            let points =
                points.map(|met| (self.since(met.at), (course.base + met.delay).min(most)));
            panel.curve(("modelled", Mark::Line, "purple"), label, points);
        }
        (!panel.curves.is_empty()).then_some(panel)
    }

    /// The level of the fitted limiter: packets are lost where the bucket is empty, or the queue full.
    pub(super) fn level(&self, kept: &Kept, replay: &Replay) -> Option<Panel> {
        let mut panel = Panel::new("tokens", "Tokens in the fitted bucket", "B");
        let model = match replay {
            Replay::Done(model) => model,
            Replay::Impossible(why) if kept.judgement.cause == Cause::Policer => {
                panel.note = Some(why);
                return Some(panel);
            }
            _ => return None,
        };
        let depth = model.limiter.bucket.depth;
        let is_queue = model.limiter.mechanism == Mechanism::Queue;
        if is_queue {
            panel = Panel::new("queued", "Bytes in the fitted queue", "B");
        }
        let label = if is_queue { "queued" } else { "tokens" };
        let met = || model.met(std::slice::from_ref(kept));
        let at = |met: Met| {
            // The level is what the queue has room for.
            let level = if is_queue {
                depth - met.level
            } else {
                met.level
            };
            (self.since(met.at), level)
        };
        panel.curve(("level", Mark::Line, "blue"), label, met().map(at));
        let lost = met().filter(|met| met.lost);
        panel.curve(("lost", Mark::Crosses, "red"), "lost", lost.map(at));
        panel.curve(("full", Mark::Dashed, "black"), "full", self.across(depth));
        Some(panel)
    }
}

/// The cumulative acknowledgement: a byte is acknowledged when it and all before it are.
fn acknowledgements(sent: &[Sent]) -> impl Iterator<Item = (Nanos, u64)> {
    let first_sends = sent.iter().filter(|sent| !sent.is_retransmission());
    let mut first_sends: Vec<&Sent> = first_sends.collect();
    first_sends.sort_by_key(|sent| sent.seq);
    let mut latest = 0;
    let acked = first_sends
        .into_iter()
        .take_while(|sent| sent.acked_at != 0);
    acked.map(move |sent| {
        latest = latest.max(sent.acked_at);
        (latest, sent.end())
    })
}
