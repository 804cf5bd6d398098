//! The verdict on two captures in one sentence, and how much of them it rests on.

use tidegate_trace::flow::Span;
use tidegate_trace::pair::{Between, Counts, Diagnosis, Elsewhere, Fits, StreamReport, Way};

use crate::units::{bytes, count, percent, plural, rate};

/// The places of a way.
pub(super) fn places(way: &Way) -> [&'static str; 2] {
    if way.to_b { ["A", "B"] } else { ["B", "A"] }
}

/// Whether any packet with data, or any packet where there are none with data, was seen at both places, or none came to the
/// second one.
pub(super) fn is_shared(diagnosis: &Diagnosis) -> bool {
    let sum = |count: fn(&StreamReport) -> u64| -> u64 {
        diagnosis.ways.iter().map(|way| way.sum(count)).sum()
    };
    let (data, missed) = (sum(|s| s.data_packets), sum(|s| s.missed));
    data > missed + sum(|s| s.lost) || missed == 0
}

/// What is between the places that the captures show; unclear where they share no data packets.
pub fn found(diagnosis: &Diagnosis) -> Between {
    match is_shared(diagnosis) {
        true => diagnosis.main_way().mainly().1,
        false => Between::Unclear,
    }
}

/// The verdict in one sentence, and how much of the captures it rests on where that is not all.
pub fn headline(diagnosis: &Diagnosis) -> String {
    let verdict = verdict(diagnosis);
    let cut = diagnosis.counts.iter().filter(|counts| counts.not_kept > 0);
    match cut.map(compared).min_by(f64::total_cmp) {
        Some(seconds) => {
            format!(
                "{verdict} This holds for the first {seconds:.3} s; later packets were left out."
            )
        }
        None => verdict,
    }
}

/// Seconds of a capture whose packets are kept.
pub fn compared(counts: &Counts) -> f64 {
    let Span { first, last } = counts.span.unwrap_or_default();
    last.saturating_sub(first) as f64 / 1e9
}

fn verdict(diagnosis: &Diagnosis) -> String {
    let Some(clocks) = diagnosis.clocks.filter(|_| is_shared(diagnosis)) else {
        let (shared, rest) = match diagnosis.clocks.is_some() || diagnosis.unlike > 0 {
            true => (
                "data packets, although they seem to be of the same connections",
                " Nothing is judged.",
            ),
            false => ("packets", ""),
        };
        return format!(
            "The captures share no {shared}: they are of other traffic, or of other times, or what is between the places \
             rewrites sequence numbers, as some firewalls and all proxies do.{rest}"
        );
    };
    let way = diagnosis.main_way();
    let [from, to] = places(way);
    let lost = way.sum(|stream| stream.lost);
    let share = percent(lost as f64 / way.sum(|stream| stream.data_packets).max(1) as f64);
    let drops = format!("{} ({share})", plural(lost, "data packet", "data packets"));
    let were = was_or_were(lost);
    if clocks.uneven {
        return format!(
            "A clock was set during the captures, or went unevenly: no transit times are known, and what they would tell of is \
             not judged. From {from} to {to} {drops} {were} lost."
        );
    }
    if let Some(text) = without_loss(way) {
        return text;
    }
    let (fits, verdict, receiver) = way.mainly();
    if let Some(receiver) = receiver {
        let name = if verdict == Between::Policer {
            "policer"
        } else {
            "limiter"
        };
        return format!(
            "From {from} to {to} {drops} {were} lost; each receiver has a limiter: a {name}{} towards {receiver}.",
            limit(fits)
        );
    }
    match verdict {
        Between::Nothing => {
            format!(
                "Nothing between A and B drops or delays packets: look elsewhere.{}",
                elsewhere(way)
            )
        }
        Between::Delay => format!(
            "Packets from {from} to {to} wait in a queue{}, which did not overflow.",
            queue_rate(way)
        ),
        Between::Policer => {
            let limit = limit(fits);
            format!("A policer from {from} to {to}{limit} drops {drops}; no queue explains that.")
        }
        Between::Queue => format!(
            "A queue from {from} to {to}{} overflows and drops {drops}.",
            queue_rate(way)
        ),
        Between::Aqm => format!(
            "A queue from {from} to {to}{} drops {drops} before it is full.",
            queue_rate(way)
        ),
        Between::ShaperBurst => {
            let limit = limit(fits);
            let burst = fits.explaining_bucket().and_then(|fit| fit.burst);
            let burst = burst.map_or(String::new(), |burst| {
                format!(" of {}", bytes(burst.allowance.round() as u64))
            });
            format!(
                "A shaper from {from} to {to}{limit} lets a burst{burst} pass, then queues packets, and drops {drops} when its \
                 queue is full."
            )
        }
        Between::RandomLoss => format!(
            "Packets from {from} to {to} are lost by chance: {drops}, at any rate and delay."
        ),
        Between::Unclear => format!(
            "From {from} to {to} {drops} {were} lost; neither a policer nor a queue explains them well."
        ),
    }
}

/// What is said of a way whose packets with data all arrived, as far as both captures show, while the verdict is on losses: those
/// of bare acknowledgements, which prove nothing.
pub(super) fn without_loss(way: &Way) -> Option<String> {
    let is_on_losses = !matches!(way.mainly().1, Between::Nothing | Between::Delay);
    if way.sum(|stream| stream.lost) > 0 || !is_on_losses {
        return None;
    }
    let [from, to] = places(way);
    let bare = match way.sum(|stream| stream.lost_bare) {
        0 => String::new(),
        bare => format!(", only {} without data", plural(bare, "packet", "packets")),
    };
    let missed = match way.sum(|stream| stream.missed) {
        0 => String::new(),
        missed => {
            let data = way.sum(|stream| stream.data_packets);
            format!(
                " {} of {} {} in one capture only: are both of the same traffic?",
                count(missed),
                plural(data, "data packet", "data packets"),
                if missed == 1 { "is" } else { "are" }
            )
        }
    };
    Some(format!(
        "From {from} to {to} no data packet was lost{bare}: nothing is judged.{missed}"
    ))
}

fn was_or_were(number: u64) -> &'static str {
    if number == 1 { "was" } else { "were" }
}

/// The rate and the bucket.
fn limit(fits: &Fits) -> String {
    fits.explaining_bucket().map_or(String::new(), |fit| {
        format!(
            " at {} with a bucket of {}",
            rate(fit.bucket.rate * 8.0),
            bytes(fit.bucket.depth.round() as u64)
        )
    })
}

fn queue_rate(way: &Way) -> String {
    let queue = way.fits.explaining_queue();
    queue.map_or(String::new(), |queue| {
        format!(" of {}", rate(queue.rate * 8.0))
    })
}

/// What retransmissions show of losses that are not between the places.
fn elsewhere(way: &Way) -> String {
    let [from, to] = places(way);
    let sum = |count: fn(&Elsewhere) -> u64| way.sum(|stream| count(&stream.elsewhere));
    let (before, behind) = (sum(|e| e.lost_before), sum(Elsewhere::lost_after));
    match (before, behind) {
        (0, 0) => String::new(),
        (before, 0) => {
            let were = was_or_were(before);
            format!(" {} {were} lost before {from}.", count(before))
        }
        (0, behind) => {
            let were = was_or_were(behind);
            format!(" {} {were} lost behind {to}.", count(behind))
        }
        (before, behind) => format!(
            " {} {} lost before {from}, {} behind {to}.",
            count(before),
            was_or_were(before),
            count(behind)
        ),
    }
}
