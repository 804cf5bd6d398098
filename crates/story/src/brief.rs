//! A verdict in a few words, for a line of a table.

use tidegate_trace::detect::{Cause, Judgement};

use crate::units::rate;

/// A transfer with fewer data packets is over within a few round trips, and tables leave it out. (`pd` needs 15 losses and
/// 15 passes.)
pub const LEAST_PACKETS: u64 = 30;

/// The cause and the limiter's rate, such as `policer 1.52 Mbit/s`. For a verdict that leaves several causes, these are the causes.
pub fn verdict(judgement: &Judgement) -> String {
    let words = causes(judgement);
    match judgement.limit {
        Some(limit) => format!("{words} {}", rate(limit.rate_bps.value)),
        None => words,
    }
}

fn causes(judgement: &Judgement) -> String {
    let names = |causes: &mut dyn Iterator<Item = Cause>, between: &str| {
        let names: Vec<&str> = causes.map(Cause::name).collect();
        names.join(between)
    };
    match judgement.cause {
        Cause::Unclear if !judgement.left.is_empty() => {
            names(&mut judgement.left.iter().copied(), " or ") + "?"
        }
        Cause::Mixed => names(
            &mut judgement.shares.iter().take(2).map(|share| share.cause),
            " + ",
        ),
        cause => cause.to_string(),
    }
}

/// A share as a percentage without decimals.
pub fn whole_percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}
