//! The packets that went one way between the places: what a person points at, measures and saves.

use serde_json::{Value, json};
use tidegate_trace::pair::{Fate, Passage, Way};
use tidegate_trace::read::Nanos;

use crate::csv;

/// The columns of saved packets.
const COLUMNS: &str =
    "time_s,sender,receiver,payload_bytes,link_bytes,in_flight_bytes,in_burst_bytes,fate,transit_s";

/// What went one way.
pub struct Crossing {
    way: Way,
    /// When the pictures begin, by the clock of the first place: a time of this clock, and nanoseconds after it.
    begins: (Nanos, f64),
}

impl Crossing {
    pub fn new(way: Way, begins: (Nanos, f64)) -> Self {
        Self { way, begins }
    }

    /// When the first place saw a packet, in seconds of the pictures.
    fn second(&self, passage: &Passage) -> f64 {
        let since = (i128::from(passage.at) - i128::from(self.begins.0)) as f64;
        (since - self.begins.1).max(0.0) / 1e9
    }

    /// The packet that the first place saw nearest to a time.
    pub fn packet(&self, at: f64) -> Value {
        let all = &self.way.passages;
        let after = all.partition_point(|passage| self.second(passage) < at);
        let near = [after.checked_sub(1), Some(after)];
        let near = near.into_iter().flatten().filter_map(|i| all.get(i));
        let distance = |passage: &Passage| (self.second(passage) - at).abs();
        let nearest = near.min_by(|one, other| distance(one).total_cmp(&distance(other)));
        nearest.map_or(Value::Null, |nearest| {
            // Of packets at the same time a lost one is of interest.
            let at = self.second(nearest);
            let passage = self.within(at, at).iter().find(|passage| passage.lost());
            let passage = passage.unwrap_or(nearest);
            let [sender, receiver] = self.ends(passage);
            json!({
                "at_s": self.second(passage),
                "to_b": self.way.to_b,
                "sender": sender,
                "receiver": receiver,
                "bytes": passage.payload,
                "in_flight": passage.in_flight,
                "in_burst": passage.in_burst,
                "fate": fate(passage),
                "transit_s": passage.transit().map(|transit| transit / 1e9),
            })
        })
    }

    /// Sender and receiver, as the first place names them.
    fn ends(&self, passage: &Passage) -> [String; 2] {
        let stream = self.way.streams.get(passage.stream as usize);
        let ends = stream.map(|stream| {
            if self.way.to_b {
                stream.at_a
            } else {
                stream.at_b
            }
        });
        ends.map_or([const { String::new() }; 2], |ends| {
            ends.map(|end| end.to_string())
        })
    }

    /// The packets that the first place saw in a part of the time.
    fn within(&self, from: f64, to: f64) -> &[Passage] {
        let all = &self.way.passages;
        let begin = all.partition_point(|passage| self.second(passage) < from);
        let end = all.partition_point(|passage| self.second(passage) <= to);
        &all[begin.min(end)..end]
    }

    /// What happened in a part of the time.
    pub fn measure(&self, from: f64, to: f64) -> Value {
        let part = self.within(from, to);
        let bytes: u64 = part.iter().map(|passage| u64::from(passage.payload)).sum();
        let mut transits: Vec<f64> = part.iter().filter_map(Passage::transit).collect();
        transits.sort_unstable_by(f64::total_cmp);
        let seconds = to - from;
        json!({
            "packets": part.len(),
            "lost": part.iter().filter(|passage| passage.lost()).count(),
            "bytes": bytes,
            "bps": (seconds > 0.0).then(|| bytes as f64 * 8.0 / seconds),
            "transit_median_s": transits.get(transits.len() / 2).map(|transit| transit / 1e9),
        })
    }

    /// The packets of a part of the time as CSV.
    pub fn csv(&self, from: f64, to: f64) -> String {
        let mut text = format!("{COLUMNS}\n");
        for passage in self.within(from, to) {
            let [sender, receiver] = self.ends(passage);
            let transit = passage.transit();
            let fields = [
                format!("{:.9}", self.second(passage)),
                csv::field(&sender).into_owned(),
                csv::field(&receiver).into_owned(),
                passage.payload.to_string(),
                passage.link_bytes.to_string(),
                passage.in_flight.to_string(),
                passage.in_burst.to_string(),
                fate(passage).to_owned(),
                transit.map_or(String::new(), |transit| format!("{:.9}", transit / 1e9)),
            ];
            text.push_str(&fields.join(","));
            text.push('\n');
        }
        text
    }
}

/// What became of a packet between the places, in a word.
fn fate(passage: &Passage) -> &'static str {
    match passage.fate {
        Fate::Passed(_) => "passed",
        Fate::Lost => "lost",
        Fate::Missed => "missed",
        Fate::Uncovered => "uncovered",
    }
}
