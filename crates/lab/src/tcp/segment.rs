//! What two connections exchange.

/// A TCP segment. Numbers are 64 bits wide and do not wrap; captures write their lower half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Segment {
    /// Sequence number of the first byte, or of the SYN or FIN.
    pub seq: u64,
    /// Bytes of payload.
    pub payload: u32,
    /// The next byte expected; of meaning unless this is the first SYN.
    pub ack: u64,
    /// Connection request.
    pub syn: bool,
    /// End of data, after the payload.
    pub fin: bool,
    /// Push: the last of what the application wrote.
    pub psh: bool,
    /// Receive window in bytes, not scaled.
    pub window: u32,
    /// Selective acknowledgements, RFC 2018 and (first of them) RFC 2883.
    pub sacks: Sacks,
    /// TSval and TSecr in milliseconds, RFC 7323, if the connection uses them.
    pub timestamps: Option<(u32, u32)>,
    /// Whether its payload, SYN or FIN was sent before. For the record only: nothing on the way or
    /// at the receiver may use it.
    pub again: bool,
}

/// Up to four ranges of selectively acknowledged bytes, the most recent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sacks {
    ranges: [(u64, u64); 4],
    count: u8,
}

impl Sacks {
    /// Adds a range, from its first byte to behind its last; beyond the fourth it is left out.
    pub fn push(&mut self, range: (u64, u64)) {
        if let Some(slot) = self.ranges.get_mut(usize::from(self.count)) {
            *slot = range;
            self.count += 1;
        }
    }

    /// The ranges.
    pub fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges[..usize::from(self.count)]
    }
}
