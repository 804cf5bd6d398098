//! The explanation for programs. `docs/reference/explain.md` describes it; names are stable.

use std::ops::RangeInclusive;

use serde_json::{Value, json};
use tidegate_trace::annotate::Layer;
use tidegate_trace::detect::{AqmKind, Cause, Estimate, Judgement, QueueKind};

use crate::account::{Account, Kept, Other};
use crate::model::Replay;
use crate::{advice, blind, headline, series};

/// Everything that is said of the transfer.
pub fn explanation(account: &Account, replay: &Replay) -> Value {
    let kept = account.chosen();
    let judgement = &kept.judgement;
    let advice = advice::advice(kept);
    let advice = advice
        .iter()
        .map(|(party, text)| json!({ "party": party.key(), "text": text }));
    let ruled_out = judgement.ruled_out(&kept.transfer).into_iter();
    let ruled_out = ruled_out.map(|other| json!({ "cause": other.cause.name(), "why": other.why }));
    let shares = judgement.shares.iter();
    let shares =
        shares.map(|part| json!({ "cause": part.cause.name(), "share": rounded(part.share, 4) }));
    json!({
        "schema": 1,
        "capture": account.capture,
        "detector": account.detector,
        "transfer": transfer(account, kept),
        "verdict": judgement.cause.name(),
        "headline": headline::sentence(&kept.transfer, judgement),
        "reason": judgement.reason,
        "confidence": judgement.confidence.map(|confidence| rounded(confidence, 4)),
        "basis": judgement.basis.name(),
        "shared": judgement.shared,
        "aqm_kind": judgement.aqm_kind.map(AqmKind::name),
        "queue_kind": judgement.queue_kind.map(QueueKind::name),
        "limit": limit(kept),
        "shares": shares.collect::<Vec<_>>(),
        "evidence": judgement.evidence(&kept.transfer).into_iter().map(|clue| clue.text).collect::<Vec<_>>(),
        "ruled_out": ruled_out.collect::<Vec<_>>(),
        "left": blind::left(kept).into_iter().map(Cause::name).collect::<Vec<_>>(),
        "advice": advice.collect::<Vec<_>>(),
        "not_known": blind::unknown(account, kept),
        "series": series::series(kept, replay),
        "other_segments": account
            .transfers
            .iter()
            .filter(|other| other.transfer.id != kept.transfer.id)
            .map(segment)
            .collect::<Vec<_>>(),
        "other_flows": account.others.iter().map(flow).collect::<Vec<_>>(),
    })
}

fn transfer(account: &Account, kept: &Kept) -> Value {
    let (transfer, info) = (&kept.transfer, &account.info);
    let metrics = &transfer.metrics;
    let start = metrics.first_sent.saturating_sub(account.capture_start);
    let millis = |nanos: u64| rounded(nanos as f64 / 1e6, 3);
    json!({
        "flow": info.number,
        "segment": transfer.id.segment,
        "from": account.side(),
        "client": info.client.to_string(),
        "server": info.server.to_string(),
        "roles_known": info.roles_known,
        "start_offset_s": rounded(start as f64 / 1e9, 6),
        "duration_s": rounded(metrics.duration as f64 / 1e9, 6),
        "data_packets": metrics.data_packets,
        "lost_packets": metrics.lost_packets,
        "retransmitted_packets": metrics.retransmitted_packets,
        "delivered_bytes": metrics.delivered_bytes,
        "goodput_bps": metrics.goodput_bps().map(whole),
        "rtt_min_ms": metrics.rtt.map(|rtt| millis(rtt.min)),
        "rtt_median_ms": metrics.rtt.map(|rtt| millis(rtt.median)),
        "rtt_p95_ms": metrics.rtt.map(|rtt| millis(rtt.p95)),
        "rtt_ratio": metrics.rtt.and_then(|rtt| rtt.ratio()).map(|ratio| rounded(ratio, 3)),
        "max_flight_bytes": metrics.acknowledged.then_some(metrics.max_in_flight),
        "vantage": transfer.path.vantage().to_string(),
    })
}

/// The limiter's settings as they count on the link; the values are null where they are not known.
fn limit(kept: &Kept) -> Value {
    let tally = &kept.transfer.tally;
    let at = |layer| kept.judgement.limit.map(|limit| limit.at(layer, tally));
    let limit = at(Layer::Link);
    let rate = limit.map(|limit| limit.rate_bps);
    let depth = limit.and_then(|limit| limit.depth_bytes);
    let burst = limit.and_then(|limit| limit.burst);
    let switch = burst.and_then(|burst| burst.switch);
    let ends = |estimate: Option<Estimate>| {
        let interval = estimate.and_then(Estimate::interval);
        interval.map(RangeInclusive::into_inner).unzip()
    };
    let (rate_low, rate_high) = ends(rate);
    let (depth_low, depth_high) = ends(depth);
    json!({
        "rate_bps": rate.map(|rate| whole(rate.value)),
        "rate_low_bps": rate_low.map(whole),
        "rate_high_bps": rate_high.map(whole),
        "rate_payload_bps": at(Layer::Payload).map(|limit| whole(limit.rate_bps.value)),
        "depth_bytes": depth.map(|depth| whole(depth.value)),
        "depth_low_bytes": depth_low.map(whole),
        "depth_high_bytes": depth_high.map(whole),
        "burst_rate_bps": burst.and_then(|burst| burst.rate_bps).map(whole),
        "burst_bytes": burst.map(|burst| whole(burst.bytes)),
        "switch_s": switch.map(|switch| rounded(switch.after as f64 / 1e9, 6)),
        "switch_bytes": switch.map(|switch| switch.bytes),
    })
}

fn segment(other: &Kept) -> Value {
    let metrics = &other.transfer.metrics;
    let Judgement {
        cause, confidence, ..
    } = &other.judgement;
    json!({
        "segment": other.transfer.id.segment,
        "verdict": cause.name(),
        "confidence": confidence.map(|confidence| rounded(confidence, 4)),
        "duration_s": rounded(metrics.duration as f64 / 1e9, 6),
        "goodput_bps": metrics.goodput_bps().map(whole),
    })
}

fn flow(other: &Other) -> Value {
    json!({
        "flow": other.id.flow,
        "segment": other.id.segment,
        "from": if other.id.from_client { "client" } else { "server" },
        "verdict": other.cause.name(),
        "busy_s": rounded(other.busy as f64 / 1e9, 6),
        "goodput_bps": other.goodput_bps.map(whole),
    })
}

fn whole(value: f64) -> u64 {
    value.round() as u64
}

fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (value * scale).round() / scale
}
