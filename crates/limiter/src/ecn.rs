//! Explicit congestion notification.

/// The ECN field of an IP header, RFC 3168 §5 and RFC 9331 §2. The numbers are those on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Ecn {
    /// The sender does not understand marks.
    #[default]
    NotEct = 0,
    /// ECT(1): the sender wants marks early, and answers to each of them a little (L4S).
    Ect1 = 1,
    /// ECT(0): the sender answers to a mark as to a loss.
    Ect0 = 2,
    /// Congestion experienced: the packet was marked.
    Ce = 3,
}

impl Ecn {
    /// Of an IPv4 header's second byte, or of an IPv6 header's traffic class.
    #[inline]
    pub const fn of(class: u8) -> Self {
        match class & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Whether the packet may be marked instead of dropped.
    #[inline]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}
