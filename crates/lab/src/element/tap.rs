//! A tap: it shows the packets that pass.

use std::sync::Arc;

use crate::packet::Packet;
use crate::packet::wire::Wire;

/// Makes frames of packets.
#[derive(Debug)]
pub struct Tap {
    snaplen: usize,
    wires: Arc<[Wire]>,
    frame: Vec<u8>,
}

impl Tap {
    /// Shows this many bytes of each frame.
    pub fn new(snaplen: u32, wires: Arc<[Wire]>) -> Self {
        Self {
            snaplen: snaplen as usize,
            wires,
            frame: Vec::new(),
        }
    }

    /// The packet's frame, cut to the tap's length, and its length on the wire.
    pub fn frame(&mut self, packet: &Packet) -> (&[u8], u32) {
        let wire = &self.wires[packet.flow as usize];
        let length = wire.encode(packet, self.snaplen, &mut self.frame);
        (&self.frame, length)
    }
}
