//! A tin: flows in turn, the new ones first, and no more from a host with many flows than from one with few.

use std::collections::VecDeque;

use tidegate_limiter::Nanos;

use super::MTU;
use super::cobalt::Aim;
use super::flows::{Flow, QUEUES, Set, place};
use super::hosts::Hosts;
use crate::SECOND;
use crate::packet::{Packet, PacketId, Packets};
use crate::plan::Isolation;
use crate::random::Random;

/// Bytes that a flow may send in a round, at most and at least.
const MOST_QUANTUM: u64 = MTU;
const LEAST_QUANTUM: u64 = 300;

/// A tin.
#[derive(Debug)]
pub(super) struct Tin {
    aim: Aim,
    /// The rate up to which it is preferred, in bit/s, and when its next packet keeps that rate.
    rate: u64,
    next_at: Nanos,
    quantum: u64,
    flows: Vec<Flow>,
    hosts: Hosts,
    new: VecDeque<u16>,
    old: VecDeque<u16>,
    decaying: VecDeque<u16>,
    /// Flows in sets other than `Decaying`.
    active: usize,
    packets: u64,
    bytes: u64,
}

impl Tin {
    /// An empty tin with this threshold in bit/s (`cake_set_rate`).
    pub(super) fn new(rate: u64, rtt: Nanos, isolation: Isolation) -> Self {
        let frame = MTU.saturating_mul(8 * SECOND) / rate;
        // A twentieth of the round trip; more where a packet takes as long.
        let usual = rtt / 20;
        let target = (frame + frame / 2).max(usual);
        Self {
            aim: Aim {
                target,
                interval: (rtt + target - usual).max(2 * target),
                frame,
            },
            rate,
            next_at: 0,
            quantum: ((rate / 8) >> 12).clamp(LEAST_QUANTUM, MOST_QUANTUM),
            flows: vec![Flow::default(); QUEUES],
            hosts: Hosts::new(isolation),
            new: VecDeque::new(),
            old: VecDeque::new(),
            decaying: VecDeque::new(),
            active: 0,
            packets: 0,
            bytes: 0,
        }
    }

    /// Bytes that a tin takes up at most.
    pub(super) fn memory() -> u64 {
        QUEUES as u64 * size_of::<Flow>() as u64 + Hosts::memory()
    }

    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it has flows to serve.
    pub(super) fn is_active(&self) -> bool {
        self.active > 0
    }

    pub(super) fn next_at(&self) -> Nanos {
        self.next_at
    }

    /// Takes a packet in.
    pub(super) fn offer(
        &mut self,
        now: Nanos,
        id: PacketId,
        ends: [u32; 2],
        packets: &mut Packets,
    ) {
        let packet = packets.get(id);
        let (tag, bytes) = (packet.hash, packet.frame_length());
        if self.packets == 0 {
            self.next_at = self.next_at.max(now);
        }
        let place = place(&self.flows, tag);
        let flow = &mut self.flows[place.queue];
        if place.is_new {
            // Another flow's queue, or an empty one.
            let is_bulk = flow.set == Set::Bulk;
            if is_bulk {
                self.hosts.remove(flow.hosts);
            }
            flow.tag = tag;
            flow.hosts = self.hosts.find(ends);
            if is_bulk {
                self.hosts.add(flow.hosts);
            }
        }
        flow.packets.push(now, id, bytes, packets);
        self.packets += 1;
        self.bytes += bytes;
        match flow.set {
            Set::None | Set::Decaying => {
                if flow.set == Set::Decaying {
                    self.decaying
                        .retain(|&queue| usize::from(queue) != place.queue);
                }
                flow.set = Set::Sparse;
                flow.deficit = (self.quantum / u64::from(self.hosts.load(flow.hosts))) as i64;
                self.active += 1;
                self.new.push_back(place.queue as u16);
            }
            Set::SparseWait => {
                flow.set = Set::Bulk;
                self.hosts.add(flow.hosts);
            }
            Set::Sparse | Set::Bulk => {}
        }
    }

