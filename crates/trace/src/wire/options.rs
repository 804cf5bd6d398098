//! Control bits and options of TCP.

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

    /// Whether any of these bits is set.
    #[inline]
    pub fn has(self, bits: u8) -> bool {
        self.0 & bits != 0
    }
}

/// The selective acknowledgements of one packet (RFC 2018): up to four ranges of received bytes,
/// each from its first sequence number to the one behind its last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sacks {
    blocks: [(u32, u32); 4],
    count: u8,
}

impl Sacks {
    /// The first four of these blocks.
    pub fn new(blocks: &[(u32, u32)]) -> Self {
        let mut sacks = Self::default();
        blocks.iter().for_each(|&block| sacks.push(block));
        sacks
    }

    /// Adds a block, if there is room for it.
    #[inline]
    pub(super) fn push(&mut self, block: (u32, u32)) {
        if let Some(slot) = self.blocks.get_mut(usize::from(self.count)) {
            *slot = block;
            self.count += 1;
        }
    }

    /// The blocks, in the option's order.
    #[inline]
    pub fn blocks(&self) -> &[(u32, u32)] {
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
    /// TSval and TSecr (RFC 7323).
    pub timestamps: Option<(u32, u32)>,
    /// Selective acknowledgements.
    pub sacks: Sacks,
    /// Whether the capture cut the options, so that some may be missing here.
    pub cut: bool,
}
