//! Videos of a file, checked and chosen.

use tidegate_limiter::pacing::Way;
use tidegate_notation::Mistake;

use super::applications::thousandths;
use super::fields::Fields;
use crate::SECOND;
use crate::plan::{Pace, StreamPlan};

/// A video, from the table of its traffic.
pub(super) fn read(f: &Fields<'_>) -> Result<StreamPlan, Mistake> {
    let mut way = f.word("pace", &Way::NAMES)?.unwrap_or(Way::APPLICATION_64K);
    let name = way.name();
    let given = f.positive_bytes("block")?;
    if let (Way::Application { block } | Way::Trickle { block }, Some(given)) = (&mut way, given) {
        *block = given;
    }
    let pause = f.time("min-pause")?;
    let headroom = f.real("headroom", 1.0..=10.0)?;
    let hold = f.truth("hold-average")?;
    let (application, trickle) = (
        matches!(way, Way::Application { .. }),
        matches!(way, Way::Trickle { .. }),
    );
    // A key without a meaning is probably a mistake.
    for (key, given, meant) in [
        ("block", given.is_some(), application || trickle),
        ("min-pause", pause.is_some(), application),
        ("headroom", headroom.is_some(), trickle),
        ("hold-average", hold.is_some(), trickle),
    ] {
        if given && !meant {
            return Err(f.wrong(key, format!("`{key}` has no meaning with pace {name}")));
        }
    }
    Ok(StreamPlan {
        rate: f.rate("rate")?.ok_or_else(|| f.missing("rate"))?,
        length: f.positive_time("length")?.unwrap_or(300 * SECOND),
        startup: f.time("startup")?.unwrap_or(35 * SECOND),
        throttle: thousandths(f.real("throttle", 0.1..=100.0)?.unwrap_or(1.25)),
        pace: Pace {
            way,
            least_wait: pause.unwrap_or(0),
            headroom: thousandths(headroom.unwrap_or(1.2)),
            hold_average: hold.unwrap_or(false),
        },
        start: f.time("join")?.unwrap_or(2 * SECOND),
        restart: f.time("rejoin")?.unwrap_or(5 * SECOND),
        request: f.small_bytes("request", 1..=1_000_000)?.unwrap_or(300),
    })
}
