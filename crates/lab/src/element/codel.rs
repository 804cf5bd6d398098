//! CoDel, RFC 8289: controls the time that packets spend in the queue.

use tidegate_limiter::Nanos;

use crate::packet::{Fifo, Packet, PacketId, Packets};

#[cfg(test)]
mod tests;

/// In RFC 8289 §5.3 this is the largest packet seen; here, as in Linux, it is a full Ethernet
/// frame.
const MTU: u64 = 1514;

/// The control law over one queue, RFC 8289 §5. In the RFC's names.
#[derive(Debug, Clone, Default)]
pub struct Control {
    /// When the queue will have been above target for an interval; 0 while it is below.
    first_above_time: Nanos,
    drop_next: Nanos,
    count: u32,
    lastcount: u32,
    dropping: bool,
}

/// The goal of the control law.
#[derive(Debug, Clone, Copy)]
pub struct Aim {
    /// Acceptable standing delay.
    pub target: Nanos,
    /// Time in which it must be reached.
    pub interval: Nanos,
    /// Whether packets of senders that know ECN are marked instead, RFC 8289 §5.
    pub ecn: bool,
}

impl Aim {
    /// When to drop after `at`, having dropped `count`: the square root makes the rate of drops
    /// grow so that the rate of a TCP falls linearly, RFC 8289 §3.3.
    fn control_law(&self, at: Nanos, count: u32) -> Nanos {
        // Quotient and square root are exactly specified, so this is the same everywhere.
        at.saturating_add((self.interval as f64 / f64::from(count).sqrt()) as Nanos)
    }
}

impl Control {
    /// The next packet to be sent. If the law says so, it is marked, or packets before it are dropped.
    pub fn take(
        &mut self,
        now: Nanos,
        aim: &Aim,
        queue: &mut Fifo,
        packets: &mut Packets,
    ) -> Option<PacketId> {
        let (mut id, mut ok_to_drop) = self.dodequeue(now, aim, queue, packets)?;
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                if aim.ecn && packets.mark_if_capable(id) {
                    // Only what is dropped makes room for another packet now.
                    self.drop_next = aim.control_law(self.drop_next, self.count);
                    break;
                }
                packets.drop(id);
                (id, ok_to_drop) = self.dodequeue(now, aim, queue, packets)?;
                if ok_to_drop {
                    self.drop_next = aim.control_law(self.drop_next, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok_to_drop {
            let marked = aim.ecn && packets.mark_if_capable(id);
            // This must be done before the drop's successor is looked at, because an empty queue
            // would undo it.
            self.dropping = true;
            // Dropping stopped a short while ago: continue near the rate at which it ended.
            let delta = self.count.saturating_sub(self.lastcount);
            let recently = now.saturating_sub(self.drop_next) < aim.interval.saturating_mul(16);
            self.count = if delta > 1 && recently { delta } else { 1 };
            self.drop_next = aim.control_law(now, self.count);
            self.lastcount = self.count;
            if marked {
                return Some(id);
            }
            packets.drop(id);
            (id, _) = self.dodequeue(now, aim, queue, packets)?;
        }
        Some(id)
    }

    /// The first packet, and whether the queue has been above target for an interval.
    fn dodequeue(
        &mut self,
        now: Nanos,
        aim: &Aim,
        queue: &mut Fifo,
        packets: &Packets,
    ) -> Option<(PacketId, bool)> {
        let Some(id) = queue.pop(packets, Packet::frame_length) else {
            self.first_above_time = 0;
            self.dropping = false;
            return None;
        };
        let sojourn = now - packets.get(id).queued;
        if sojourn < aim.target || queue.bytes() <= MTU {
            self.first_above_time = 0;
            return Some((id, false));
        }
        if self.first_above_time == 0 {
            self.first_above_time = now.saturating_add(aim.interval);
            return Some((id, false));
        }
        Some((id, now >= self.first_above_time))
    }
}

/// A queue under that law.
#[derive(Debug, Clone)]
pub struct CoDel {
    aim: Aim,
    most_packets: u64,
    control: Control,
    queue: Fifo,
}

impl CoDel {
    /// An empty queue.
    pub fn new(aim: Aim, packets: u64) -> Self {
        Self {
            aim,
            most_packets: packets,
            control: Control::default(),
            queue: Fifo::default(),
        }
    }

    /// Takes a packet in, or drops it if the queue is full.
    pub fn offer(&mut self, now: Nanos, id: PacketId, packets: &mut Packets) {
        if self.queue.packets() >= self.most_packets {
            packets.drop(id);
        } else {
            let bytes = packets.get(id).frame_length();
            self.queue.push(now, id, bytes, packets);
        }
    }

    /// The next packet to be sent.
    pub fn take(&mut self, now: Nanos, packets: &mut Packets) -> Option<PacketId> {
        self.control.take(now, &self.aim, &mut self.queue, packets)
    }

    /// Bytes waiting.
    pub fn bytes(&self) -> u64 {
        self.queue.bytes()
    }
}
