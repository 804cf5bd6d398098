//! The queues of a tin, and which one a flow has: a hash table whose entries have eight ways, so that flows share a queue
//! seldom ([Cake18 §III-C]).

use super::cobalt::Cobalt;
use crate::packet::Fifo;

/// Queues of a tin, and those that a flow may have.
pub(super) const QUEUES: usize = 1024;
pub(super) const WAYS: usize = 8;

/// What a flow does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Set {
    /// Nothing, for long.
    #[default]
    None,
    /// It has just begun, and is served first.
    Sparse,
    /// It has begun and was empty in its turn.
    SparseWait,
    /// It has something to send all the time.
    Bulk,
    /// It is empty, and its queue's state comes to rest.
    Decaying,
}

/// A queue.
#[derive(Debug, Clone, Default)]
pub(super) struct Flow {
    pub(super) tag: u32,
    pub(super) set: Set,
    pub(super) hosts: [u16; 2],
    pub(super) packets: Fifo,
    pub(super) cobalt: Cobalt,
    pub(super) deficit: i64,
}

/// The place of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) queue: usize,
    /// Whether its hosts must be looked up: it was not there.
    pub(super) is_new: bool,
}

/// The queue of the flow with this tag (`cake_hash`).
pub(super) fn place(flows: &[Flow], tag: u32) -> Place {
    let home = tag as usize % QUEUES;
    let set = home - home % WAYS;
    let ways = || (0..WAYS).map(|way| set + (home + way) % WAYS);
    let known = ways().find(|&queue| flows[queue].tag == tag);
    let free = || ways().find(|&queue| flows[queue].set == Set::None);
    let queue = known.or_else(free).unwrap_or(home);
    Place {
        queue,
        is_new: flows[queue].tag != tag || flows[queue].set == Set::None,
    }
}
