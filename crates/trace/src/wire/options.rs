//! Control bits and options of TCP.

use std::ops::Range;

/// TCP's control bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronises sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Resets the connection.
    pub const RST: u8 = 0x04;
    /// The sender has nothing more to add for now.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number is valid.
    pub const ACK: u8 = 0x10;
    /// An echo of congestion that the receiver was told of, RFC 3168 §6.1.
    pub const ECE: u8 = 0x40;
    /// The sender has reduced its window for such an echo.
    pub const CWR: u8 = 0x80;

    /// Whether any of these bits is set.
    #[inline]
    pub fn has(self, bits: u8) -> bool {
        self.0 & bits != 0
    }
}

/// The timestamps of one packet (RFC 7323).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// TSval: the sender's clock.
    pub value: u32,
    /// TSecr: the latest value that came from the other side.
    pub echo: u32,
}

/// A range of received bytes in a selective acknowledgement (RFC 2018).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SackBlock {
    /// The first sequence number.
    pub start: u32,
    /// The sequence number behind the last.
    pub end: u32,
}

/// The selective acknowledgements of one packet: up to four blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sacks {
    blocks: [SackBlock; 4],
    count: u8,
}

impl Sacks {
    /// The first four of these ranges of sequence numbers.
    pub fn new(ranges: impl IntoIterator<Item = Range<u32>>) -> Self {
        let mut sacks = Self::default();
        for Range { start, end } in ranges {
            sacks.push(SackBlock { start, end });
        }
        sacks
    }

    /// Adds a block, if there is room for it.
    #[inline]
    pub(super) fn push(&mut self, block: SackBlock) {
        if let Some(slot) = self.blocks.get_mut(usize::from(self.count)) {
            *slot = block;
            self.count += 1;
        }
    }

    /// The blocks, in the option's order.
    #[inline]
    pub fn blocks(&self) -> &[SackBlock] {
        &self.blocks[..usize::from(self.count)]
    }
}

/// The TCP options that the annotator uses, as far as the capture kept them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size that the sender of a SYN offers to receive.
    pub mss: Option<u16>,
    /// Window scale of a SYN.
    pub window_scale: Option<u8>,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// Selective acknowledgements.
    pub sacks: Sacks,
    /// Whether the capture cut the options, so that some may be missing here.
    pub cut: bool,
}
