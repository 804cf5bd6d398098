//! A diagnosis for programs.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate_story::between;
use tidegate_trace::pair::{Change, Changes, Fits, Way, positions};

use super::Account;
use super::picture::PARTS;

pub(super) fn of(account: &Account) -> Value {
    let diagnosis = &account.diagnosis;
    let captures: Vec<Value> = (0..2)
        .map(|i| {
            let counts = diagnosis.counts[i];
            json!({
                "file": *account.names[i],
                "frames": counts.frames,
                "tcp_packets": counts.tcp,
                "super_packets": counts.super_packets,
                "captured_twice": counts.copies,
                "not_kept": counts.not_kept,
                "compared_s": between::compared(&counts),
                "unshared_streams": diagnosis.unshared[i],
            })
        })
        .collect();
    let clocks = diagnosis.clocks.map(|clocks| {
        json!({
            "offset_s": clocks.offset / 1e9,
            "offset_error_s": clocks.offset_error.map(|error| error / 1e9),
            "drift_ppm": clocks.drift * 1e6,
            "drift_error_ppm": clocks.drift_error * 1e6,
            "uneven": clocks.uneven,
        })
    });
    json!({
        "verdict": between::headline(diagnosis),
        "between": between::found(diagnosis).name(),
        "captures": captures,
        "clocks": clocks,
        "ways": diagnosis.ways.iter().map(way).collect::<Vec<_>>(),
    })
}

fn way(way: &Way) -> Value {
    let receivers: Vec<Value> = way
        .groups
        .iter()
        .map(|group| {
            json!({
                "address": group.receiver.to_string(),
                "between": group.verdict.name(),
                "fits": fits(&group.fits),
            })
        })
        .collect();
    let streams: Vec<Value> = way
        .streams
        .iter()
        .map(|stream| {
            json!({
                "sender": stream.at_a[0].to_string(),
                "receiver": stream.at_a[1].to_string(),
                "sender_at_b": stream.at_b[0].to_string(),
                "receiver_at_b": stream.at_b[1].to_string(),
                "packets": stream.packets,
                "data_packets": stream.data_packets,
                "payload_bytes": stream.payload_bytes,
                "lost": stream.lost,
                "lost_without_data": stream.lost_bare,
                "lost_before": stream.elsewhere.lost_before,
                "lost_behind": stream.elsewhere.lost_after(),
                "retransmitted": stream.elsewhere.retransmitted,
                "missed": stream.missed,
                "unseen": stream.unseen,
                "duplicated": stream.duplicated,
                "overtaken": stream.overtaken,
            })
        })
        .collect();
    let lost_by_position: Vec<Value> = positions(way.passages.iter(), PARTS)
        .iter()
        .map(|part| {
            json!({
                "from_bytes": part.from,
                "to_bytes": part.to,
                "data_packets": part.packets,
                "lost": part.lost,
            })
        })
        .collect();
    json!({
        "from": if way.to_b { "A" } else { "B" },
        "to": if way.to_b { "B" } else { "A" },
        "between": way.verdict.name(),
        "transit_ms": way.transit.map(|transit| json!({
            "min": transit.least / 1e6,
            "median": transit.median / 1e6,
            "p99": transit.p99 / 1e6,
            "max": transit.most / 1e6,
        })),
        "fits": fits(&way.fits),
        "lost_by_position": lost_by_position,
        "receivers": receivers,
        "changes": changes(&way.changes),
        "streams": streams,
    })
}

/// What explains losses and transit times.
fn fits(fits: &Fits) -> Value {
    json!({
        "confidence": fits.confidence(),
        "lost": fits.lost,
        "packets": fits.packets,
        "fitted_packets": fits.fitted,
        "bucket": fits.bucket.map(|fit| json!({
            "explains": fits.explaining_bucket().is_some(),
            "rate_bps": fit.bucket.rate * 8.0,
            "rate_low_bps": fit.rate.low * 8.0,
            "rate_high_bps": fit.rate.high * 8.0,
            "depth_bytes": fit.bucket.depth,
            "depth_low_bytes": fit.depth.low,
            "depth_high_bytes": fit.depth.high,
            "explained": fit.explained,
            "beats_bursts_nats": fit.beats_bursts,
            "behind_queue": fit.behind_queue,
            "held": fit.held,
        })),
        "queue": fits.waiting.map(|queue| json!({
            "explains": fits.explaining_queue().is_some(),
            "rate_bps": queue.rate * 8.0,
            "backlog_bytes": queue.backlog,
            "at_once_bytes": queue.at_once,
            "explained": queue.explained,
            "before_losses": queue.before_losses,
        })),
        "beside_losses": fits.beside.map(|beside| json!({
            "excess_ms": beside.excess / 1e6,
            "unexplained_ms": beside.unexplained / 1e6,
            "rank": beside.rank,
            "queue_filled": beside.filled,
            "peak": beside.peak,
        })),
        "gain_of_unseen_users_nats": fits.shared,
    })
}

/// Changes of one kind, each with what it counts.
fn list<T>(changes: &BTreeMap<Change<T>, u64>, text: impl Fn(&T) -> String) -> Vec<Value> {
    changes
        .iter()
        .map(|(Change { before, after }, count)| {
            json!({ "from": text(before), "to": text(after), "count": count })
        })
        .collect()
}

fn changes(changes: &Changes) -> Value {
    let number = |value: Option<u16>| value.map_or("none".to_owned(), |value| value.to_string());
    json!({
        "hops": changes.usual_hops(),
        "addresses": list(&changes.translated, ToString::to_string),
        "dscp": list(&changes.dscp, ToString::to_string),
        "ecn": list(&changes.ecn, ToString::to_string),
        "mss": list(&changes.mss, |mss| number(*mss)),
        "window_scale": list(&changes.window_scale, |scale| number(scale.map(u16::from))),
        "identification": changes.identification,
        "payload": changes.payload,
        "timestamps_removed": changes.timestamps_removed,
    })
}
