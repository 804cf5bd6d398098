//! Nodes of the network, as packets find them.

use tidegate_limiter::{NetworkNode, Share};

use super::access::{Maps, MapsError};
use super::layout::{NODES, Record, WHOLE, node};
use crate::table::NodeState;

const MAP: &str = "nodes";

/// Stores a node, which keeps what it knows unless it is `fresh`. What is counted or decided there at the same moment is
/// lost, which is less than what passes until the next look.
pub(crate) fn put(
    maps: &dyn Maps,
    number: u32,
    what: &NetworkNode,
    fresh: bool,
) -> Result<(), MapsError> {
    if number as usize >= NODES {
        let found = number as usize + 1;
        return Err(MapsError::room("nodes of the network", found, NODES));
    }
    let key = number.to_ne_bytes();
    let known = maps.lookup(MAP, &key)?.filter(|_| !fresh);
    let record = match known {
        Some(known) => Record::from(known),
        None => Record::new(node::SIZE_OF).with(node::SHARE, WHOLE as u32),
    };
    let record = record
        .with(node::RATE, what.capacity.bits_per_second())
        .with(node::ABOVE, what.above.unwrap_or(0) as u32);
    maps.update(MAP, &key, &record.into_bytes())
}

/// The longest time, in nanoseconds, for which a rate is reported after the last packet.
const FRESH: u64 = 1_000_000_000;

/// What a node knows at a time of the packets' clock.
pub(crate) fn read(maps: &dyn Maps, number: u32, now: u64) -> Result<NodeState, MapsError> {
    let found = maps.lookup(MAP, &number.to_ne_bytes())?.unwrap_or_default();
    Ok(NodeState {
        passed_bytes: node::PASSED.of(&found),
        rate: match now.saturating_sub(node::AT.of(&found)) <= FRESH {
            true => node::LOAD.of(&found),
            false => 0,
        },
        share: Share::from_parts(node::SHARE.of(&found)),
    })
}
