//! Two captures of the same traffic: what happened between their places, in words and in panels.

mod crossing;

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_story::between::{found, told};
use tidegate_trace::pair::{Diagnosis, MOST_PACKETS, Passage, Position, Way, positions};

use crate::curve::Point;
use crate::panel::{Axis, Mark, Panel};

pub use crossing::Crossing;

/// Packets of each capture that are compared. A browser's memory holds fewer of them.
pub const MOST: usize = if cfg!(target_arch = "wasm32") {
    MOST_PACKETS / 4
} else {
    MOST_PACKETS
};
/// Positions in bursts are counted in up to this many parts.
const PARTS: u32 = 40;

/// A comparison that is shown.
pub struct Between {
    pub panels: Vec<Panel>,
    /// The packets that most of the panels draw; none where the captures share none.
    pub crossing: Option<Crossing>,
}

/// Compares two captures, in the order in which they are named.
pub fn compare(names: &[Arc<str>; 2], diagnosis: Diagnosis) -> (Between, Value) {
    let told = told(names, &diagnosis);
    let (panels, start) = draw(&diagnosis);
    let ways = told.ways.iter().map(|way| {
        let lines = way
            .lines
            .iter()
            .map(|(name, text)| json!({ "name": name, "text": text }));
        json!({ "heading": way.heading, "lines": lines.collect::<Vec<_>>() })
    });
    let seconds = panels.iter().filter(|panel| panel.axis.is_none());
    let seconds = seconds.map(Panel::end).fold(0.0, f64::max);
    let story = json!({
        "headline": told.headline,
        "between": found(&diagnosis).name(),
        "captures": told.captures,
        "clocks": told.clocks,
        "ways": ways.collect::<Vec<_>>(),
        "panels": panels.iter().map(Panel::to_json).collect::<Vec<_>>(),
        "seconds": seconds,
    });
    let to_b = diagnosis.main_way().to_b;
    let [there, back] = diagnosis.ways;
    let way = if to_b { there } else { back };
    let crossing = diagnosis.clocks.map(|clocks| {
        let behind = if to_b { 0.0 } else { clocks.offset };
        Crossing::new(way, (clocks.at, start + behind))
    });
    (Between { panels, crossing }, story)
}

/// The panels of the way that lost most, and the transit times of the other one. And when they begin, by A's clock: nanoseconds since the
/// clocks were compared.
fn draw(diagnosis: &Diagnosis) -> (Vec<Panel>, f64) {
    let (Some(clocks), way) = (diagnosis.clocks, diagnosis.main_way()) else {
        return (Vec::new(), 0.0);
    };
    // By A's clock, in nanoseconds since the clocks were compared: as a number of 64 bits that is exact.
    let at = |way: &Way, passage: &Passage| {
        let since = (i128::from(passage.at) - i128::from(clocks.at)) as f64;
        since - if way.to_b { 0.0 } else { clocks.offset }
    };
    let ways = diagnosis.ways.iter();
    let firsts = ways.filter_map(|way| Some(at(way, way.passages.first()?)));
    let start = firsts.fold(f64::INFINITY, f64::min);
    let second = |way: &Way, passage: &Passage| (at(way, passage) - start).max(0.0) / 1e9;
    let other = &diagnosis.ways[usize::from(way.to_b)];
    let main = |passage: &Passage| second(way, passage);
    let mut panels = vec![transit(way, &main), in_flight(way, &main)];
    let times = other
        .passages
        .iter()
        .filter_map(|passage| Some((second(other, passage), passage.transit()? / 1e9)));
    let mut back = Panel::new("back", title(other), "s");
    back.follows = true;
    back.curve(("measured", Mark::Dots, "blue"), "measured", times);
    panels.push(back);
    panels.push(in_bursts(way));
    panels.retain(|panel| !panel.curves.is_empty());
    (panels, start)
}

fn title(way: &Way) -> &'static str {
    if way.to_b {
        "Transit time from A to B"
    } else {
        "Transit time from B to A"
    }
}

