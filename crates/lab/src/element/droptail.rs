//! First in, first out, with bounds.

use tidegate_limiter::Nanos;

use crate::packet::{Fifo, Packet, PacketId, Packets};

#[cfg(test)]
mod tests;

/// A queue that drops packets for which it has no space.
#[derive(Debug, Clone)]
pub struct DropTail {
    most_bytes: u64,
    most_packets: u64,
    queue: Fifo,
}

impl DropTail {
    /// An empty queue with these bounds, if any.
    pub fn new(bytes: Option<u64>, packets: Option<u64>) -> Self {
        Self {
            most_bytes: bytes.unwrap_or(u64::MAX),
            most_packets: packets.unwrap_or(u64::MAX),
            queue: Fifo::default(),
        }
    }

    /// Takes a packet in, or drops it.
    pub fn offer(&mut self, now: Nanos, id: PacketId, packets: &mut Packets) {
        let bytes = packets.get(id).frame_length();
        if self.queue.bytes() + bytes > self.most_bytes || self.queue.packets() >= self.most_packets
        {
            packets.drop(id);
        } else {
            self.queue.push(now, id, bytes, packets);
        }
    }

    /// The next packet to be sent.
    pub fn take(&mut self, packets: &Packets) -> Option<PacketId> {
        self.queue.pop(packets, Packet::frame_length)
    }

    /// The next packet to be sent, which stays.
    #[inline]
    pub fn first(&self) -> Option<PacketId> {
        self.queue.first()
    }

    /// Bytes waiting.
    pub fn bytes(&self) -> u64 {
        self.queue.bytes()
    }
}
