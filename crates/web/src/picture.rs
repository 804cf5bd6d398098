//! One transfer, packet by packet: its panels, and what a person points at.

mod moment;
mod over_time;
mod spread;

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_story::account::Account;
use tidegate_story::model::{Model, Replay};
use tidegate_table::Row;
use tidegate_trace::annotate::{Layer, Marks, Sent, TransferSummary};
use tidegate_trace::read::Nanos;
use tidegate_trace::rows::PacketRow;

use crate::acks::Acks;
use crate::csv;
use crate::panel::Panel;

pub use spread::cumulative;

/// A picture shows at least this time.
const SHORTEST: Nanos = 1_000;

/// The picture of the transfer that is explained.
pub struct Picture {
    file: Arc<str>,
    capture_start: Nanos,
    transfer: TransferSummary,
    start: Nanos,
    /// The stream position of its first byte.
    origin: u64,
    end: Nanos,
    /// Its packets in the order of time.
    sent: Vec<Sent>,
    /// The number of each of these among the data packets of its sender in the flow.
    numbers: Vec<u64>,
    /// The limiter's rate in bit/s of payload.
    limit_bps: Option<f64>,
    /// The length of the windows in which throughput is counted.
    window: Nanos,
    pub panels: Vec<Panel>,
}

impl Picture {
    pub fn new(account: &Account, replay: &Replay, acks: Option<&Acks>) -> Self {
        let kept = account.chosen();
        let mut places: Vec<usize> = (0..kept.sent.len()).collect();
        places.sort_by_key(|&place| kept.sent[place].at);
        let sent: Vec<Sent> = places.iter().map(|&place| kept.sent[place]).collect();
        let start = sent.first().map_or(0, |sent| sent.at);
        let end = sent.iter().map(|sent| sent.at.max(sent.acked_at));
        let limit = kept.judgement.limit;
        let tally = &kept.transfer.tally;
        let mut picture = Self {
            file: account.capture.as_str().into(),
            capture_start: account.capture_start,
            transfer: kept.transfer,
            start,
            origin: kept.origin + 1,
            end: end.max().unwrap_or(start),
            sent,
            numbers: places
                .iter()
                .map(|&place| kept.first_number + place as u64)
                .collect(),
            limit_bps: limit
                .map(|limit| tally.convert(limit.rate_bps.value, limit.layer, Layer::Payload)),
            window: 0,
            panels: Vec::new(),
        };
        picture.window = picture.suitable_window();
        let panels = [
            picture.sequence(acks),
            picture.throughput(),
            picture.in_flight(kept, acks),
        ];
        let limiter = [
            picture.round_trips(kept, replay),
            picture.level(kept, replay),
            picture.waited(kept, replay),
        ];
        picture.panels = panels.into_iter().collect();
        picture.panels.extend(limiter.into_iter().flatten());
        let spread = [picture.gaps(acks), picture.bursts()];
        picture.panels.extend(spread);
        picture
    }

    /// How long it took, from the first packet to the last packet or acknowledgement, in seconds. A picture of no length would be
    /// empty.
    pub fn seconds(&self) -> f64 {
        self.since(self.end).max(SHORTEST as f64 / 1e9)
    }

    /// The length of the windows in which throughput is counted, in seconds.
    pub fn window(&self) -> f64 {
        self.window as f64 / 1e9
    }

    fn since(&self, at: Nanos) -> f64 {
        at.saturating_sub(self.start) as f64 / 1e9
    }

    fn place(&self, seq: u64) -> f64 {
        seq.saturating_sub(self.origin) as f64
    }

    /// The packet that was sent nearest to a time, in words for people.
    pub fn packet(&self, at: f64) -> Value {
        let after = self.sent.partition_point(|sent| self.since(sent.at) < at);
        let near = [after.checked_sub(1), Some(after)];
        let near = near
            .into_iter()
            .flatten()
            .filter_map(|i| Some((i, self.sent.get(i)?)));
        let distance = |sent: &Sent| (self.since(sent.at) - at).abs();
        let nearest = near.min_by(|one, other| distance(one.1).total_cmp(&distance(other.1)));
        nearest.map_or(Value::Null, |(place, sent)| {
            // Of packets at the same time a lost one is of interest.
            let at = self.since(sent.at);
            let mut same = self.within(at, at);
            self.told(same.find(|&i| self.sent[i].lost()).unwrap_or(place))
        })
    }

