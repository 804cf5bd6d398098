//! Packets on their way, and lists of them.

pub mod wire;

use tidegate_limiter::{Ecn, Nanos, prefetch_between};

use crate::tcp::Segment;

#[cfg(test)]
mod tests;

/// A packet's index in [`Packets`]. It is used again when the packet is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketId(u32);

impl PacketId {
    /// No packet: it marks the end of a list.
    pub const NONE: Self = Self(u32::MAX);

    /// A number below the largest number of packets that were under way at once. It serves as an
    /// index for data that is kept for packets elsewhere.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The end of a list.
const NONE: PacketId = PacketId::NONE;

/// Bytes of the Ethernet header, which links carry and queues count. The frame check sequence is left
/// out, as Linux does.
pub const ETHERNET_HEADER: u32 = 14;

/// The flow of packets that are gone.
const GONE: u32 = u32::MAX;

/// A packet. In memory its first line of 64 bytes has what elements need, the second what its receiver needs.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct Packet {
    /// Index of its flow.
    pub flow: u32,
    /// The number of the flow's connection that it belongs to. Connections of a flow follow each
    /// other.
    pub connection: u32,
    /// Hash of its flow's addresses and ports, the same in both directions.
    pub hash: u32,
    /// Length of the IP packet in bytes.
    pub bytes: u32,
    /// Where its way goes on among the [`Routes`](crate::sim::stages::Routes).
    pub place: u32,
    /// The next packet in its list.
    next: PacketId,
    /// The IPv4 identification that its sender gave it.
    pub ident: u16,
    /// Its differentiated services code point.
    pub dscp: u8,
    /// From server to client.
    pub forward: bool,
    /// When its queue took it in.
    pub queued: Nanos,
    /// Its content. For datagrams, `seq` is the number and `payload` the length.
    pub segment: Segment,
}

impl Packet {
    /// A packet at the start of its path.
    pub fn new(flow: u32, forward: bool, bytes: u32, segment: Segment) -> Self {
        Self {
            flow,
            connection: 0,
            hash: 0,
            bytes,
            place: 0,
            ident: 0,
            dscp: 0,
            forward,
            queued: 0,
            segment,
            next: NONE,
        }
    }

    /// Begins the way of another packet in its place, with the segment that is there.
    #[inline]
    pub fn begin(&mut self, flow: u32, forward: bool, bytes: u32) {
        (self.flow, self.forward, self.bytes) = (flow, forward, bytes);
        (self.queued, self.next) = (0, NONE);
    }

    /// Asks for the memory that elements and its receiver need.
    #[inline]
    pub fn prefetch(&self) {
        prefetch_between(self, &self.segment.sacks);
    }

    /// Its length in bytes on a link and in a link's queue.
    #[inline]
    pub fn frame_length(&self) -> u64 {
        u64::from(self.bytes + ETHERNET_HEADER)
    }

    /// Whether it counts as data sent by the server.
    pub fn is_data(&self) -> bool {
        self.forward && self.segment.payload > 0
    }
}

/// All packets on their way.
#[derive(Debug, Default)]
pub struct Packets {
    slots: Vec<Packet>,
    free: Vec<PacketId>,
    /// Dropped by the element that is being served; the engine counts them and frees them.
    dropped: Vec<PacketId>,
    /// Marked by the element that is being served, while it held them; the engine counts them.
    marked: Vec<PacketId>,
}

impl Packets {
    /// Takes a packet in.
    #[inline]
    pub fn insert(&mut self, packet: Packet) -> PacketId {
        let id = self.reserve();
        *self.get_mut(id) = packet;
        id
    }

    /// A place for a packet, with any content.
    #[inline]
    pub fn reserve(&mut self) -> PacketId {
        if let Some(id) = self.free.pop() {
            return id;
        }
        self.slots
            .push(Packet::new(GONE, false, 0, Segment::default()));
        PacketId(self.slots.len() as u32 - 1)
    }

    /// Marks a packet as dropped. It stays readable until the engine has counted it.
    #[inline]
    pub fn drop(&mut self, id: PacketId) {
        self.dropped.push(id);
    }

    /// One of the packets marked as dropped, in no certain order. The caller frees it.
    #[inline]
    pub fn next_dropped(&mut self) -> Option<PacketId> {
        self.dropped.pop()
    }

    /// Marks a packet that its queue holds: RFC 3168 §5.
    #[inline]
    pub fn mark(&mut self, id: PacketId) {
        let ecn = &mut self.get_mut(id).segment.ecn;
        if *ecn != Ecn::Ce {
            *ecn = Ecn::Ce;
            self.marked.push(id);
        }
    }

    /// Marks a packet whose sender knows ECN. Whether it does: if not, the packet is to be dropped, RFC 3168 §5.
    #[inline]
    pub fn mark_if_capable(&mut self, id: PacketId) -> bool {
        let capable = self.get(id).segment.ecn != Ecn::NotEct;
        if capable {
            self.mark(id);
        }
        capable
    }

    /// One of the packets that were marked, in no certain order.
    #[inline]
    pub fn next_marked(&mut self) -> Option<PacketId> {
        self.marked.pop()
    }

    /// The largest number of packets that were under way at once.
    pub fn most(&self) -> usize {
        self.slots.len()
    }

    /// The number of packets that are under way now.
    pub fn held(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Forgets a packet that has arrived or was dropped.
    #[inline]
    pub fn free(&mut self, id: PacketId) {
        self.get_mut(id).flow = GONE;
        self.free.push(id);
    }

    /// The packets on their way, in no certain order.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.slots.iter().filter(|packet| packet.flow != GONE)
    }

    /// The packet.
    #[inline]
    pub fn get(&self, id: PacketId) -> &Packet {
        &self.slots[id.0 as usize]
    }

    /// The packet behind it in its list.
    #[inline]
    pub fn behind(&self, id: PacketId) -> Option<&Packet> {
        self.slots.get(self.get(id).next.0 as usize)
    }

    /// The packet, to be changed.
    #[inline]
    pub fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.slots[id.0 as usize]
    }
}

/// A first-in-first-out list of packets, linked through the packets, so that a thousand empty lists
/// are small.
#[derive(Debug, Clone)]
pub struct Fifo {
    head: PacketId,
    tail: PacketId,
    packets: u64,
    bytes: u64,
}

impl Default for Fifo {
    fn default() -> Self {
        Self {
            head: NONE,
            tail: NONE,
            packets: 0,
            bytes: 0,
        }
    }
}

impl Fifo {
    /// Adds a packet of this many bytes at the end.
    #[inline]
    pub fn push(&mut self, now: Nanos, id: PacketId, bytes: u64, packets: &mut Packets) {
        let packet = packets.get_mut(id);
        (packet.next, packet.queued) = (NONE, now);
        if self.head == NONE {
            self.head = id;
        } else {
            packets.get_mut(self.tail).next = id;
        }
        self.tail = id;
        self.packets += 1;
        self.bytes += bytes;
    }

    /// Takes the first packet out; `bytes` gives the number of bytes that it counts as.
    #[inline]
    pub fn pop(
        &mut self,
        packets: &Packets,
        bytes: impl FnOnce(&Packet) -> u64,
    ) -> Option<PacketId> {
        let id = self.first()?;
        let packet = packets.get(id);
        self.head = packet.next;
        self.packets -= 1;
        self.bytes -= bytes(packet);
        Some(id)
    }

    /// The first packet.
    #[inline]
    pub fn first(&self) -> Option<PacketId> {
        (self.head != NONE).then_some(self.head)
    }

    /// Number of packets.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Sum of their bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
