//! The picture of a flow: panels over one time axis, each where it carries the verdict.

use tidegate_plot::{Ink, Panels};
use tidegate_trace::annotate::{Layer, Marks, Sent};
use tidegate_trace::detect::Cause;
use tidegate_trace::detect::cause::Mechanism;
use tidegate_trace::detect::pd::Answer;
use tidegate_trace::read::Nanos;

use crate::account::{Account, Kept};
use crate::headline;
use crate::model::{Met, Model, Replay};
use crate::units::rate;

/// Heights of panels, in pixels.
const TALL: f64 = 280.0;
const LOW: f64 = 150.0;
/// A round-trip time this many times the greatest that was measured is not shown: the rest would be flat.
const MOST_TIMES: f64 = 5.0;

/// The picture as SVG.
pub fn draw(account: &Account, replay: &Replay) -> String {
    let drawn = Drawn::of(account);
    let info = &account.info;
    let title = format!(
        "Flow {}: {} > {}, data from the {}",
        info.number,
        info.client,
        info.server,
        account.side()
    );
    let mut picture = Panels::new(
        &title,
        "time since the first data packet, s",
        0.0,
        drawn.seconds(drawn.end),
    );
    let chosen = account.chosen();
    let verdict = headline::sentence(&chosen.transfer, &chosen.judgement);
    if account.transfers.len() > 1 {
        let segment = chosen.transfer.id.segment;
        picture.text(&format!("Segment {segment}, shaded: {verdict}"));
        let metrics = &chosen.transfer.metrics;
        let end = metrics.first_sent + metrics.duration;
        picture.shade(drawn.seconds(metrics.first_sent), drawn.seconds(end));
    } else {
        picture.text(&verdict);
    }
    picture.describe(&format!(
        "What happened in {}, packet by packet, over time. {verdict}",
        account.capture
    ));
    drawn.sequence(&mut picture);
    let cause = chosen.judgement.cause;
    // `pd` knows no causes but policers, and draws what its paper draws.
    if chosen.findings().is_none() {
        return picture.svg();
    }
    if !matches!(cause, Cause::RoundTrips) {
        drawn.in_flight(&mut picture, chosen);
    }
    if !matches!(
        cause,
        Cause::Application | Cause::ReceiveWindow | Cause::RoundTrips
    ) {
        drawn.round_trips(&mut picture, chosen, replay);
    }
    match replay {
        Replay::Impossible(why) if cause == Cause::Policer => {
            picture
                .panel("tokens in the policer's bucket", LOW, 0.0, 1.0)
                .note(why);
        }
        Replay::Done(model) if carries_tokens(cause, model.limiter.mechanism) => {
            drawn.tokens(&mut picture, model);
        }
        _ => {}
    }
    picture.svg()
}

/// Whether a verdict rests on a limiter's tokens: what is free in a queue shows in its delay.
fn carries_tokens(cause: Cause, mechanism: Mechanism) -> bool {
    let rests = matches!(
        cause,
        Cause::Policer | Cause::ShaperBurst | Cause::Mixed | Cause::Unclear
    );
    rests && mechanism != Mechanism::Queue
}

/// Bytes in the unit that suits the greatest, and its name.
fn unit(most: f64) -> (f64, &'static str) {
    match most {
        b if b < 10e3 => (1.0, "B"),
        b if b < 2e6 => (1e3, "kB"),
        b if b < 2e9 => (1e6, "MB"),
        _ => (1e9, "GB"),
    }
}

/// Interrupts a line.
const GAP: (f64, f64) = (f64::NAN, f64::NAN);

/// What is drawn: the transfers of a flow whose packets were kept.
struct Drawn<'a> {
    transfers: &'a [Kept],
    start: Nanos,
    end: Nanos,
    origin: u64,
}

impl<'a> Drawn<'a> {
    fn of(account: &'a Account) -> Self {
        let packets = || account.transfers.iter().flat_map(|kept| &kept.sent);
        let start = packets().map(|sent| sent.at).min().unwrap_or(0);
        let ends = packets().map(|sent| sent.at.max(sent.acked_at));
        Self {
            transfers: &account.transfers,
            start,
            end: ends.max().unwrap_or(start),
            origin: packets().map(|sent| sent.seq).min().unwrap_or(0),
        }
    }

    fn packets(&self) -> impl Iterator<Item = &'a Sent> + use<'a> {
        self.transfers.iter().flat_map(|kept| &kept.sent)
    }

