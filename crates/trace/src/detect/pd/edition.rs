//! The two editions of the detector: what each counts, and its list of rules.

use super::counting::Counting;
use super::rules::{self, Rule};
use crate::annotate::{Marks, Sent};

/// How the authors' code and the paper's text differ.
#[derive(Debug)]
pub(super) struct Edition {
    /// What counts as lost, and what is followed.
    pub counting: Counting,
    /// The rules, in order. The first that does not hold rules a policer out.
    pub rules: &'static [Rule],
}

/// The authors' published code.
pub(super) const PUBLISHED: Edition = Edition {
    counting: Counting {
        // The code knows one sign of a spurious retransmission: a duplicate acknowledgement of
        // the last.
        lost: |sent| sent.repeated != 0 && !sent.marks.has(Marks::SPURIOUS_DSACK),
        // Until it was first acknowledged, if it was not retransmitted (even if it is a retransmission
        // itself): microseconds of either time, and whole milliseconds of the difference.
        rtt_ms: |sent| {
            (sent.repeated == 0 && sent.acked_at != 0).then(|| {
                let micros = (sent.acked_at / 1000).saturating_sub(sent.at / 1000);
                (micros / 1000) as f64
            })
        },
        to_the_end: true,
    },
    rules: &[
        rules::first_loss_is_early,
        rules::bucket_was_not_overdrawn_at_the_start,
        rules::losses_in_three_round_trips,
        rules::fifteen_losses_followed,
        rules::fifteen_passes_followed,
        rules::mean_fill_is_lower_on_loss,
        rules::median_fill_is_lower_on_loss,
        rules::losses_come_near_the_median_fill_on_loss,
        rules::passes_come_above_the_median_fill_on_loss,
        rules::round_trips_did_not_grow_before_losses,
    ],
};

/// The paper's text.
pub(super) const PAPER: Edition = Edition {
    counting: Counting {
        lost: Sent::lost,
        rtt_ms: |sent| sent.rtt().map(|rtt| rtt as f64 / 1e6),
        to_the_end: false,
    },
    rules: &[
        rules::fifteen_losses,
        // Nothing to measure by: no packet that was acknowledged in one round trip, or a clock
        // that stood still or went back. The code answers the same further on.
        rules::round_trip_time_is_known,
        rules::rate_is_known,
        // The paper asks for 15 losses only, not for what the second run has left of them.
        rules::losses_in_a_round_trip,
        rules::some_losses_followed,
        rules::some_passes_followed,
        rules::mean_fill_is_lower_on_loss,
        rules::median_fill_is_lower_on_loss,
        rules::losses_come_with_an_empty_bucket,
        rules::passes_come_with_tokens,
        rules::round_trips_did_not_grow_before_the_first_loss,
    ],
};
