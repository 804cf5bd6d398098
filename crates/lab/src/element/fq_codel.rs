//! FQ-CoDel, RFC 8290: a queue for each flow, served in turn, each under CoDel.

use std::collections::VecDeque;

use tidegate_limiter::Nanos;

use super::codel::{Aim, Control};
use crate::packet::{Fifo, Packet, PacketId, Packets};

#[cfg(test)]
mod tests;

/// Most packets that are dropped at once when the queue is full: to find the largest queue, all are
/// searched (Linux sch_fq_codel.c, drop_batch_size).
const BATCH: u32 = 64;

/// Flows' queues.
#[derive(Debug, Clone)]
pub struct FqCoDel {
    aim: Aim,
    quantum: i64,
    most_packets: u64,
    packets: u64,
    queues: Vec<Queue>,
    /// Queues that have just become active: served first, for one quantum.
    new: VecDeque<u32>,
    /// The others that may have packets.
    old: VecDeque<u32>,
}

#[derive(Debug, Clone, Default)]
struct Queue {
    packets: Fifo,
    control: Control,
    deficit: i64,
    /// Whether it is in one of the lists.
    listed: bool,
}

impl FqCoDel {
    /// This many empty queues.
    pub fn new(flows: u32, quantum: u32, aim: Aim, packets: u64) -> Self {
        Self {
            aim,
            quantum: i64::from(quantum.max(1)),
            most_packets: packets,
            packets: 0,
            queues: vec![Queue::default(); flows.max(1) as usize],
            new: VecDeque::new(),
            old: VecDeque::new(),
        }
    }

    /// Bytes that this many queues take up.
    pub fn memory(flows: u32) -> u64 {
        u64::from(flows) * size_of::<Queue>() as u64
    }

    /// Takes a packet in. If it is one too many, drops from the longest queue.
    pub fn offer(&mut self, now: Nanos, id: PacketId, packets: &mut Packets) {
        let packet = packets.get(id);
        let (hash, bytes) = (packet.hash, packet.frame_length());
        // The upper half of the product: uniform without a division.
        let number = (u64::from(hash) * self.queues.len() as u64) >> 32;
        let queue = &mut self.queues[number as usize];
        queue.packets.push(now, id, bytes, packets);
        self.packets += 1;
        if !queue.listed {
            queue.listed = true;
            queue.deficit = self.quantum;
            self.new.push_back(number as u32);
        }
        if self.packets > self.most_packets {
            self.drop_from_longest(packets);
        }
    }

    /// From the head, up to half of its bytes, RFC 8290 §4.1 and Linux's batch.
    fn drop_from_longest(&mut self, packets: &mut Packets) {
        // The first of equals, so that the choice is the same everywhere.
        let longest = self.queues.iter_mut().reduce(|longest, queue| {
            if queue.packets.bytes() > longest.packets.bytes() {
                queue
            } else {
                longest
            }
        });
        let Some(queue) = longest else { return };
        let half = queue.packets.bytes() / 2;
        for _ in 0..BATCH {
            let Some(id) = queue.packets.pop(packets, Packet::frame_length) else {
                break;
            };
            packets.drop(id);
            self.packets -= 1;
            if queue.packets.bytes() <= half {
                break;
            }
        }
    }

    /// The next packet to be sent, RFC 8290 §4.2.
    pub fn take(&mut self, now: Nanos, packets: &mut Packets) -> Option<PacketId> {
        loop {
            let (number, is_new) = match (self.new.front(), self.old.front()) {
                (Some(&number), _) => (number, true),
                (None, Some(&number)) => (number, false),
                (None, None) => return None,
            };
            let queue = &mut self.queues[number as usize];
            if queue.deficit <= 0 {
                queue.deficit += self.quantum;
                self.leave(is_new);
                self.old.push_back(number);
                continue;
            }
            let before = queue.packets.packets();
            let id = queue
                .control
                .take(now, &self.aim, &mut queue.packets, packets);
            self.packets -= before - queue.packets.packets();
            if let Some(id) = id {
                queue.deficit -= packets.get(id).frame_length() as i64;
                return Some(id);
            }
            self.leave(is_new);
            // An empty new queue waits for a round among the old ones, or it could starve them.
            if is_new && !self.old.is_empty() {
                self.old.push_back(number);
            } else {
                self.queues[number as usize].listed = false;
            }
        }
    }

    fn leave(&mut self, is_new: bool) {
        if is_new {
            self.new.pop_front();
        } else {
            self.old.pop_front();
        }
    }

    /// Bytes waiting, over all queues.
    pub fn bytes(&self) -> u64 {
        // Only listed queues hold any.
        let listed = self.new.iter().chain(&self.old);
        listed
            .map(|&number| self.queues[number as usize].packets.bytes())
            .sum()
    }
}
