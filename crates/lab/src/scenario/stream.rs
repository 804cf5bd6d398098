//! Videos of a file, checked and chosen.

use super::error::Problem;
use super::fields::Fields;
use crate::SECOND;
use crate::plan::{Pace, StreamPlan};

/// What YouTube's server writes at once [Trickle §2].
const BLOCK: u64 = 65_536;
/// Ten segments: what Trickle lets out at once.
const SMALL_BLOCK: u64 = 14_480;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    None,
    Blocks,
    MaxRate,
    Trickle,
}

/// A video, from the table of its traffic.
pub(super) fn read(f: &Fields<'_>) -> Result<StreamPlan, Problem> {
    let ways = [
        ("blocks", Way::Blocks),
        ("max-rate", Way::MaxRate),
        ("trickle", Way::Trickle),
        ("none", Way::None),
    ];
    let way = f.word("pace", &ways)?.unwrap_or(Way::Blocks);
    let block = f.positive_bytes("block")?;
    let pause = f.time("min-pause")?;
    let headroom = f.real("headroom", 1.0..=10.0)?;
    let hold = f.truth("hold-average")?;
    // What has no meaning is rather a mistake than a wish.
    for (key, given, of) in [
        ("block", block.is_some(), &[Way::Blocks, Way::Trickle][..]),
        ("min-pause", pause.is_some(), &[Way::Blocks]),
        ("headroom", headroom.is_some(), &[Way::Trickle]),
        ("hold-average", hold.is_some(), &[Way::Trickle]),
    ] {
        if given && !of.contains(&way) {
            let name = ways.iter().find(|(_, other)| *other == way);
            let name = name.map_or("", |(name, _)| *name);
            return Err(f.wrong(key, format!("`{key}` has no meaning with pace {name}")));
        }
    }
    let thousandths = |share: f64| (share * 1000.0).round() as u32;
    Ok(StreamPlan {
        rate: f.rate("rate")?.ok_or_else(|| f.missing("rate"))?,
        length: f.positive_time("length")?.unwrap_or(300 * SECOND),
        startup: f.time("startup")?.unwrap_or(35 * SECOND),
        throttle: thousandths(f.real("throttle", 0.1..=100.0)?.unwrap_or(1.25)),
        pace: match way {
            Way::None => Pace::None,
            Way::Blocks => Pace::Blocks {
                bytes: block.unwrap_or(BLOCK),
                pause: pause.unwrap_or(0),
            },
            Way::MaxRate => Pace::MaxRate,
            Way::Trickle => Pace::Trickle {
                headroom: thousandths(headroom.unwrap_or(1.2)),
                hold_average: hold.unwrap_or(false),
                block: block.unwrap_or(SMALL_BLOCK),
            },
        },
        start: f.time("join")?.unwrap_or(2 * SECOND),
        restart: f.time("rejoin")?.unwrap_or(5 * SECOND),
        request: f.small_bytes("request", 1..=1_000_000)?.unwrap_or(300),
    })
}