    fn seconds(&self, at: Nanos) -> f64 {
        at.saturating_sub(self.start) as f64 / 1e9
    }

    /// Sequence numbers, as in [Flach16 Figures 1 and 10].
    fn sequence(&self, picture: &mut Panels) {
        let place = |seq: u64| seq.saturating_sub(self.origin) as f64;
        let most = self.packets().map(|sent| place(sent.end()));
        let most = most.fold(0.0, f64::max);
        let (scale, name) = unit(most);
        let title = format!("sequence number, {name}");
        let panel = picture.panel(&title, TALL, 0.0, most / scale);
        let at = |sent: &Sent| (self.seconds(sent.at), place(sent.seq) / scale);
        let arrived = |again: bool| {
            let packets = self.packets();
            packets.filter(move |sent| !sent.lost() && sent.is_retransmission() == again)
        };
        let acks = self.transfers.iter().flat_map(|kept| {
            let acks = acknowledgements(&kept.sent);
            let acks = acks.map(|(acked, end)| (self.seconds(acked), place(end) / scale));
            acks.chain([GAP])
        });
        panel.steps(Ink::Green, "acknowledged", acks);
        panel.dots(Ink::Blue, "data", arrived(false).map(at));
        panel.dots(Ink::Orange, "retransmission", arrived(true).map(at));
        panel.crosses(
            Ink::Red,
            "lost",
            self.packets().filter(|sent| sent.lost()).map(at),
        );
        let lines: Vec<(f64, [(Nanos, u64); 2])> =
            self.transfers.iter().filter_map(limit_line).collect();
        let name = match &lines[..] {
            [(bps, _)] => format!("{} as payload", rate(*bps)),
            _ => "the fitted limits".to_owned(),
        };
        let lines = lines.into_iter().flat_map(|(_, ends)| {
            let ends = ends.map(|(at, seq)| (self.seconds(at), place(seq) / scale));
            ends.into_iter().chain([GAP])
        });
        panel.dashed(Ink::Black, &name, lines);
    }

    /// Bytes in flight, with the windows that matter.
    fn in_flight(&self, picture: &mut Panels, chosen: &Kept) {
        let most = self.packets().map(|sent| f64::from(sent.in_flight));
        let most = most.fold(0.0, f64::max) * 1.05;
        let (scale, name) = unit(most);
        let title = format!("bytes in flight, {name}");
        let panel = picture.panel(&title, LOW, 0.0, most / scale);
        let at = |sent: &Sent| (self.seconds(sent.at), f64::from(sent.in_flight) / scale);
        let mut acked = 0;
        let line = self.packets().flat_map(|sent| {
            // Nothing was in flight since the last acknowledgement.
            let empty = (sent.in_flight <= sent.len && acked != 0 && acked < sent.at)
                .then(|| [(self.seconds(acked), 0.0), (self.seconds(sent.at), 0.0)]);
            acked = acked.max(sent.acked_at);
            empty.into_iter().flatten().chain([at(sent)])
        });
        panel.line(Ink::Blue, "in flight", line);
        let full = self
            .packets()
            .filter(|sent| sent.marks.has(Marks::WINDOW_FULL));
        panel.dots(Ink::Purple, "receive window full", full.map(at));
        panel.crosses(
            Ink::Red,
            "lost",
            self.packets().filter(|sent| sent.lost()).map(at),
        );
        let Some(course) = chosen.findings().and_then(|findings| findings.course) else {
            return;
        };
        let Some(limit) = chosen.judgement.limit else {
            return;
        };
        let tally = &chosen.transfer.tally;
        let bytes_a_second = tally.convert(limit.rate_bps.value, limit.layer, Layer::Payload) / 8.0;
        let trip = bytes_a_second * course.base;
        if trip <= most {
            let name = "a round trip's worth at the limit";
            panel.across(Ink::Black, name, trip / scale);
        }
        let room = limit.depth_bytes.map(|depth| depth.value);
        let room = room.filter(|_| chosen.judgement.cause == Cause::Queue);
        if let Some(room) = room.filter(|room| trip + room <= most * 1.05) {
            let name = "the same with a full queue";
            panel.across(Ink::Grey, name, (trip + room) / scale);
        }
    }

