//! What the picture shows, as numbers: a transfer in slices of time.

use serde_json::{Value, json};
use tidegate_trace::annotate::Marks;
use tidegate_trace::read::Nanos;

use crate::account::Kept;
use crate::model::Replay;

/// Slices that a transfer's time is divided into, at most.
const SLICES: u64 = 1_000;
/// The shortest slice: a millisecond.
const SHORTEST: Nanos = 1_000_000;

/// What happened in a slice.
#[derive(Debug, Clone, Copy, Default)]
struct Slice {
    sent_bytes: u64,
    lost: u64,
    window_full: u64,
    most_in_flight: Option<u32>,
    greatest_rtt: Option<Nanos>,
    least_level: Option<f64>,
    greatest_delay: Option<f64>,
}

/// The slices of a transfer, as columns.
pub fn series(kept: &Kept, replay: &Replay) -> Value {
    let start = kept.sent.iter().map(|sent| sent.at).min().unwrap_or(0);
    let end = kept.sent.iter().map(|sent| sent.at).max().unwrap_or(start);
    let width = (end.saturating_sub(start) / SLICES + 1).max(SHORTEST);
    let place = |at: Nanos| (at.saturating_sub(start) / width) as usize;
    let count = if kept.sent.is_empty() {
        0
    } else {
        place(end) + 1
    };
    let mut slices = vec![Slice::default(); count];
    for sent in &kept.sent {
        let Some(slice) = slices.get_mut(place(sent.at)) else {
            continue;
        };
        slice.sent_bytes += u64::from(sent.len);
        slice.lost += u64::from(sent.lost());
        slice.window_full += u64::from(sent.marks.has(Marks::WINDOW_FULL));
        slice.most_in_flight = slice.most_in_flight.max(Some(sent.in_flight));
        slice.greatest_rtt = slice.greatest_rtt.max(sent.rtt());
    }
    if let Replay::Done(model) = replay {
        for met in model.met(std::slice::from_ref(kept)) {
            let Some(slice) = slices.get_mut(place(met.at)) else {
                continue;
            };
            let least = slice
                .least_level
                .map_or(met.level, |least| least.min(met.level));
            slice.least_level = Some(least);
            if !met.lost {
                let most = slice
                    .greatest_delay
                    .map_or(met.delay, |most| most.max(met.delay));
                slice.greatest_delay = Some(most);
            }
        }
    }
    let column = |value: &dyn Fn(&Slice) -> Value| -> Value {
        slices.iter().map(value).collect::<Vec<Value>>().into()
    };
    let times: Vec<f64> = (0..count)
        .map(|i| (i as u64 * width) as f64 / 1e9)
        .collect();
    json!({
        "slice_s": width as f64 / 1e9,
        "time_s": times,
        "sent_bytes": column(&|slice| slice.sent_bytes.into()),
        "lost_packets": column(&|slice| slice.lost.into()),
        "window_full_packets": column(&|slice| slice.window_full.into()),
        "in_flight_bytes": column(&|slice| slice.most_in_flight.into()),
        "rtt_ms": column(&|slice| slice.greatest_rtt.map(|rtt| rounded(rtt as f64 / 1e6)).into()),
        "model_level_bytes": column(&|slice| slice.least_level.map(|level| level.round() as u64).into()),
        "model_delay_ms": column(&|slice| slice.greatest_delay.map(|delay| rounded(delay * 1e3)).into()),
    })
}

/// To microseconds.
fn rounded(milliseconds: f64) -> f64 {
    (milliseconds * 1e3).round() / 1e3
}
