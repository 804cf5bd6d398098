//! CAKE's queue: tins by code point, flows that share by host, COBALT in each queue. As Linux `sch_cake.c`, described in
//! "Piece of CAKE" (Høiland-Jørgensen, Täht, Morton, LANMAN 2018; here Cake18).
//!
//! The link is its shaper. Left out: filters of acknowledgements, overheads of ATM and the like, washing of code points,
//! and the mode for ingress.

use std::sync::Arc;

use tidegate_limiter::{FlowKey, HashKey, Nanos, Rate};

use crate::SECOND;
use crate::packet::wire::{Wire, ends_hashes, hash_key};
use crate::packet::{ETHERNET_HEADER, PacketId, Packets};
use crate::plan::{CakePlan, Tins};
use crate::random::Random;

mod cobalt;
mod flows;
mod hosts;
#[cfg(test)]
mod tests;
mod tin;

use tin::Tin;

/// Longest frame in bytes.
const MTU: u64 = 1500 + ETHERNET_HEADER as u64;
/// Bytes that may wait at least.
const LEAST_LIMIT: u64 = 4 << 20;

/// The hashes of the addresses of a flow's packets: source and destination.
type Ends = [u32; 2];

/// The queue.
#[derive(Debug)]
pub struct Cake {
    tins: Vec<Tin>,
    by_dscp: fn(u8) -> usize,
    limit: u64,
    packets: u64,
    bytes: u64,
    /// Server and client of each flow.
    ends: Box<[Ends]>,
    /// The secret of the hashes.
    secret: HashKey,
    random: Random,
}

impl Cake {
    /// An empty queue before a link of this rate.
    pub fn new(settings: CakePlan, rate: Rate, wires: &Arc<[Wire]>, random: Random) -> Self {
        let bits = rate.bits_per_second().max(1);
        // The share of each tin's threshold, as a shift (`cake_config_diffserv3`, `…4`).
        let (shifts, by_dscp): (&[u32], fn(u8) -> usize) = match settings.tins {
            Tins::BestEffort => (&[0], |_| 0),
            Tins::Diffserv3 => (&[0, 4, 2], diffserv3),
            Tins::Diffserv4 => (&[0, 4, 1, 2], diffserv4),
        };
        let tin = |&shift: &u32| Tin::new((bits >> shift).max(1), settings.rtt, settings.isolation);
        let product = u128::from(bits) * u128::from(settings.rtt) * 4 / u128::from(8 * SECOND);
        let product = u64::try_from(product).unwrap_or(u64::MAX);
        Self {
            tins: shifts.iter().map(tin).collect(),
            by_dscp,
            limit: settings.limit.unwrap_or(product.max(LEAST_LIMIT)),
            packets: 0,
            bytes: 0,
            ends: wires.iter().map(Wire::ends_hashes).collect(),
            secret: wires.first().map_or_else(|| hash_key(0), Wire::hash_key),
            random,
        }
    }

    /// Bytes that the queues of these tins take up.
    pub fn memory(tins: Tins) -> u64 {
        let tins = match tins {
            Tins::BestEffort => 1,
            Tins::Diffserv3 => 3,
            Tins::Diffserv4 => 4,
        };
        tins * Tin::memory()
    }

    /// Takes a packet in (`cake_enqueue`). If there are too many bytes then, drops from the longest queues.
    pub fn offer(&mut self, now: Nanos, id: PacketId, packets: &mut Packets) {
        let ends = self.ends.get(packets.get(id).flow as usize);
        let ends = ends.copied().unwrap_or([0; 2]);
        self.offer_between(now, id, ends, packets);
    }

    /// The same for a packet with these headers, as they are on the way to the client: its hosts are theirs.
    pub fn offer_as(&mut self, now: Nanos, id: PacketId, key: &FlowKey, packets: &mut Packets) {
        self.offer_between(now, id, ends_hashes(key, self.secret), packets);
    }

    fn offer_between(
        &mut self,
        now: Nanos,
        id: PacketId,
        [server, client]: Ends,
        packets: &mut Packets,
    ) {
        let packet = packets.get(id);
        let ends = if packet.forward {
            [server, client]
        } else {
            [client, server]
        };
        let tin = (self.by_dscp)(packet.dscp);
        self.packets += 1;
        self.bytes += packet.frame_length();
        self.tins[tin].offer(now, id, ends, packets);
        while self.bytes > self.limit && self.packets > 1 {
            self.drop_from_longest(now, packets);
        }
    }

    /// The head of the longest queue of all tins (`cake_drop`).
    fn drop_from_longest(&mut self, now: Nanos, packets: &mut Packets) {
        // The first of equals, so that the choice is the same everywhere.
        let all = self.tins.iter().enumerate();
        let longest = all.map(|(index, tin)| (tin.longest(), index));
        let longest = longest.reduce(|best, one| if one.0.1 > best.0.1 { one } else { best });
        if let Some(((queue, _), index)) = longest {
            self.bytes -= self.tins[index].drop_head(now, queue, packets);
            self.packets -= 1;
        }
    }

    /// The next packet to be sent (`cake_dequeue`).
    pub fn take(&mut self, now: Nanos, packets: &mut Packets) -> Option<PacketId> {
        let mut first = true;
        while self.packets > 0 {
            let tin = self.choose(now);
            let tin = &mut self.tins[tin];
            let (packets_before, bytes_before) = (tin.packets(), tin.bytes());
            let taken = tin.take(now, &mut first, packets, &mut self.random);
            self.packets -= packets_before - tin.packets();
            self.bytes -= bytes_before - tin.bytes();
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    /// The highest tin that is below its threshold, or else the one that will be first. It has flows.
    fn choose(&self, now: Nanos) -> usize {
        let (mut best, mut earliest) = (0, Nanos::MAX);
        for (index, tin) in self.tins.iter().enumerate() {
            if tin.is_active() && (tin.next_at() <= now || tin.next_at() <= earliest) {
                (best, earliest) = (index, tin.next_at());
            }
        }
        best
    }

    /// Bytes waiting.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Low priority for CS1 and LE; TOS 4, VA, EF, CS6 and CS7 are sensitive to delay.
fn diffserv3(dscp: u8) -> usize {
    match dscp {
        1 | 8 => 1,
        4 | 44 | 46 | 48 | 56 => 2,
        _ => 0,
    }
}

/// Low priority for CS1 and LE, video, and voice.
fn diffserv4(dscp: u8) -> usize {
    match dscp {
        1 | 8 => 1,
        4 | 16 | 18 | 20 | 22 | 24 | 26 | 28 | 30 | 34 | 36 | 38 => 2,
        32 | 40 | 44 | 46 | 48 | 56 => 3,
        _ => 0,
    }
}
