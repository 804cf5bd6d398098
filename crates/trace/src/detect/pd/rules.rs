//! The rules, one function each: what is measured, what it must be, and what rules a policer out
//! if it is not. The thresholds are the published code's and the paper's [Flach16 §2.1 and code].

use super::answer::Check;
use super::code::Code;
use super::replay::{Case, Part};

/// A rule of the detector.
pub(super) type Rule = fn(&mut Case<'_>) -> Check;

const MIN_SAMPLES: usize = 15;
const MIN_SLICES: usize = 3;
const LATE_LOSS: i64 = 2_000_000;
const LOSS_ZERO_RTTS: f64 = 2.0;
const PASS_ZERO_RTTS: f64 = 0.75;
const LOSS_OUTLIERS: f64 = 0.10;
const PASS_OUTLIERS: f64 = 0.03;
const INFLATED_LOSSES: f64 = 0.2;

pub(super) fn fifteen_losses(case: &mut Case<'_>) -> Check {
    Check {
        unit: "packets",
        ..at_least("lost packets", case.lost(), MIN_SAMPLES)
    }
}

pub(super) fn first_loss_is_early(case: &mut Case<'_>) -> Check {
    let at = case.first_loss_at();
    Check {
        rules_out: Code::LateLoss,
        what: "first loss",
        found: at as f64,
        limit: LATE_LOSS as f64,
        unit: "B into the transfer",
        holds: at <= LATE_LOSS,
    }
}

pub(super) fn round_trip_time_is_known(case: &mut Case<'_>) -> Check {
    known("median round-trip time", case.rtt_ms(), "ms")
}

pub(super) fn rate_is_known(case: &mut Case<'_>) -> Check {
    known("rate between losses", case.rate, "bit/s")
}

pub(super) fn bucket_was_not_overdrawn_at_the_start(case: &mut Case<'_>) -> Check {
    let fill = case.first_loss_at() as f64 - case.rate * case.before_first_loss() / 8.0;
    let least = -case.tokens_in_round_trips(PASS_ZERO_RTTS);
    Check {
        rules_out: Code::NegativeFill,
        what: "tokens at the start",
        found: fill,
        limit: least,
        unit: "B",
        holds: fill >= least || least.is_nan(),
    }
}

pub(super) fn losses_in_three_round_trips(case: &mut Case<'_>) -> Check {
    at_least("round trips with losses", case.fills().slices, MIN_SLICES)
}

pub(super) fn losses_in_a_round_trip(case: &mut Case<'_>) -> Check {
    at_least("round trips with losses", case.fills().slices, 1)
}

pub(super) fn fifteen_losses_followed(case: &mut Case<'_>) -> Check {
    at_least("losses followed", case.fills().losses, MIN_SAMPLES)
}

pub(super) fn some_losses_followed(case: &mut Case<'_>) -> Check {
    at_least("losses followed", case.fills().losses, 1)
}

pub(super) fn fifteen_passes_followed(case: &mut Case<'_>) -> Check {
    at_least("passes followed", case.fills().passes, MIN_SAMPLES)
}

pub(super) fn some_passes_followed(case: &mut Case<'_>) -> Check {
    at_least("passes followed", case.fills().passes, 1)
}

pub(super) fn mean_fill_is_lower_on_loss(case: &mut Case<'_>) -> Check {
    let fills = case.fills();
    lower(
        "mean tokens on loss",
        fills.mean_on_loss,
        fills.mean_on_pass,
    )
}

pub(super) fn median_fill_is_lower_on_loss(case: &mut Case<'_>) -> Check {
    let fills = case.fills();
    lower(
        "median tokens on loss",
        fills.median_on_loss,
        fills.median_on_pass,
    )
}

pub(super) fn losses_come_near_the_median_fill_on_loss(case: &mut Case<'_>) -> Check {
    let empty = case.fills().median_on_loss;
    losses_come_near(case, empty)
}

pub(super) fn losses_come_with_an_empty_bucket(case: &mut Case<'_>) -> Check {
    losses_come_near(case, 0.0)
}

fn losses_come_near(case: &mut Case<'_>, empty: f64) -> Check {
    let far = case.tokens_in_round_trips(LOSS_ZERO_RTTS);
    let out = case.losses_where(|fill| (fill - empty).abs() > far);
    let what = "losses with tokens far from empty";
    at_most(what, out, LOSS_OUTLIERS, Code::LossFillOutOfRange)
}

pub(super) fn passes_come_above_the_median_fill_on_loss(case: &mut Case<'_>) -> Check {
    let empty = case.fills().median_on_loss;
    passes_come_above(case, empty)
}

pub(super) fn passes_come_with_tokens(case: &mut Case<'_>) -> Check {
    passes_come_above(case, 0.0)
}

fn passes_come_above(case: &mut Case<'_>, empty: f64) -> Check {
    let far = case.tokens_in_round_trips(PASS_ZERO_RTTS);
    let out = case.passes_where(|fill| fill - empty < -far);
    let what = "passes with an empty bucket";
    at_most(what, out, PASS_OUTLIERS, Code::PassFillOutOfRange)
}

pub(super) fn round_trips_did_not_grow_before_losses(case: &mut Case<'_>) -> Check {
    grown(case.inflated(case.followed()))
}

pub(super) fn round_trips_did_not_grow_before_the_first_loss(case: &mut Case<'_>) -> Check {
    grown(case.inflated(case.first..case.first + 1))
}

fn grown(inflated: Part) -> Check {
    let (part, whole) = (inflated.part as f64, inflated.whole as f64);
    Check {
        rules_out: Code::InflatedRtt,
        what: "losses behind a grown round-trip time",
        found: part / whole.max(1.0) * 100.0,
        limit: INFLATED_LOSSES * 100.0,
        unit: "%",
        holds: part <= INFLATED_LOSSES * whole,
    }
}

fn at_least(what: &'static str, found: usize, least: usize) -> Check {
    Check {
        rules_out: Code::TooFewLosses,
        what,
        found: found as f64,
        limit: least as f64,
        unit: "",
        holds: found >= least,
    }
}

fn known(what: &'static str, found: f64, unit: &'static str) -> Check {
    Check {
        rules_out: Code::TooFewLosses,
        what,
        found,
        limit: 0.0,
        unit,
        holds: found > 0.0,
    }
}

fn lower(what: &'static str, on_loss: f64, on_pass: f64) -> Check {
    Check {
        rules_out: Code::HigherFillOnLoss,
        what,
        found: on_loss,
        limit: on_pass,
        unit: "B",
        holds: on_loss < on_pass,
    }
}

/// A share of what was followed, in percent.
fn at_most(what: &'static str, out: Part, share: f64, rules_out: Code) -> Check {
    let (part, whole) = (out.part as f64, out.whole as f64);
    Check {
        rules_out,
        what,
        found: part / whole * 100.0,
        limit: share * 100.0,
        unit: "%",
        holds: whole * share >= part,
    }
}
