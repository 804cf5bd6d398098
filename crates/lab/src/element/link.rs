//! A link: one packet after the other, at a rate, from a queue.

mod server;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tidegate_limiter::{FlowKey, Nanos, Rate};

use super::cake::Cake;
use super::codel::{Aim, CoDel};
use super::droptail::DropTail;
use super::dualpi2::DualPi2;
use super::fq_codel::FqCoDel;
use super::pie::Pie;
use super::red::Red;
use crate::capacity::Capacity;
use crate::packet::wire::Wire;
use crate::packet::{PacketId, Packets};
use crate::plan::QueueKind;
use crate::random::Random;
use server::Server;

/// A link and its queue. The packet that is being sent is no longer in the queue.
#[derive(Debug)]
pub struct Link {
    server: Server,
    queue: Queue,
    sending: Option<PacketId>,
    /// When `sending` will have been sent.
    done: Nanos,
}

#[derive(Debug)]
enum Queue {
    DropTail(DropTail),
    CoDel(CoDel),
    Red(Red),
    Pie(Pie),
    FqCoDel(FqCoDel),
    DualPi2(DualPi2),
    Cake(Cake),
}

impl Link {
    /// An idle link; its rate must not be 0.
    pub fn new(rate: Rate, queue: &QueueKind, wires: &Arc<[Wire]>, random: Random) -> Self {
        Self::with(Server::constant(rate), rate, queue, wires, random)
    }

    /// An idle link whose rate varies. Queues that need a rate get the nominal one.
    pub fn varying(
        capacity: &Capacity,
        queue: &QueueKind,
        wires: &Arc<[Wire]>,
        random: Random,
    ) -> Self {
        Self::with(capacity.into(), capacity.nominal(), queue, wires, random)
    }

    fn with(
        server: Server,
        rate: Rate,
        queue: &QueueKind,
        wires: &Arc<[Wire]>,
        random: Random,
    ) -> Self {
        let queue = match *queue {
            QueueKind::DropTail { bytes, packets } => {
                Queue::DropTail(DropTail::new(bytes, packets))
            }
            QueueKind::CoDel {
                target,
                interval,
                packets,
                ecn,
            } => {
                let aim = Aim {
                    target,
                    interval,
                    ecn,
                };
                Queue::CoDel(CoDel::new(aim, packets))
            }
            QueueKind::Red {
                min,
                max,
                probability,
                limit,
                ecn,
            } => {
                let red = Red::new((min, max), probability, limit, ecn, rate, random);
                Queue::Red(red)
            }
            QueueKind::Pie {
                target,
                update,
                packets,
                ecn,
            } => Queue::Pie(Pie::new(target, update, packets, ecn, rate, random)),
            QueueKind::FqCoDel {
                flows,
                quantum,
                target,
                interval,
                packets,
                ecn,
            } => {
                let aim = Aim {
                    target,
                    interval,
                    ecn,
                };
                Queue::FqCoDel(FqCoDel::new(flows, quantum, aim, packets))
            }
            QueueKind::DualPi2 {
                target,
                update,
                threshold,
                packets,
            } => Queue::DualPi2(DualPi2::new(target, update, threshold, packets)),
            QueueKind::Cake(cake) => Queue::Cake(Cake::new(cake, rate, wires, random)),
        };
        Self {
            server,
            queue,
            sending: None,
            done: 0,
        }
    }

    /// Takes a packet in, or drops it.
    pub fn offer(&mut self, now: Nanos, id: PacketId, packets: &mut Packets) {
        match &mut self.queue {
            Queue::DropTail(queue) => {
                // An idle link sends at once, so the packet passes even if the queue has no space.
                if self.sending.is_none() {
                    self.begin(now, id, packets);
                    return;
                }
                queue.offer(now, id, packets);
            }
            Queue::CoDel(queue) => queue.offer(now, id, packets),
            Queue::Red(queue) => queue.offer(now, id, packets),
            Queue::Pie(queue) => queue.offer(now, id, packets),
            Queue::FqCoDel(queue) => queue.offer(now, id, packets),
            Queue::DualPi2(queue) => queue.offer(now, id, packets),
            Queue::Cake(queue) => queue.offer(now, id, packets),
        }
        if self.sending.is_none() {
            self.send_next(now, packets);
        }
    }

    /// The same for a packet with these headers, as they are on the way to the client, for a queue that shares by host.
    pub fn offer_as(&mut self, now: Nanos, id: PacketId, key: &FlowKey, packets: &mut Packets) {
        let Queue::Cake(queue) = &mut self.queue else {
            return self.offer(now, id, packets);
        };
        queue.offer_as(now, id, key, packets);
        if self.sending.is_none() {
            self.send_next(now, packets);
        }
    }

    /// The packet that has been sent by now, if there is one; the next one is begun.
    pub fn poll(&mut self, now: Nanos, packets: &mut Packets) -> Option<PacketId> {
        if self.sending.is_none() || self.done > now {
            return None;
        }
        let sent = self.sending.take();
        self.send_next(now, packets);
        sent
    }

    /// The packet that is being sent.
    #[inline]
    pub fn sending(&self) -> Option<PacketId> {
        self.sending
    }

    /// The packet that will be sent after it, if the queue knows it already.
    #[inline]
    pub fn waiting(&self) -> Option<PacketId> {
        match &self.queue {
            Queue::DropTail(queue) => queue.first(),
            _ => None,
        }
    }

    /// When the packet that is being sent will have been sent.
    #[inline]
    pub fn next_timeout(&self) -> Option<Nanos> {
        self.sending.map(|_| self.done)
    }

    /// Bytes waiting.
    pub fn bytes(&self) -> u64 {
        match &self.queue {
            Queue::DropTail(queue) => queue.bytes(),
            Queue::CoDel(queue) => queue.bytes(),
            Queue::Red(queue) => queue.bytes(),
            Queue::Pie(queue) => queue.bytes(),
            Queue::FqCoDel(queue) => queue.bytes(),
            Queue::DualPi2(queue) => queue.bytes(),
            Queue::Cake(queue) => queue.bytes(),
        }
    }

    fn send_next(&mut self, now: Nanos, packets: &mut Packets) {
        let next = match &mut self.queue {
            Queue::DropTail(queue) => queue.take(packets),
            Queue::CoDel(queue) => queue.take(now, packets),
            Queue::Red(queue) => queue.take(now, packets),
            Queue::Pie(queue) => queue.take(now, packets),
            Queue::FqCoDel(queue) => queue.take(now, packets),
            Queue::DualPi2(queue) => queue.take(now, packets),
            Queue::Cake(queue) => queue.take(now, packets),
        };
        if let Some(id) = next {
            self.begin(now, id, packets);
        }
    }

    fn begin(&mut self, now: Nanos, id: PacketId, packets: &Packets) {
        let bytes = packets.get(id).frame_length();
        self.done = self.server.sent(now, self.done == now, bytes);
        self.sending = Some(id);
    }
}
