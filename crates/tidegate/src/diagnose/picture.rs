//! The picture of one way: transit times and the modelled queue, data in flight, losses against the position
//! in the burst.

use tidegate_plot::{Ink, Panels};
use tidegate_story::between;
use tidegate_story::words::time;
use tidegate_trace::pair::{Passage, Position, Way, positions};

use super::Account;
use crate::units::count;

const HEIGHT: f64 = 190.0;
/// Positions in bursts are counted in up to this many parts up to the last loss.
pub(super) const PARTS: u32 = 40;

pub(super) fn draw(account: &Account, [from, to]: [Option<f64>; 2]) -> String {
    let way = account.diagnosis.main_way();
    let start = way.passages.first().map_or(0, |passage| passage.at);
    let second = |passage: &Passage| passage.at.saturating_sub(start) as f64 / 1e9;
    let end = way.passages.last().map_or(1.0, second);
    let (from, to) = (from.unwrap_or(0.0), to.unwrap_or(end).max(1e-6));
    let inside = |passage: &&Passage| (from..=to).contains(&second(passage));
    let title = format!(
        "From {} to {}",
        account.names[usize::from(!way.to_b)],
        account.names[usize::from(way.to_b)]
    );
    let headline = between::headline(&account.diagnosis);
    let mut panels = Panels::new(&title, "time since the first packet, s", from, to);
    panels.text(&headline);
    panels.describe(&format!(
        "Two panels over time: transit times with the modelled queue, and bytes in flight with losses. \
         Below, the share of packets that were lost by their position in the burst. {headline}"
    ));
    transit(&mut panels, way, &second, &inside);
    in_flight(&mut panels, way, &second, &inside);
    in_bursts(&mut panels, way, &inside);
    panels.svg()
}

fn in_flight(
    panels: &mut Panels,
    way: &Way,
    second: &impl Fn(&Passage) -> f64,
    inside: &impl Fn(&&Passage) -> bool,
) {
    let data = || {
        let passages = way.passages.iter().filter(inside);
        passages.filter(|passage| passage.payload > 0)
    };
    let flying = |passage: &Passage| f64::from(passage.in_flight) / 1e3;
    let most = data().map(flying).fold(0.0, f64::max);
    let title = "in flight, kB: sent by the stream and not acknowledged";
    let panel = panels.panel(title, HEIGHT, 0.0, most * 1.05);
    let point = |passage: &Passage| (second(passage), flying(passage));
    panel.dots(
        Ink::Sky,
        "in flight",
        data().filter(|p| !p.lost()).map(point),
    );
    panel.crosses(Ink::Red, "lost", data().filter(|p| p.lost()).map(point));
}

/// Losses against the position in the burst.
fn in_bursts(panels: &mut Panels, way: &Way, inside: &impl Fn(&&Passage) -> bool) {
    let positions = positions(way.passages.iter().filter(inside), PARTS);
    let (Some(last), most) = (
        positions.iter().rev().find_map(|position| position.to),
        positions
            .iter()
            .map(|p| p.packets)
            .max()
            .unwrap_or(0)
            .max(1) as f64,
    ) else {
        let panel = panels.panel("lost by the position in the burst", HEIGHT, 0.0, 1.0);
        panel.note("No packet with data was lost between the places.");
        return;
    };
    let kilobytes = |bytes: u32| f64::from(bytes) / 1e3;
    let title = format!(
        "lost by the position in the burst, %; a pause of {} ends a burst",
        time(way.burst_gap)
    );
    let panel = panels.panel(&title, HEIGHT, 0.0, 100.0);
    let axis = "what passed before in the burst, kB on the link";
    let panel = panel.over(axis, 0.0, kilobytes(last));
    let of_parts = |value: fn(&Position) -> f64| {
        let parts = positions.iter().filter(|position| position.packets > 0);
        parts.filter_map(move |part| Some((kilobytes(part.from), kilobytes(part.to?), value(part))))
    };
    let most_name = format!("packets (% of {})", count(most as u64));
    panel.bars(Ink::Red, "lost", of_parts(|part| part.loss_rate() * 100.0));
    let counts = of_parts(|part| part.packets as f64);
    let middles =
        counts.map(|(from, to, packets)| (f64::midpoint(from, to), packets / most * 100.0));
    panel.line(Ink::Grey, &most_name, middles);
    // A full bucket lets at least this much of a burst pass.
    let bucket = way
        .fits
        .explaining_bucket()
        .filter(|_| way.groups.is_empty());
    if let Some(fit) = bucket {
        let depth = fit.bucket.depth / 1e3;
        panel.dashed(
            Ink::Purple,
            "the bucket's depth",
            [(depth, 0.0), (depth, 100.0)],
        );
    }
}

/// Transit times, beside what queues would make of them.
fn transit(
    panels: &mut Panels,
    way: &Way,
    second: &impl Fn(&Passage) -> f64,
    inside: &impl Fn(&&Passage) -> bool,
) {
    let Some(all) = way.transit else {
        return;
    };
    // Receivers with limiters of their own are in no common model.
    let (fits, ..) = way.mainly();
    let models = way.groups.is_empty();
    let bucket = fits.explaining_bucket().filter(|_| models);
    let full = bucket.and(fits.modelled_delay()).unwrap_or(0.0);
    let most = (all.least + full).max(all.p99 + (all.p99 - all.least) * 0.2);
    let (low, high) = (all.least / 1e6, most / 1e6);
    let margin = ((high - low) * 0.05).max(0.001);
    let title = "transit time, ms";
    let panel = panels.panel(title, HEIGHT * 1.3, low - margin, high + margin);
    if let Some(fit) = bucket {
        let modelled = way
            .as_queue(&fit.bucket)
            .filter(|(passage, _)| inside(passage));
        let points = modelled.map(|(passage, wait)| (second(passage), (all.least + wait) / 1e6));
        panel.dots(Ink::Purple, "if the limiter were a queue", points);
    }
    if let Some(queue) = fits.explaining_queue().filter(|_| models) {
        let modelled = way.in_queue(queue).filter(|(passage, _)| inside(passage));
        let points = modelled.map(|(passage, wait)| (second(passage), (all.least + wait) / 1e6));
        panel.dots(Ink::Green, "in the queue that fits", points);
    }
    let passed = way.passages.iter().filter(inside);
    let points = passed.filter_map(|p| Some((second(p), p.transit()? / 1e6)));
    panel.dots(Ink::Blue, "measured", points);
    let lost = way.passages.iter().filter(inside).filter(|p| p.lost());
    panel.crosses(Ink::Red, "lost", lost.map(|p| (second(p), high)));
}
