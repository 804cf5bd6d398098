//! Limiters of other programs, as elements that packets pass.

use tidegate_limiter::{Decision, Ecn, Nanos, PacketMeta, Police};

use crate::packet::{Packet, PacketId, Packets};
use crate::plan::CustomLimiter;

/// A limiter that the lab does not know.
#[derive(Debug)]
pub struct Custom {
    limiter: Box<dyn Police + Send>,
    overhead: u32,
}

impl Custom {
    /// The limiter, before its first packet. It charges `overhead` bytes in addition to each IP
    /// packet.
    pub fn new(limiter: &CustomLimiter, overhead: u32) -> Self {
        Self {
            limiter: limiter.make(),
            overhead,
        }
    }

    /// The bytes that it adds to the length of an IP packet.
    pub fn overhead(&self) -> u32 {
        self.overhead
    }

    /// A packet comes. It is returned unless it is dropped.
    pub fn offer(&mut self, now: Nanos, id: PacketId, packets: &mut Packets) -> Option<PacketId> {
        let packet: &mut Packet = packets.get_mut(id);
        let meta = PacketMeta {
            bytes: packet.bytes + self.overhead,
            queue: 0,
            dscp: packet.dscp,
            ecn: packet.segment.ecn,
            flow: packet.hash,
            ..PacketMeta::default()
        };
        match self.limiter.offer(now, &meta) {
            Decision::Pass => Some(id),
            Decision::Mark(dscp) => {
                packet.dscp = dscp;
                Some(id)
            }
            Decision::Ce => {
                packet.segment.ecn = Ecn::Ce;
                Some(id)
            }
            Decision::Drop => {
                packets.drop(id);
                None
            }
        }
    }
}