    /// Round-trip times, and what the fitted limiter's queue adds, or would add.
    fn round_trips(&self, picture: &mut Panels, chosen: &Kept, replay: &Replay) {
        let milliseconds = |nanos: Nanos| nanos as f64 / 1e6;
        let measured = || {
            self.packets()
                .filter_map(|sent| Some((sent.at, sent.rtt()?)))
        };
        let greatest = measured()
            .map(|(_, rtt)| milliseconds(rtt))
            .fold(0.0, f64::max);
        let course = chosen.findings().and_then(|findings| findings.course);
        let (Some(course), true) = (course, greatest > 0.0) else {
            return;
        };
        let base = course.base * 1e3;
        let model = match replay {
            Replay::Done(model) => Some(model),
            _ => None,
        };
        let total = |met: &Met| base + met.delay * 1e3;
        let modelled = || {
            let met = model.map(|model| model.met(self.transfers));
            met.into_iter().flatten().filter(|met| !met.lost)
        };
        let predicted = modelled().map(|met| total(&met)).fold(0.0, f64::max);
        let most = greatest.max(predicted.min(MOST_TIMES * greatest)) * 1.05;
        let panel = picture.panel("round-trip time, ms", LOW, 0.0, most);
        let points = measured().map(|(at, rtt)| (self.seconds(at), milliseconds(rtt)));
        panel.dots(Ink::Sky, "measured", points);
        panel.across(Ink::Grey, "least of the path", base);
        if let Some(model) = model {
            let cut = if predicted > most { " (cut off)" } else { "" };
            let name = match model.limiter.mechanism {
                Mechanism::Policer | Mechanism::Either => {
                    format!("if the limiter were a queue of this size{cut}")
                }
                Mechanism::Queue | Mechanism::BurstShaper => {
                    format!("with the fitted queue's delay{cut}")
                }
            };
            let points = modelled().map(|met| (self.seconds(met.at), total(&met)));
            panel.line(Ink::Purple, &name, points);
        }
    }

    /// The level of the fitted bucket: empty where packets were lost.
    fn tokens(&self, picture: &mut Panels, model: &Model) {
        let depth = model.limiter.bucket.depth;
        let (scale, name) = unit(depth);
        let title = format!("tokens in the fitted bucket, {name}");
        let panel = picture.panel(&title, LOW, 0.0, depth * 1.05 / scale);
        let at = |met: Met| (self.seconds(met.at), met.level / scale);
        panel.line(Ink::Blue, "tokens", model.met(self.transfers).map(at));
        panel.across(Ink::Black, "full", depth / scale);
        let lost = model.met(self.transfers).filter(|met| met.lost);
        panel.crosses(Ink::Red, "lost", lost.map(at));
    }
}

/// The cumulative acknowledgement: a byte is acknowledged when it and all before it are.
fn acknowledgements(sent: &[Sent]) -> impl Iterator<Item = (Nanos, u64)> {
    let mut first_sends: Vec<&Sent> = sent
        .iter()
        .filter(|sent| !sent.is_retransmission())
        .collect();
    first_sends.sort_by_key(|sent| sent.seq);
    let mut latest = 0;
    first_sends
        .into_iter()
        .take_while(|sent| sent.acked_at != 0)
        .map(move |sent| {
            latest = latest.max(sent.acked_at);
            (latest, sent.end())
        })
}

/// The line that progress cannot cross for long: through the first loss with the limit as its slope, to
/// where the transfer ends. The limit in bit/s of payload, and its two ends.
fn limit_line(kept: &Kept) -> Option<(f64, [(Nanos, u64); 2])> {
    let limit = kept.judgement.limit?;
    let tally = &kept.transfer.tally;
    let bps = tally.convert(limit.rate_bps.value, limit.layer, Layer::Payload);
    let first = match kept.judgement.details::<Answer>() {
        Some(answer) => kept.sent.get(answer.deciding().first_loss?)?,
        None => kept.sent.iter().find(|sent| sent.lost())?,
    };
    let ends = kept.sent.iter().map(|sent| sent.at.max(sent.acked_at));
    let last = ends.max().unwrap_or(first.at);
    let bytes = last.saturating_sub(first.at) as f64 / 8e9 * bps;
    let end = kept.sent.iter().map(Sent::end).max().unwrap_or(first.seq);
    // Cut where the transfer's last byte is.
    let share = ((end - first.seq) as f64 / bytes.max(1.0)).min(1.0);
    let to = (
        first.at + (last.saturating_sub(first.at) as f64 * share) as u64,
        first.seq + (bytes * share) as u64,
    );
    (bps > 0.0).then_some((bps, [(first.at, first.seq), to]))
}
