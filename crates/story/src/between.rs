//! What is said of two captures of the same traffic, in words and numbers.

mod verdict;

use std::sync::Arc;

use tidegate_trace::pair::{
    Between, BucketFit, Change, Clocks, Diagnosis, Fits, Order, StreamReport, Way, positions,
};

use crate::units::{bytes, count, percent, plural, rate};
use verdict::{is_shared, places, without_loss};

pub use verdict::{compared, found, headline};

/// Changes of one kind that are listed; JSON has all.
const LISTED: usize = 3;
/// Positions in bursts are shown in this number of parts of equal length.
const PARTS: u32 = 5;

/// A comparison in words.
pub struct Told {
    /// The verdict in one sentence.
    pub headline: String,
    /// Whether packets were lost between the places.
    pub alarming: bool,
    /// What was compared: a line for each capture.
    pub captures: [String; 2],
    /// How the clocks stand to each other; `None` where the captures share no packets.
    pub clocks: Option<String>,
    /// What went one way, and the other.
    pub ways: Vec<OneWay>,
}

/// What went one way, in words.
pub struct OneWay {
    /// From where to where.
    pub heading: String,
    /// What was found, each with its name.
    pub lines: Vec<(&'static str, String)>,
}

/// What is said of the comparison of captures with these names.
pub fn told(names: &[Arc<str>; 2], diagnosis: &Diagnosis) -> Told {
    let ways = diagnosis.ways.iter().filter(|way| !way.streams.is_empty());
    let is_shared = is_shared(diagnosis);
    Told {
        headline: headline(diagnosis),
        alarming: without_loss(diagnosis.main_way()).is_none()
            && matches!(
                found(diagnosis),
                Between::Policer
                    | Between::Queue
                    | Between::Aqm
                    | Between::ShaperBurst
                    | Between::RandomLoss
            ),
        captures: [0, 1].map(|i| capture(i, &names[i], diagnosis)),
        clocks: diagnosis
            .clocks
            .filter(|_| is_shared)
            .map(|clocks| clocks_line(&clocks)),
        // Without clocks nothing was compared.
        ways: match diagnosis.clocks.filter(|_| is_shared) {
            Some(_) => ways.map(one_way).collect(),
            None => Vec::new(),
        },
    }
}

fn capture(i: usize, name: &str, diagnosis: &Diagnosis) -> String {
    let counts = diagnosis.counts[i];
    let mut notes = vec![plural(counts.tcp, "TCP packet", "TCP packets")];
    if counts.super_packets > 0 {
        notes.push(plural(
            counts.super_packets,
            "super-packet",
            "super-packets",
        ));
    }
    if counts.copies > 0 {
        notes.push(format!("{} captured twice", count(counts.copies)));
    }
    if counts.not_kept > 0 {
        let left_out = plural(counts.not_kept, "packet", "packets");
        let seconds = compared(&counts);
        notes.push(format!(
            "only the first {seconds:.3} s are compared: {left_out} left out, which `tidegate diagnose --max-packets` compares"
        ));
    }
    if diagnosis.unshared[i] > 0 {
        let unshared = diagnosis.unshared[i] as u64;
        let what = plural(unshared, "direction", "directions");
        let unlike = match diagnosis.unlike as u64 {
            0 => String::new(),
            unlike => format!(" ({} with other data)", count(unlike)),
        };
        notes.push(format!("{what} of connections not in the other{unlike}"));
    }
    let letter = ["A", "B"][i];
    format!("{letter}  {name}: {}", notes.join(", "))
}

fn clocks_line(clocks: &Clocks) -> String {
    if clocks.uneven {
        let apart = 2.0 * clocks.offset_error.unwrap_or(0.0);
        return format!(
            "clocks: one was set, or went unevenly: by any one offset packets would be back {} before they left",
            milliseconds(apart)
        );
    }
    let ahead = clocks.offset / 1e9;
    let (ahead, word) = (ahead.abs(), if ahead < 0.0 { "behind" } else { "ahead of" });
    let offset = match clocks.offset_error {
        Some(error) => format!(
            "B's is {ahead:.6} s {word} A's, ±{} as the ways there and back may differ",
            milliseconds(error)
        ),
        None => format!(
            "B's is {ahead:.6} s {word} A's if the quickest packet took no time: packets went one way only"
        ),
    };
    let (drift, error) = (clocks.drift * 1e6, clocks.drift_error * 1e6);
    let drift = if drift.abs() <= error {
        format!("it neither gains nor loses (±{error:.2} ppm)")
    } else {
        let word = if drift < 0.0 { "loses" } else { "gains" };
        format!("it {word} {:.2} ppm (±{error:.2})", drift.abs())
    };
    format!("clocks: {offset}; {drift}")
}

fn milliseconds(nanos: f64) -> String {
    // No -0.
    let ms = nanos / 1e6 + 0.0;
    match ms.abs() {
        size if size < 0.1 => format!("{ms:.4} ms"),
        size if size < 10.0 => format!("{ms:.3} ms"),
        _ => format!("{ms:.2} ms"),
    }
}

fn one_way(way: &Way) -> OneWay {
    let [from, to] = places(way);
    let heading = format!(
        "from {from} to {to}: {}",
        plural(
            way.streams.len() as u64,
            "direction of a connection",
            "directions of connections"
        )
    );
    let mut lines = Vec::new();
    let mut line = |name, text| lines.push((name, text));
    let sum = |count: fn(&StreamReport) -> u64| way.sum(count);
    line("order", order(way));
    line(
        "packets",
        format!(
            "{}, {} with data ({})",
            count(sum(|s| s.packets)),
            count(sum(|s| s.data_packets)),
            bytes(sum(|s| s.payload_bytes))
        ),
    );
    let (lost, data) = (sum(|s| s.lost), sum(|s| s.data_packets));
    let bare = match sum(|s| s.lost_bare) {
        0 => String::new(),
        bare => format!(", and {} without data", count(bare)),
    };
    let (missed, unseen) = (sum(|s| s.missed), sum(|s| s.unseen));
    // What neither capture holds may have been lost between them, too.
    let or_missed = match unseen {
        0 => String::new(),
        _ => format!(" or missed by {from}'s capture"),
    };
    line(
        "lost",
        format!(
            "{} between {from} and {to} ({}){bare}; {} before {from}{or_missed}; {} behind {to}",
            plural(lost, "data packet", "data packets"),
            percent(lost as f64 / data.max(1) as f64),
            count(sum(|s| s.elsewhere.lost_before)),
            count(sum(|s| s.elsewhere.lost_after())),
        ),
    );
    if missed + unseen > 0 {
        let text = format!(
            "{} by {to}'s capture, {} by {from}'s",
            count(missed),
            count(unseen)
        );
        line("not captured", text);
    }
    if let Some(transit) = way.transit {
        let times = [transit.least, transit.median, transit.p99].map(milliseconds);
        let [least, median, p99] = times;
        line(
            "transit",
            format!("least {least}, median {median}, 99 % below {p99}"),
        );
    }
    let (overtaken, duplicated) = (sum(|s| s.overtaken), sum(|s| s.duplicated));
    if overtaken + duplicated > 0 {
        let text = format!(
            "{} overtaken, {} duplicated",
            count(overtaken),
            count(duplicated)
        );
        line("order kept", text);
    }
    for change in changes(way) {
        line("changed", change);
    }
    if way.groups.is_empty() {
        for (name, text) in findings(&way.fits, way.verdict, way) {
            line(name, text);
        }
    }
    for group in &way.groups {
        line("receiver", format!("{}: {}", group.receiver, group.verdict));
        for (name, text) in findings(&group.fits, group.verdict, way) {
            line(name, text);
        }
    }
    if let Some(text) = by_position(way) {
        line("in bursts", text);
    }
    OneWay { heading, lines }
}

fn order(way: &Way) -> String {
    let [from, to] = places(way);
    let main = way.streams.iter().max_by_key(|stream| stream.packets);
    let why = match main.map(|stream| stream.order) {
        Some(Order::RoundTrip) => "packets of both directions show it",
        Some(Order::Clocks) => "the clocks show it",
        Some(Order::Hops) => "the time to live falls",
        Some(Order::Losses) => "the second place lacks packets",
        Some(Order::Assumed) | None => "assumed: nothing shows it",
    };
    format!("{from} is nearer to the sender, {to} to the receiver ({why})")
}

fn changes(way: &Way) -> Vec<String> {
    let changes = &way.changes;
    let mut lines = Vec::new();
    if let Some(hops) = changes.usual_hops().filter(|&hops| hops != 0) {
        lines.push(format!("time to live falls by {hops}"));
    }
    for Change { before, after } in changes.translated.keys().take(LISTED) {
        lines.push(format!("address {before} becomes {after}"));
    }
    let option = |value: Option<u16>| value.map_or("none".to_owned(), |value| value.to_string());
    for Change { before, after } in changes.mss.keys().take(LISTED) {
        lines.push(format!(
            "segment size in SYN: {} becomes {}",
            option(*before),
            option(*after)
        ));
    }
    for Change { before, after } in changes.window_scale.keys().take(LISTED) {
        let [before, after] = [before, after].map(|scale| option(scale.map(u16::from)));
        lines.push(format!("window scale in SYN: {before} becomes {after}"));
    }
    for (Change { before, after }, packets) in changes.dscp.iter().take(LISTED) {
        lines.push(format!(
            "DSCP {before} becomes {after} in {}",
            plural(*packets, "packet", "packets")
        ));
    }
    for (Change { before, after }, packets) in changes.ecn.iter().take(LISTED) {
        lines.push(format!(
            "ECN {before:02b} becomes {after:02b} in {}",
            plural(*packets, "packet", "packets")
        ));
    }
    for (what, packets) in [
        ("IP identification", changes.identification),
        ("payload", changes.payload),
    ] {
        if packets > 0 {
            let all = count(changes.packets);
            lines.push(format!("{what} in {} of {all} packets", count(packets)));
        }
    }
    if changes.timestamps_removed > 0 {
        lines.push("TCP timestamps are removed".to_owned());
    }
    lines
}

/// What the fits say, and by which figures.
fn findings(fits: &Fits, verdict: Between, way: &Way) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(confidence) = fits.confidence() {
        let share = percent(confidence);
        let text = format!("{verdict}: {share} of such verdicts are right, by pairs of the lab");
        lines.push(("confidence", text));
    }
    if fits.fitted < fits.packets {
        let (fitted, packets) = (count(fits.fitted as u64), count(fits.packets as u64));
        let text =
            format!("models are fitted to {fitted} of {packets} packets, around the first losses");
        lines.push(("fitted to", text));
    }
    if let Some(fit) = fits.explaining_bucket() {
        let is_bucket = matches!(verdict, Between::Policer | Between::ShaperBurst);
        if is_bucket || fits.explaining_queue().is_none() {
            lines.push(("limiter", limiter(fit, way)));
        }
        if let (Between::Policer, Some(full), Some(beside)) =
            (verdict, fits.modelled_delay(), fits.beside)
        {
            let (unexplained, rest) = match fits.explaining_queue() {
                Some(_) => (beside.unexplained, " that the queue below does not explain"),
                None => (beside.excess, ""),
            };
            let held = fit.held.map(|held| {
                let share = percent(held.max(0.0));
                format!("a tenth of the packets that it would have held took at most {share} of that time; ")
            });
            lines.push((
                "no queue",
                format!(
                    "a queue of this rate and size would delay by {}; {}packets beside the losses took {} longer than the quickest{rest}",
                    milliseconds(full),
                    held.unwrap_or_default(),
                    milliseconds(unexplained.max(0.0)),
                ),
            ));
        }
        if let (Between::ShaperBurst, Some(burst)) = (verdict, fit.burst) {
            lines.push((
                "burst",
                format!(
                    "{} pass without delay, then packets wait; a queue behind that explains {} of the variation of transit times",
                    bytes(burst.allowance.round() as u64),
                    percent(burst.explained)
                ),
            ));
        }
    } else if let Some(fit) = &fits.bucket {
        let text = format!(
            "the best explains {} of what is uncertain about the losses",
            percent(fit.explained.max(0.0))
        );
        match verdict {
            Between::Policer => lines.push((
                "limiter",
                format!("rate and size are not known, since others may use it too: {text}"),
            )),
            _ => lines.push(("no bucket", text)),
        }
    }
    if let (Between::Queue | Between::Aqm, None, Some(beside)) =
        (verdict, fits.explaining_queue(), fits.beside)
    {
        let text = format!(
            "packets beside the median loss took {} longer than the quickest; the slowest packet beside it waited {} of the longest wait",
            milliseconds(beside.excess),
            percent(beside.peak),
        );
        lines.push(("waited", text));
    }
    if let Some(queue) = fits.explaining_queue() {
        let place = match verdict {
            Between::Policer if queue.before_losses => " before the policer",
            Between::Policer => " behind the policer",
            _ => "",
        };
        lines.push((
            "queue",
            format!(
                "packets wait behind each other{place} at {} on the link, up to {}; that explains {} of the variation of transit times",
                rate(queue.rate * 8.0),
                bytes(queue.backlog.round() as u64),
                percent(queue.explained)
            ),
        ));
    }
    lines
}

