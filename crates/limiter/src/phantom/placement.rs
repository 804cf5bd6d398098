//! Which queue a flow has: by its hash if that is free, else any free one; and in a class that is shared by hosts,
//! first which part of the queues its host has.
//!
//! By hash alone, of six busy flows in 16 queues two or more share one in two draws of three. So a queue
//! remembers its flow, as each way of CAKE's set-associative hash does [Høiland-Jørgensen, Täht and Morton,
//! Piece of CAKE, 2018, §3.2]: all queues of a class are one set. An empty queue is free, since a flow that
//! comes back to nothing loses nothing with its queue. If none is free, the flow shares one of the busy
//! queues for a while, then another: nobody meets the same crowd for long. If flows flood the queues, they share
//! one ([`Crowd`]).
//!
//! The parts of a class are given to hosts in the same way: so however many flows a host has, they share its
//! part, as in CAKE's modes that are fair by host first.

use super::crowd::Crowd;
use super::draw::{drawn, fraction};
use crate::{Class, Nanos, PacketMeta};

/// The flows that queues are of.
#[derive(Debug, Clone)]
pub(super) struct Placement<const QUEUES: usize> {
    /// The low half of the flow's hash; the high one chooses the queue that is tried first. Nobody's queue has 0,
    /// as one flow in 65,536 has: it takes such queues for its own, which does no harm.
    owners: [u16; QUEUES],
    /// The same of hosts, at the first queue of a host's part.
    hosts: [u16; QUEUES],
    pub(super) crowd: Crowd,
}

impl<const QUEUES: usize> Placement<QUEUES> {
    pub(super) const NOBODY: Self = Self {
        owners: [0; QUEUES],
        hosts: [0; QUEUES],
        crowd: Crowd::NOBODY,
    };

    /// Whether a packet's flow has the queue that its hash gives, or no choice.
    #[inline(always)]
    pub(super) fn is_at_home(&self, packet: &PacketMeta) -> bool {
        packet.class.queues < 2 || self.owners[usize::from(packet.queue)] == packet.flow as u16
    }

    /// The queue of a packet's flow.
    pub(super) fn find(&self, packet: &PacketMeta) -> Option<u16> {
        let class = packet.class;
        let mut queues = class.first..class.first + class.queues;
        queues.find(|&queue| self.owners[usize::from(queue)] == packet.flow as u16)
    }

    /// A queue for a flow that has none. `accepted` is what a queue accepted lately, or `None` if it is empty. Flows that
    /// `flood` share one.
    pub(super) fn place(
        &mut self,
        now: Nanos,
        packet: &PacketMeta,
        accepted: impl Fn(u16) -> Option<u64>,
        flood: bool,
    ) -> u16 {
        if flood {
            self.crowd.advance(now, &accepted);
        }
        let is_free = |queue| accepted(queue).is_none();
        let (mut class, mut home) = (packet.class, packet.queue);
        if class.hosts > 1 {
            class = self.part(now, packet, is_free);
            home = class.first + fraction(packet.flow, class.queues);
        }
        let among = (class.first, class.queues);
        if flood && let Some((queue, own)) = self.crowd.place(now, packet.flow, among, &accepted) {
            let owner = if own { packet.flow as u16 } else { 0 };
            let before = std::mem::replace(&mut self.owners[usize::from(queue)], owner);
            if own {
                self.crowd.see(before);
                self.crowd.forget(queue);
            }
            return queue;
        }
        let end = class.first + class.queues;
        let mut order = (home..end).chain(class.first..home);
        if let Some(free) = order.find(|&queue| is_free(queue)) {
            self.owners[usize::from(free)] = packet.flow as u16;
            self.crowd.forget(free);
            return free;
        }
        class.first + fraction(drawn(packet.flow, now), class.queues)
    }

    /// The queues of the packet's host: those that it has, or else a part in which nothing is. If there is none,
    /// it shares another host's part for a while.
    fn part(&mut self, now: Nanos, packet: &PacketMeta, is_free: impl Fn(u16) -> bool) -> Class {
        let class = packet.class;
        let queues = class.queues / class.hosts;
        let first = |part: u16| class.first + part * queues;
        let of = |part: u16| first(part)..first(part) + queues;
        let home = fraction(packet.host, class.hosts);
        let host = packet.host as u16;
        let has = |part: &u16| self.hosts[usize::from(first(*part))] == host;
        let is_idle = |part: &u16| of(*part).all(&is_free);
        let part = match (0..class.hosts).find(has) {
            Some(part) => part,
            None => match (home..class.hosts).chain(0..home).find(is_idle) {
                Some(part) => {
                    self.hosts[usize::from(first(part))] = host;
                    of(part).for_each(|queue| self.owners[usize::from(queue)] = 0);
                    part
                }
                None => fraction(drawn(packet.host, now), class.hosts),
            },
        };
        Class {
            first: first(part),
            queues,
            hosts: 0,
        }
    }
}