    /// The longest queue and its bytes.
    pub(super) fn longest(&self) -> (usize, u64) {
        let listed = self.new.iter().chain(&self.old);
        let lengths = listed.map(|&queue| {
            let queue = usize::from(queue);
            (queue, self.flows[queue].packets.bytes())
        });
        lengths
            .reduce(|best, one| if one.1 > best.1 { one } else { best })
            .unwrap_or((0, 0))
    }

    /// Drops the first packet of a queue, and returns its bytes.
    pub(super) fn drop_head(&mut self, now: Nanos, queue: usize, packets: &mut Packets) -> u64 {
        let flow = &mut self.flows[queue];
        let Some(id) = flow.packets.pop(packets, Packet::frame_length) else {
            return 0;
        };
        let bytes = packets.get(id).frame_length();
        flow.cobalt.on_full(now, &self.aim);
        packets.drop(id);
        self.packets -= 1;
        self.bytes -= bytes;
        bytes
    }

    /// The packet to be sent, or none if a flow turned out to be empty. The first look of a packet is at the flows that come
    /// to rest.
    pub(super) fn take(
        &mut self,
        now: Nanos,
        first: &mut bool,
        packets: &mut Packets,
        random: &mut Random,
    ) -> Option<PacketId> {
        loop {
            let lists = if std::mem::take(first) {
                [&mut self.decaying, &mut self.new, &mut self.old]
            } else {
                [&mut self.new, &mut self.old, &mut self.decaying]
            };
            let list = lists.into_iter().find(|list| !list.is_empty())?;
            let queue = list.pop_front()?;
            let flow = &mut self.flows[usize::from(queue)];
            if flow.deficit <= 0 {
                if flow.set == Set::Sparse {
                    flow.set = match flow.packets.first() {
                        Some(_) => {
                            self.hosts.add(flow.hosts);
                            Set::Bulk
                        }
                        // It counts as sparse and waits among the others.
                        None => Set::SparseWait,
                    };
                }
                // Rounded at random, so that the rest is not lost.
                let load = u64::from(self.hosts.load(flow.hosts));
                let share = ((self.quantum << 16) / load + u64::from(random.bits() >> 16)) >> 16;
                flow.deficit += share as i64;
                self.old.push_back(queue);
                continue;
            }
            let sent = self.send(now, queue, packets, random);
            if sent.is_none() {
                self.rest(now, queue);
            }
            return sent;
        }
    }

    /// The next packet of a queue that COBALT does not drop. The flow stays at the head of its list.
    fn send(
        &mut self,
        now: Nanos,
        queue: u16,
        packets: &mut Packets,
        random: &mut Random,
    ) -> Option<PacketId> {
        let flow = &mut self.flows[usize::from(queue)];
        loop {
            let Some(id) = flow.packets.pop(packets, Packet::frame_length) else {
                flow.cobalt.on_empty(now, &self.aim);
                return None;
            };
            let packet = packets.get(id);
            let (bytes, waited) = (packet.frame_length(), now - packet.queued);
            self.packets -= 1;
            self.bytes -= bytes;
            let mark = || packets.mark_if_capable(id);
            let drops = flow.cobalt.drops(now, waited, &self.aim, random, mark);
            // The last packet is not dropped.
            if drops && flow.packets.first().is_some() {
                packets.drop(id);
                continue;
            }
            flow.deficit -= bytes as i64;
            match flow.set {
                Set::Sparse => self.new.push_front(queue),
                _ => self.old.push_front(queue),
            }
            // `cake_advance_shaper`.
            let time = bytes.saturating_mul(8 * SECOND) / self.rate;
            self.next_at = if self.next_at < now {
                self.next_at.saturating_add(time)
            } else {
                self.next_at.max(now.saturating_add(time))
            };
            return Some(id);
        }
    }

    /// An empty flow leaves its list, and is forgotten once its state has come to rest.
    fn rest(&mut self, now: Nanos, queue: u16) {
        let flow = &mut self.flows[usize::from(queue)];
        match flow.set {
            Set::Bulk => {
                self.hosts.remove(flow.hosts);
                self.active -= 1;
            }
            Set::Sparse | Set::SparseWait => self.active -= 1,
            Set::None | Set::Decaying => {}
        }
        flow.set = if flow.cobalt.is_at_rest(now) {
            Set::None
        } else {
            self.decaying.push_back(queue);
            Set::Decaying
        };
    }
}