fn limiter(fit: &BucketFit, way: &Way) -> String {
    let (link, ip) = way
        .passages
        .iter()
        .fold((0u64, 0u64), |(link, ip), passage| {
            (
                link + u64::from(passage.link_bytes),
                ip + u64::from(passage.ip_bytes),
            )
        });
    let as_ip = ip as f64 / link.max(1) as f64;
    let of = |value: f64| rate(value * 8.0);
    let whole = |value: f64| bytes(value.round() as u64);
    format!(
        "{} on the link ({} to {}), {} as IP packets; bucket {} ({} to {}), {} as IP packets; explains {} of what is uncertain about the losses",
        of(fit.bucket.rate),
        of(fit.rate.low),
        of(fit.rate.high),
        of(fit.bucket.rate * as_ip),
        whole(fit.bucket.depth),
        whole(fit.depth.low),
        whole(fit.depth.high),
        whole(fit.bucket.depth * as_ip),
        percent(fit.explained)
    )
}

/// Shares of packets that were lost by their position in the burst.
fn by_position(way: &Way) -> Option<String> {
    let positions = positions(way.passages.iter(), PARTS);
    let seen = positions.iter().filter(|position| position.packets > 0);
    let shares: Vec<String> = seen
        .map(|position| {
            let share = percent(position.loss_rate());
            format!("{share} from {} on", bytes(u64::from(position.from)))
        })
        .collect();
    (!shares.is_empty()).then(|| format!("lost by position: {}", shares.join(", ")))
}
