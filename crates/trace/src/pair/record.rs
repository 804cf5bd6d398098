//! What is kept of a packet to compare it with another capture's.

use crate::read::{Frame, Nanos};
use crate::wire::{Flags, Marking, Packet};

/// A packet of one capture: a wire packet, once super-packets are [split](Self::pieces).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Record {
    pub at: Nanos,
    /// The direction of a connection that it belongs to: an index into the capture's streams.
    pub stream: u32,
    pub seq: u32,
    pub ack: u32,
    /// Payload bytes.
    pub payload: u32,
    /// TSval; 0 where there is none.
    pub tsval: u32,
    /// The window field.
    pub window: u16,
    /// A hash of the echo and the newest block of selective acknowledgements, by which repeated
    /// acknowledgements differ.
    pub says: u32,
    /// The print of its payload; 0 where none is known.
    pub print: u32,
    pub ip_id: u16,
    /// Bytes of the IP and TCP headers.
    pub headers: u16,
    /// Bytes around the IP packet.
    pub framing: u16,
    pub flags: Flags,
    pub hops: u8,
    pub class: u8,
    /// Whether the capture holds it twice.
    pub copy: bool,
    /// Whether it reports bytes that arrived twice (RFC 2883).
    pub dsack: bool,
}

impl Record {
    pub fn new(packet: &Packet, frame: &Frame<'_>, stream: u32, copy: bool) -> Self {
        let marking = Marking::of(frame).ok();
        let times = packet.options.timestamps.unwrap_or_default();
        let (tsval, tsecr) = (times.value, times.echo);
        Self {
            at: packet.at,
            stream,
            seq: packet.seq,
            ack: packet.ack,
            payload: packet.payload,
            tsval,
            window: packet.window,
            says: says(packet, tsecr),
            print: marking.map_or(0, |marking| marking.print),
            ip_id: packet.ip_id,
            headers: packet.headers,
            framing: packet.framing,
            flags: packet.flags,
            hops: marking.map_or(0, |marking| marking.hops),
            class: marking.map_or(0, |marking| marking.class),
            copy,
            dsack: reports_duplicate(packet),
        }
    }

    /// Bytes on the link.
    pub fn link_bytes(&self) -> u32 {
        self.ip_bytes() + u32::from(self.framing)
    }

    /// Bytes of the IP packet.
    pub fn ip_bytes(&self) -> u32 {
        self.payload + u32::from(self.headers)
    }

    /// Sequence numbers that it takes.
    pub fn sequence_len(&self) -> u32 {
        let counted = self.flags.has(Flags::SYN) as u32 + self.flags.has(Flags::FIN) as u32;
        self.payload + counted
    }

    /// The wire packets with payloads of at most `size` bytes that a super-packet stands for.
    pub fn pieces(self, size: u32) -> impl Iterator<Item = Self> {
        let size = size.max(1);
        let count = self.payload.div_ceil(size).max(1);
        (0..count).map(move |i| {
            if count == 1 {
                return self;
            }
            let last = i + 1 == count;
            let flags = if last {
                self.flags
            } else {
                Flags(self.flags.0 & !(Flags::FIN | Flags::PSH))
            };
            Self {
                seq: self.seq.wrapping_add(i * size),
                payload: size.min(self.payload - i * size),
                // As network cards and Linux number the packets that they cut.
                ip_id: match self.ip_id {
                    0 => 0,
                    id => id.wrapping_add(i as u16),
                },
                print: if i == 0 { self.print } else { 0 },
                flags,
                ..self
            }
        })
    }
}

/// What the options of an acknowledgement say: the echo and the newest block.
fn says(packet: &Packet, tsecr: u32) -> u32 {
    let block = packet.options.sacks.blocks().first();
    let block = block.copied().unwrap_or_default();
    [tsecr, block.start, block.end]
        .into_iter()
        .fold(0, |hash: u32, word| {
            (hash ^ word).wrapping_mul(0x9e37_79b1).rotate_left(13)
        })
}

/// Whether its first block lies below what it acknowledges, RFC 2883 §4.
fn reports_duplicate(packet: &Packet) -> bool {
    let first = packet.options.sacks.blocks().first();
    first.is_some_and(|block| (packet.ack.wrapping_sub(block.end) as i32) >= 0)
}
