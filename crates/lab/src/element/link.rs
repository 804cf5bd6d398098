//! A link: one packet after the other, at a rate, from a queue.

use tidegate_limiter::{Nanos, Rate};

use super::codel::{Aim, CoDel};
use super::droptail::DropTail;
use super::fq_codel::FqCoDel;
use super::pie::Pie;
use super::red::Red;
use crate::packet::{PacketId, Packets};
use crate::plan::QueueKind;
use crate::random::Random;

#[cfg(test)]
mod tests;

/// Bit-nanoseconds of a byte.
const BYTE: u128 = 8_000_000_000;

/// A link and its queue. The packet that is being sent is no longer in the queue.
#[derive(Debug)]
pub struct Link {
    rate: u128,
    queue: Queue,
    sending: Option<PacketId>,
    /// When `sending` will have been sent.
    done: Nanos,
    /// By how much `done` was rounded up, in bit-nanoseconds: the next packet gets this time.
    ahead: u128,
}

#[derive(Debug)]
enum Queue {
    DropTail(DropTail),
    CoDel(CoDel),
    Red(Red),
    Pie(Pie),
    FqCoDel(FqCoDel),
}

impl Link {
    /// An idle link; its rate must not be 0.
    pub fn new(rate: Rate, queue: &QueueKind, random: Random) -> Self {
        let queue = match *queue {
            QueueKind::DropTail { bytes, packets } => {
                Queue::DropTail(DropTail::new(bytes, packets))
            }
            QueueKind::CoDel {
                target,
                interval,
                packets,
            } => Queue::CoDel(CoDel::new(Aim { target, interval }, packets)),
            QueueKind::Red {
                min,
                max,
                probability,
                limit,
            } => Queue::Red(Red::new(min, max, probability, limit, rate, random)),
            QueueKind::Pie {
                target,
                update,
                packets,
            } => Queue::Pie(Pie::new(target, update, packets, rate, random)),
            QueueKind::FqCoDel {
                flows,
                quantum,
                target,
                interval,
                packets,
            } => {
                let aim = Aim { target, interval };
                Queue::FqCoDel(FqCoDel::new(flows, quantum, aim, packets))
            }
        };
        Self {
            rate: u128::from(rate.bits_per_second()),
            queue,
            sending: None,
            done: 0,
            ahead: 0,
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
        }
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
        }
    }

    fn send_next(&mut self, now: Nanos, packets: &mut Packets) {
        let next = match &mut self.queue {
            Queue::DropTail(queue) => queue.take(packets),
            Queue::CoDel(queue) => queue.take(now, packets),
            Queue::Red(queue) => queue.take(now, packets),
            Queue::Pie(queue) => queue.take(now, packets),
            Queue::FqCoDel(queue) => queue.take(now, packets),
        };
        if let Some(id) = next {
            self.begin(now, id, packets);
        }
    }

    fn begin(&mut self, now: Nanos, id: PacketId, packets: &Packets) {
        // Idle until now: nothing to carry over.
        if self.done != now {
            self.ahead = 0;
        }
        let work = u128::from(packets.get(id).frame_length()) * BYTE;
        let time = work.saturating_sub(self.ahead).div_ceil(self.rate);
        self.ahead = self.ahead + time * self.rate - work;
        self.done = now.saturating_add(Nanos::try_from(time).unwrap_or(Nanos::MAX));
        self.sending = Some(id);
    }
}
