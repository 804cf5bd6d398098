//! Packets far ahead of their stream, which wait until another one confirms them.
//!
//! A damaged or forged packet would move the end of its stream, and all that comes after it would be taken for retransmissions. After
//! a hole in the capture, the next packet continues from there, or an acknowledgement reaches it.

use super::{Flow, Measurer, Settings};
use crate::annotate::sender::Sender;
use crate::flow::sink::FlowSink;
use crate::wire::{Flags, Packet};

/// Bytes by which a packet may be ahead without a doubt.
const FAR: u64 = 1 << 20;
/// The memory of a packet that waits, in packets.
const HELD_WEIGHT: usize = 2;

/// What waits in both directions of a flow.
#[derive(Debug, Default)]
pub(super) struct Strays {
    /// The last packet of each side that was far ahead.
    held: [Option<Box<Packet>>; 2],
    /// The last acknowledgement of each side's data that was far ahead.
    acked: [Option<u32>; 2],
}

impl Strays {
    /// What is kept, in packets.
    pub fn kept(&self) -> usize {
        self.held.iter().flatten().count() * HELD_WEIGHT
    }

    /// Whether a packet acknowledges bytes of `other`, which the other side sent. An acknowledgement far ahead is believed once another one
    /// is where it is.
    #[inline]
    pub fn acknowledges(&mut self, packet: &Packet, side: usize, other: &Sender) -> bool {
        if !packet.flags.has(Flags::ACK) {
            return false;
        }
        if !is_far(other, packet.ack) {
            return true;
        }
        let before = self.acked[1 - side].replace(packet.ack);
        before.is_some_and(|before| is_near(before, packet.ack))
    }
}

/// Whether a sequence number is far ahead of what a side is known to have sent.
#[inline]
fn is_far(sender: &Sender, number: u32) -> bool {
    sender.max() != 0 && sender.position(number) > sender.max() + FAR
}

fn is_near(one: u32, other: u32) -> bool {
    let apart = one.wrapping_sub(other) as i32;
    u64::from(apart.unsigned_abs()) <= FAR
}

impl Flow {
    /// Takes the flow's next packet, unless it is a copy, a piece of an earlier one, or a stray one. Of a capture of all interfaces,
    /// with that on which it was seen.
    #[inline]
    pub fn packet(
        &mut self,
        packet: &Packet,
        interface: Option<u32>,
        settings: &Settings,
        measurer: &mut Measurer,
        sink: &mut impl FlowSink,
    ) {
        self.last = self.last.max(packet.at);
        let side = self.side(packet);
        let recent = &mut self.recent[side];
        if recent.is_copy(packet) || interface.is_some_and(|on| recent.is_piece(packet, on)) {
            if let Some(segment) = self.segments.back_mut() {
                segment.sides[side].tally.duplicates += 1;
            }
            return;
        }
        let sends = packet.payload > 0 || packet.flags.has(Flags::FIN);
        if sends && is_far(&self.senders[side], packet.seq) {
            let near = |held: &mut Box<Packet>| is_near(held.seq, packet.seq);
            let Some(before) = self.strays.held[side].take_if(near) else {
                self.forget_stray(side);
                self.strays.held[side] = Some(Box::new(*packet));
                return;
            };
            self.take(&before, side, settings, measurer, sink);
        }
        let reached = |held: &mut Box<Packet>| {
            let behind = packet.ack.wrapping_sub(held.seq) as i32;
            packet.flags.has(Flags::ACK) && behind > 0 && is_near(packet.ack, held.seq)
        };
        if let Some(held) = self.strays.held[1 - side].take_if(reached) {
            self.take(&held, 1 - side, settings, measurer, sink);
        }
        self.take(packet, side, settings, measurer, sink);
    }

    /// Nothing will confirm the packet that waits.
    pub(super) fn forget_stray(&mut self, side: usize) {
        let stray = self.strays.held[side].take();
        if let Some(segment) = self.segments.back_mut() {
            segment.sides[side].tally.strays += u64::from(stray.is_some());
        }
    }
}