/// Transit times, beside what queues would make of them.
fn transit(way: &Way, second: &impl Fn(&Passage) -> f64) -> Panel {
    let mut panel = Panel::new("transit", title(way), "s");
    panel.follows = true;
    let Some(all) = way.transit else {
        return panel;
    };
    // Receivers with limiters of their own are in no common model.
    let (fits, ..) = way.mainly();
    let models = way.groups.is_empty();
    let mut most = all.most;
    if let Some(fit) = fits.explaining_bucket().filter(|_| models) {
        let modelled = way.as_queue(&fit.bucket);
        let points = modelled.map(|(passage, wait)| (second(passage), (all.least + wait) / 1e9));
        panel.curve(
            ("queue", Mark::Dots, "purple"),
            "if the limiter were a queue",
            points,
        );
        most = most.max(all.least + fits.modelled_delay().unwrap_or(0.0));
    }
    if let Some(queue) = fits.explaining_queue().filter(|_| models) {
        let modelled = way.in_queue(queue);
        let points = modelled.map(|(passage, wait)| (second(passage), (all.least + wait) / 1e9));
        panel.curve(
            ("modelled", Mark::Dots, "green"),
            "in the queue that fits",
            points,
        );
    }
    let passed = way.passages.iter();
    let points = passed.filter_map(|passage| Some((second(passage), passage.transit()? / 1e9)));
    panel.curve(("measured", Mark::Dots, "blue"), "measured", points);
    let lost = way.passages.iter().filter(|passage| passage.lost());
    let points = lost.map(|passage| (second(passage), most / 1e9));
    panel.curve(("lost", Mark::Crosses, "red"), "lost", points);
    panel
}

fn in_flight(way: &Way, second: &impl Fn(&Passage) -> f64) -> Panel {
    let mut panel = Panel::new("between-flight", "Bytes in flight", "B");
    let data = way.passages.iter().filter(|passage| passage.payload > 0);
    let (lost, passed): (Vec<&Passage>, Vec<&Passage>) = data.partition(|passage| passage.lost());
    let point = |passage: &Passage| (second(passage), f64::from(passage.in_flight));
    let points = |which: Vec<&Passage>| -> Vec<Point> { which.into_iter().map(point).collect() };
    panel.curve(("flight", Mark::Dots, "sky"), "in flight", points(passed));
    panel.curve(("lost", Mark::Crosses, "red"), "lost", points(lost));
    panel
}

/// The share of packets that were lost by their position in the burst: a bucket drops what comes late.
fn in_bursts(way: &Way) -> Panel {
    let axis = Axis {
        title: "what passed before in the burst, on the link",
        unit: "B",
        log: false,
    };
    let mut panel = Panel::over(axis, "position", "Lost by the position in the burst", "%");
    let parts = positions(way.passages.iter(), PARTS);
    let parts = || parts.iter().filter(|part| part.to.is_some());
    let most = parts().map(|part| part.packets).max().unwrap_or(0).max(1) as f64;
    let points = |value: fn(&Position) -> f64| -> Vec<Point> {
        let known = parts().filter(|part| part.packets > 0);
        let all = known.flat_map(|part| {
            let ends = [part.from, part.to.unwrap_or(part.from)];
            ends.map(|end| (f64::from(end), value(part)))
        });
        all.collect()
    };
    panel.curve(
        ("lost", Mark::Line, "red"),
        "lost",
        points(|part| part.loss_rate() * 100.0),
    );
    let there = points(|part| part.packets as f64).into_iter();
    panel.curve(
        ("packets", Mark::Line, "grey"),
        format!("packets there, % of {most}"),
        there.map(|(at, packets)| (at, packets / most * 100.0)),
    );
    let bucket = way.fits.explaining_bucket();
    if let Some(fit) = bucket.filter(|_| way.groups.is_empty()) {
        let depth = fit.bucket.depth;
        panel.aside(
            ("depth", Mark::Dashed, "purple"),
            "the bucket's depth",
            [(depth, 0.0), (depth, 100.0)],
        );
    }
    panel
}