    /// A packet by its place in the order of time, or the first lost one from there on.
    pub fn packet_at(&self, place: usize, lost: bool) -> Value {
        let last = self.sent.len().saturating_sub(1);
        let found = if lost {
            let mut places = place..self.sent.len();
            places.find(|&place| self.sent[place].lost())
        } else {
            (!self.sent.is_empty()).then(|| place.min(last))
        };
        found.map_or(Value::Null, |place| self.told(place))
    }

    fn told(&self, place: usize) -> Value {
        let (sent, number) = (&self.sent[place], self.numbers[place]);
        let mut facts = Vec::new();
        let mut say = |holds: bool, what: &str| {
            if holds {
                facts.push(what.to_owned());
            }
        };
        let again = match sent.repeats {
            0 => "retransmission".to_owned(),
            back => format!(
                "retransmission of packet {}",
                number.saturating_sub(back.into())
            ),
        };
        let repaired = format!(
            "lost, retransmitted by packet {}",
            number + u64::from(sent.repeated)
        );
        say(sent.lost(), &repaired);
        say(sent.is_retransmission(), &again);
        say(
            sent.marks.has(Marks::DELIVERED),
            "retransmitted although it arrived",
        );
        say(sent.marks.has(Marks::SACKED), "selectively acknowledged");
        say(sent.marks.has(Marks::WINDOW_FULL), "receive window full");
        say(
            sent.marks.has(Marks::NOT_CAPTURED),
            "lost before the capture",
        );
        json!({
            "place": place,
            "number": number,
            "at_s": self.since(sent.at),
            "seq": self.place(sent.seq),
            "bytes": sent.len,
            "in_flight": sent.in_flight,
            "rtt_s": sent.rtt().map(|rtt| rtt as f64 / 1e9),
            "facts": facts,
        })
    }

    /// The places of the packets that were sent in a part of the time.
    fn within(&self, from: f64, to: f64) -> std::ops::Range<usize> {
        let begin = self.sent.partition_point(|sent| self.since(sent.at) < from);
        let end = self.sent.partition_point(|sent| self.since(sent.at) <= to);
        begin.min(end)..end
    }

    /// The packets of a part of the time as CSV, as `tidegate detect --by packet` writes them.
    pub fn csv(&self, from: f64, to: f64) -> String {
        let mut places: Vec<usize> = self.within(from, to).collect();
        // Times go backwards in some captures.
        places.sort_by_key(|&place| self.numbers[place]);
        let rows = places.into_iter().map(|place| {
            let sent = self.sent[place];
            PacketRow {
                file: Arc::clone(&self.file),
                capture_start: self.capture_start,
                flow: self.transfer.id.flow,
                segment: self.transfer.id.segment,
                sender: self.transfer.sender,
                receiver: self.transfer.receiver,
                number: self.numbers[place],
                relative: sent.seq.wrapping_sub(self.origin - 1) as i64,
                sent,
            }
        });
        csv::of(PacketRow::columns(), rows)
    }

    /// What happened in a part of the time.
    pub fn measure(&self, from: f64, to: f64) -> Value {
        let part = &self.sent[self.within(from, to)];
        let bytes: u64 = part.iter().map(|sent| u64::from(sent.len)).sum();
        let mut rtts: Vec<Nanos> = part.iter().filter_map(Sent::rtt).collect();
        rtts.sort_unstable();
        let seconds = to - from;
        json!({
            "packets": part.len(),
            "lost": part.iter().filter(|sent| sent.lost()).count(),
            "retransmissions": part.iter().filter(|sent| sent.is_retransmission()).count(),
            "bytes": bytes,
            "bps": (seconds > 0.0).then(|| bytes as f64 * 8.0 / seconds),
            "rtt_median_s": rtts.get(rtts.len() / 2).map(|rtt| *rtt as f64 / 1e9),
        })
    }
}

/// What is drawn and said of a transfer.
pub fn explain(account: &Account, acks: Option<&Acks>) -> (Picture, Value) {
    let replay = Model::of(account);
    let picture = Picture::new(account, &replay, acks);
    let mut story = tidegate_story::explanation::explanation(account, &replay);
    if let Some(story) = story.as_object_mut() {
        // The page draws every packet instead.
        story.remove("series");
        let panels = picture.panels.iter().map(Panel::to_json);
        story.insert("panels".to_owned(), panels.collect());
        let (evidence, ruled_out) = picture.moments(account.chosen());
        let moments = json!({ "evidence": evidence, "ruled_out": ruled_out });
        story.insert("moments".to_owned(), moments);
        story.insert("seconds".to_owned(), picture.seconds().into());
        story.insert("window_s".to_owned(), picture.window().into());
    }
    (picture, story)
}
