//! How many flows of a host have something to send all the time.

use crate::plan::Isolation;

use super::flows::{QUEUES, WAYS};

/// A host.
#[derive(Debug, Clone, Copy, Default)]
struct Host {
    tag: u32,
    flows: u32,
}

/// Sources and destinations, each in a table of sets.
#[derive(Debug, Clone)]
pub(super) struct Hosts {
    ends: [Vec<Host>; 2],
    /// Whether sources, and destinations, share the rate evenly.
    counts: [bool; 2],
}

impl Hosts {
    pub(super) fn new(isolation: Isolation) -> Self {
        let counts = match isolation {
            Isolation::Flows => [false, false],
            Isolation::Sources => [true, false],
            Isolation::Destinations => [false, true],
            Isolation::Triple => [true, true],
        };
        Self {
            ends: counts.map(|counts| vec![Host::default(); if counts { QUEUES } else { 0 }]),
            counts,
        }
    }

    /// Bytes that the tables take up at most.
    pub(super) fn memory() -> u64 {
        2 * QUEUES as u64 * size_of::<Host>() as u64
    }

    /// The places of hosts with these tags.
    pub(super) fn find(&mut self, tags: [u32; 2]) -> [u16; 2] {
        let mut places = [0; 2];
        for (end, hosts) in self.ends.iter_mut().enumerate() {
            if !self.counts[end] {
                continue;
            }
            let home = tags[end] as usize % QUEUES;
            let set = home - home % WAYS;
            let ways = || (0..WAYS).map(|way| set + (home + way) % WAYS);
            let known = ways().find(|&place| hosts[place].tag == tags[end]);
            let free = || ways().find(|&place| hosts[place].flows == 0);
            let place = known.or_else(free).unwrap_or(home);
            hosts[place].tag = tags[end];
            places[end] = place as u16;
        }
        places
    }

    /// A flow of these hosts begins to send all the time.
    pub(super) fn add(&mut self, places: [u16; 2]) {
        for (end, place) in places.into_iter().enumerate() {
            if let Some(host) = self.ends[end].get_mut(usize::from(place)) {
                host.flows += 1;
            }
        }
    }

    /// A flow of these hosts no longer does.
    pub(super) fn remove(&mut self, places: [u16; 2]) {
        for (end, place) in places.into_iter().enumerate() {
            if let Some(host) = self.ends[end].get_mut(usize::from(place)) {
                host.flows = host.flows.saturating_sub(1);
            }
        }
    }

    /// Among how many flows the quantum of a flow of these hosts is divided ([Cake18 §III-C]).
    pub(super) fn load(&self, places: [u16; 2]) -> u32 {
        let flows = |end: usize| {
            let host = self.ends[end].get(usize::from(places[end]));
            host.map_or(0, |host| host.flows)
        };
        flows(0).max(flows(1)).max(1)
    }
}
