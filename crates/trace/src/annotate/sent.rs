//! One data packet that was sent, and what became of it.

use super::brief::Brief;
use crate::read::Nanos;

/// A data packet as it was on the wire (a part of a super-packet where the capture holds those),
/// with what is known of its fate.
///
/// Kept for every packet of a segment until the segment is done, so every byte counts: 56.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    /// When it was sent, as the capture saw it.
    pub at: Nanos,
    /// When its last byte was first acknowledged, cumulatively or selectively; 0: never seen.
    /// Where the bytes were sent more than once, all their transmissions have this time.
    pub acked_at: Nanos,
    /// Its first byte's place in the stream: the sequence number without wrap-around, with an
    /// arbitrary origin for the flow (a transfer's is [`Transfer::origin`](super::Transfer)).
    pub seq: u64,
    /// Bytes of the flow that had been delivered (acknowledged or selectively so) when it was sent.
    pub delivered: u64,
    /// Payload bytes.
    pub len: u32,
    /// Bytes sent and neither acknowledged nor selectively acknowledged, itself included.
    pub in_flight: u32,
    /// The sender's timestamp option, 0 where there is none.
    pub tsval: u32,
    /// How many data packets of this sender before it is the packet that it retransmits. 0: it
    /// retransmits no packet that was captured.
    pub repeats: u32,
    /// How many data packets of this sender after it is the packet that retransmits it. 0: none.
    pub repeated: u32,
    /// Yes-or-no facts.
    pub marks: Marks,
    /// If it is the first packet that echoes a timestamp: how long after that timestamp it passed the
    /// capture. That is the round-trip time between the capture and the sender, with what the sender
    /// waited for something to send.
    pub echo: Brief,
}

impl Sent {
    /// Whether the network lost it, as far as the capture shows: it was retransmitted, and nothing
    /// says that the retransmission was spurious.
    #[inline]
    pub fn lost(&self) -> bool {
        self.repeated != 0 && !self.marks.has(Marks::DELIVERED)
    }

    /// Whether it repeats bytes that were sent before.
    #[inline]
    pub fn is_retransmission(&self) -> bool {
        self.marks.has(Marks::RETRANSMISSION)
    }

    /// Its round-trip time, where it is clear which transmission was acknowledged (Karn's rule,
    /// RFC 6298 §3; the timestamp option gives more, RFC 7323 §4.1).
    #[inline]
    pub fn rtt(&self) -> Option<Nanos> {
        self.marks
            .has(Marks::RTT)
            .then(|| self.acked_at.saturating_sub(self.at))
    }

    /// The stream position behind its last byte.
    #[inline]
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }
}

/// Yes-or-no facts of a [`Sent`] packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks(u16);

impl Marks {
    /// Its bytes had been sent before.
    pub const RETRANSMISSION: u16 = 1;
    /// It fills a gap that the capture (or the path before it) left; not seen before.
    pub const LATE: u16 = 1 << 1;
    /// It was first acknowledged by a selective acknowledgement.
    pub const SACKED: u16 = 1 << 2;
    /// Its acknowledgement time gives a round-trip time.
    pub const RTT: u16 = 1 << 3;
    /// Its retransmission was spurious: a duplicate selective acknowledgement below the cumulative
    /// one, of this packet or a part of it, says so (RFC 2883).
    pub const SPURIOUS_DSACK: u16 = 1 << 4;
    /// As above, but of several packets at once, of bytes above the cumulative acknowledgement,
    /// or of a packet with several spurious retransmissions.
    pub const SPURIOUS_DSACK_OTHER: u16 = 1 << 8;
    /// Its retransmission was spurious: the acknowledgement echoes the first packet's timestamp
    /// (RFC 3522).
    pub const SPURIOUS_TIMESTAMP: u16 = 1 << 5;
    /// Its retransmission was spurious: it had been acknowledged before.
    pub const SPURIOUS_ACKED: u16 = 1 << 6;
    /// Its sender could not send a full segment more: the receive window was used up.
    pub const WINDOW_FULL: u16 = 1 << 7;

    /// Its retransmission was spurious: it was acknowledged sooner than a packet and its acknowledgement
    /// take.
    pub const SPURIOUS_EARLY: u16 = 1 << 10;

    /// Its acknowledgement echoed a congestion mark (ECN) that acknowledgements before had not.
    pub const CONGESTION: u16 = 1 << 11;

    /// It was lost before it came to the capture: its time and its place are between its neighbours'.
    pub const NOT_CAPTURED: u16 = 1 << 9;

    /// It arrived, although it was retransmitted.
    pub const DELIVERED: u16 = Self::SPURIOUS_DSACK
        | Self::SPURIOUS_DSACK_OTHER
        | Self::SPURIOUS_TIMESTAMP
        | Self::SPURIOUS_ACKED
        | Self::SPURIOUS_EARLY;

    /// Whether any of these is set.
    #[inline]
    pub fn has(self, bits: u16) -> bool {
        self.0 & bits != 0
    }

    /// Sets all of these.
    #[inline]
    pub fn set(&mut self, bits: u16) {
        self.0 |= bits;
    }

    /// Those of a packet, or of a retransmission, that was lost before it came to the capture.
    pub(crate) fn not_captured(again: bool) -> Self {
        let again = if again { Self::RETRANSMISSION } else { 0 };
        Self(Self::NOT_CAPTURED | again)
    }

    /// Clears all of these.
    #[inline]
    pub fn clear(&mut self, bits: u16) {
        self.0 &= !bits;
    }
}
