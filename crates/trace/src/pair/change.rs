//! What the network changed in packets on their way.

use std::collections::BTreeMap;

use super::joined::{ALONE, Joined};
use crate::wire::{Endpoint, Flags};

/// Kinds of changes that are distinguished; more are counted together with the last.
const MOST_KINDS: usize = 1024;
/// The ECN bits of the traffic class, and the mark of congestion (RFC 3168).
const ECN: u8 = 3;

/// What a packet or stream had at the place that it passed first, and at the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change<T> {
    /// At the first place.
    pub before: T,
    /// At the second place.
    pub after: T,
}

/// What differs between packets as the first and the second place saw them. All counts are of packets
/// that both captures hold, in one way.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// Packets that were compared.
    pub packets: u64,
    /// By how much the time to live fell: packets by the difference.
    pub hops: BTreeMap<i16, u64>,
    /// Code points that were changed, with packets.
    pub dscp: BTreeMap<Change<u8>, u64>,
    /// ECN fields that were changed, with packets.
    pub ecn: BTreeMap<Change<u8>, u64>,
    /// The segment size that SYNs offer, with packets.
    pub mss: BTreeMap<Change<Option<u16>>, u64>,
    /// The window scale that SYNs offer.
    pub window_scale: BTreeMap<Change<Option<u8>>, u64>,
    /// Streams whose timestamps one side lacks.
    pub timestamps_removed: u64,
    /// Packets with another IP identification.
    pub identification: u64,
    /// Packets with other payload.
    pub payload: u64,
    /// Endpoints that were translated, with streams.
    pub translated: BTreeMap<Change<Endpoint>, u64>,
}

impl Changes {
    /// The changes of all streams that go one way.
    pub(crate) fn of(joined: &Joined, to_b: bool) -> Self {
        let mut changes = Self::default();
        for shared in joined.shared.iter().filter(|shared| shared.to_b == to_b) {
            changes.stream(joined, shared.pair.a, shared.pair.b, to_b);
            for number in joined.a.range(shared.pair.a) {
                let partner = joined.partner_of_a[number];
                if partner != ALONE {
                    changes.packet(joined, number, partner as usize, to_b);
                }
            }
        }
        changes
    }

    fn stream(&mut self, joined: &Joined, a: u32, b: u32, to_b: bool) {
        let (mut from, mut to) = (&joined.a.streams[a as usize], &joined.b.streams[b as usize]);
        if !to_b {
            std::mem::swap(&mut from, &mut to);
        }
        count_change(&mut self.translated, from.src, to.src);
        count_change(&mut self.translated, from.dst, to.dst);
        self.timestamps_removed += u64::from(from.timestamps != to.timestamps);
        if let (Some(x), Some(y)) = (from.syn, to.syn) {
            count_change(&mut self.mss, x.mss, y.mss);
            count_change(&mut self.window_scale, x.window_scale, y.window_scale);
        }
    }

    fn packet(&mut self, joined: &Joined, a: usize, b: usize, to_b: bool) {
        let (mut from, mut to) = (&joined.a.records[a], &joined.b.records[b]);
        if !to_b {
            std::mem::swap(&mut from, &mut to);
        }
        self.packets += 1;
        count(&mut self.hops, i16::from(from.hops) - i16::from(to.hops));
        count_change(&mut self.dscp, from.class >> 2, to.class >> 2);
        count_change(&mut self.ecn, from.class & ECN, to.class & ECN);
        self.identification += u64::from(from.ip_id != to.ip_id);
        // A SYN may carry data in its options' stead; what both prints are made of is the same.
        let known = from.print != 0 && to.print != 0 && !from.flags.has(Flags::SYN);
        self.payload += u64::from(known && from.print != to.print);
    }

    /// The most frequent fall of the time to live.
    pub fn usual_hops(&self) -> Option<i16> {
        let most = self.hops.iter().max_by_key(|&(_, count)| count);
        most.map(|(&hops, _)| hops)
    }
}

fn count_change<T: Ord>(changes: &mut BTreeMap<Change<T>, u64>, before: T, after: T) {
    if before != after {
        count(changes, Change { before, after });
    }
}

fn count<K: Ord>(counts: &mut BTreeMap<K, u64>, kind: K) {
    if counts.len() < MOST_KINDS || counts.contains_key(&kind) {
        *counts.entry(kind).or_default() += 1;
    } else if let Some(mut last) = counts.last_entry() {
        *last.get_mut() += 1;
    }
}
