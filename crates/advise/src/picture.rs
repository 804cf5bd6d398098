//! The picture: rates over time before and after.

use tidegate_plot::{Ink, Panels};

use crate::advice::{Advice, Choice};
use crate::remedy::Change;
use crate::trial::WINDOW;

/// Most downloads with a line of their own.
const MOST: usize = 5;
const INKS: [Ink; MOST] = [Ink::Blue, Ink::Orange, Ink::Green, Ink::Purple, Ink::Sky];
const HEIGHT: f64 = 220.0;

/// Rates of the downloads over time as SVG, today and with the chosen option. If nothing is to be changed, the other
/// panel shows phantom queues.
pub fn svg(advice: &Advice) -> String {
    let after = advice.chosen().or_else(|| advice.option(Change::BcPqp));
    let shown: Vec<&Choice> = std::iter::once(advice.today()).chain(after).collect();
    let rate = advice.situation.today.rate;
    let megabits = |bits: f64| bits / 1e6;
    let seconds = advice.effort.duration as f64 / 1e9;
    let most = shown
        .iter()
        .flat_map(|choice| choice.effect.over_time.all.iter().copied());
    let most = most.fold(rate.bits_per_second() as f64, f64::max);
    let title = format!("What a limit of {rate} does to downloads");
    let mut picture = Panels::new(&title, "time, s", 0.0, seconds);
    picture.text(&format!(
        "Rates at the IP layer in windows of {} ms, of the simulation with the first seed. The dashed line is the limit.",
        WINDOW / 1_000_000
    ));
    let beside = match (advice.chosen().is_some(), shown.len()) {
        (_, 1) => "",
        (true, _) => " and behind the advised one",
        (false, _) => " and behind phantom queues; the advice is to leave it as it is",
    };
    picture.describe(&format!(
        "Rates of downloads over time, behind today's limit{beside}."
    ));
    let senders = advice.situation.senders();
    let at = |window: usize| (window as f64 + 0.5) * WINDOW as f64 / 1e9;
    for choice in shown {
        let title = format!("{}, Mbit/s", choice.remedy.words());
        let panel = picture.panel(&title, HEIGHT, 0.0, megabits(most));
        let over_time = &choice.effect.over_time;
        let points = |rates: &[f64]| -> Vec<(f64, f64)> {
            let rates = rates.iter().enumerate();
            rates
                .map(|(window, &bits)| (at(window), megabits(bits)))
                .collect()
        };
        for ((rates, sender), ink) in over_time.each.iter().zip(&senders).zip(INKS) {
            let middle = (sender.rtt.0 + sender.rtt.1) / 2_000_000;
            panel.line(
                ink,
                &format!("{}, about {middle} ms", sender.control),
                points(rates),
            );
        }
        panel.line(Ink::Black, "all downloads", points(&over_time.all));
        let limit = megabits(rate.bits_per_second() as f64);
        panel.dashed(Ink::Red, "the limit", [(0.0, limit), (seconds, limit)]);
    }
    picture.svg()
}
