//! The advice for programs. Names of fields are stable.

use serde_json::{Value, json};

use crate::advice::{Advice, Choice};
use crate::chance::Mean;
use crate::claim::Claim;
use crate::effect::Effect;
use crate::gate_file;
use crate::router;
use crate::setting::{Kind, Setting};
use crate::text::{self, Origin};

/// The whole advice as an object.
pub fn value(advice: &Advice, origin: &Origin) -> Value {
    let (situation, effort) = (&advice.situation, advice.effort);
    json!({
        "today": setting(&situation.today),
        "origin": {
            "vendor": origin.vendor.map(router::Vendor::name),
            "place": origin.place,
        },
        "situation": {
            "rtt_s": [situation.rtt.0 as f64 / 1e9, situation.rtt.1 as f64 / 1e9],
            "flows": situation.flows,
            "users": situation.users,
            "congestion_controls": situation.controls,
            "link_bps": situation.link().bits_per_second(),
            "video_bps": situation.bitrate().bits_per_second(),
        },
        "simulated": {
            "seed": effort.seed,
            "seeds": effort.seeds,
            "duration_s": effort.duration as f64 / 1e9,
            "video_s": effort.video() as f64 / 1e9,
        },
        "options": advice.options.iter().map(|choice| option(advice, origin, choice)).collect::<Vec<_>>(),
        "chosen": advice.chosen,
        "claims": advice.claims().iter().map(claim).collect::<Vec<_>>(),
        "costs": advice.costs().iter().map(cost).collect::<Vec<_>>(),
        "gate_toml": gate_file::text(advice),
        "remarks": advice.remarks,
        "assumed": text::assumed(advice, origin),
    })
}

fn setting(setting: &Setting) -> Value {
    let mut value = json!({
        "kind": setting.kind.name(),
        "rate_bps": setting.rate.bits_per_second(),
        "overhead_bytes": setting.overhead,
    });
    let mut set = |key: &str, bytes: u64| value[key] = json!(bytes);
    match setting.kind {
        Kind::Policer { burst } => set("burst_bytes", burst),
        Kind::Shaper { queue, burst } => {
            set("queue_bytes", queue);
            set("burst_bytes", burst);
        }
        Kind::BcPqp { queue, .. } => set("queue_bytes", queue),
    }
    value
}

fn option(advice: &Advice, origin: &Origin, choice: &Choice) -> Value {
    let (remedy, effect) = (&choice.remedy, &choice.effect);
    let vendor = origin
        .vendor
        .filter(|_| remedy.setting != advice.situation.today);
    json!({
        "change": remedy.change.key(),
        "words": remedy.words(),
        "limit": setting(&remedy.setting),
        "paced_to_share": remedy.pace,
        "why": remedy.why,
        "line": vendor.and_then(|vendor| router::write(vendor, &remedy.setting)),
        "effect": self::effect(effect),
        "downloads": downloads(advice, effect),
    })
}

fn effect(effect: &Effect) -> Value {
    json!({
        "goodput_share": effect.goodput,
        "slowest_share": effect.slowest,
        "jain": effect.fairness,
        "loss_rate": effect.loss,
        "retransmission_rate": effect.retransmitted,
        "delay_p95_s": effect.delay_s,
        "silent_share": effect.silent,
        "peak_share": effect.peak,
        "video_join_s": effect.join_s,
        "video_stalled_s": effect.rebuffer_s,
        "videos_stalled_share": effect.rebuffered,
        "videos_incomplete_share": effect.video_incomplete,
        "short_transfer_p50_s": effect.page_s,
        "short_transfer_p95_s": effect.page_p95_s,
        "short_transfers_incomplete_share": effect.page_incomplete,
        "simulations": {
            "downloads": effect.runs.slowest.len(),
            "short_transfers": effect.runs.page_s.len(),
            "videos": effect.runs.video_s.len(),
        },
        "standard_errors": {
            "slowest_share": Mean::of(&effect.runs.slowest).error,
            "loss_rate": Mean::of(&effect.runs.loss).error,
            "short_transfer_p50_s": Mean::of(&effect.runs.page_s).error,
            "video_wait_s": Mean::of(&effect.runs.video_s).error,
        },
    })
}

/// What the chosen option promises.
fn claim(claim: &Claim) -> Value {
    json!({
        "measure": claim.measure.key,
        "today": claim.now,
        "then": claim.then,
        "lower_bounds": claim.bounds,
        "known": claim.is_known() && claim.is_complete(),
        "improves_by": claim.range().map(|(least, most)| [least, most]),
    })
}

/// What the chosen option makes worse.
fn cost(cost: &Claim) -> Value {
    json!({
        "measure": cost.measure.key,
        "today": cost.now,
        "then": cost.then,
        "clear": cost.is_clearly_worse(),
    })
}

fn downloads(advice: &Advice, effect: &Effect) -> Vec<Value> {
    let senders = advice.situation.senders();
    let each = senders.iter().zip(&effect.each);
    each.map(|(sender, goodput)| {
        json!({
            "user": sender.user,
            "congestion_control": sender.control,
            "rtt_s": [sender.rtt.0 as f64 / 1e9, sender.rtt.1 as f64 / 1e9],
            "goodput_bps": goodput,
        })
    })
    .collect()
}
