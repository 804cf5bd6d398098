//! The picture of one way: transit times and the modelled queue, data in flight, positions in bursts.

use tidegate_plot::{Ink, Panels};
use tidegate_trace::pair::{Passage, Way};

use super::{Account, story};

const HEIGHT: f64 = 190.0;

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
    let headline = story::headline(&account.diagnosis);
    let mut panels = Panels::new(&title, "time since the first packet, s", from, to);
    panels.text(&headline);
    panels.describe(&format!(
        "Three panels over time: transit times with the modelled queue, bytes in flight with losses, and \
         the position of lost packets in their bursts. {headline}"
    ));
    transit(&mut panels, way, &second, &inside);
    for (name, what, value) in [
        (
            "in flight, kB: sent by the stream and not acknowledged",
            "in flight",
            (|passage| f64::from(passage.in_flight) / 1e3) as fn(&Passage) -> f64,
        ),
        (
            "position in the burst, kB: what passed before without a pause",
            "passed",
            |passage| f64::from(passage.in_burst) / 1e3,
        ),
    ] {
        let data = || {
            let passages = way.passages.iter().filter(inside);
            passages.filter(|passage| passage.payload > 0)
        };
        let most = data().map(value).fold(0.0, f64::max);
        let panel = panels.panel(name, HEIGHT, 0.0, most * 1.05);
        let point = |passage: &Passage| (second(passage), value(passage));
        panel.dots(Ink::Sky, what, data().filter(|p| !p.lost()).map(point));
        panel.crosses(Ink::Red, "lost", data().filter(|p| p.lost()).map(point));
    }
    panels.svg()
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
