//! The segments that two connections exchange.

#[cfg(test)]
mod tests;

use std::ops::Range;

use tidegate_limiter::Ecn;
use tidegate_trace::wire::Timestamps;

/// A TCP segment. Numbers are 64 bits wide and do not wrap; captures write their lower half.
///
/// What the network needs is first in memory, and what few segments have is last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Segment {
    /// Sequence number of the first byte, or of the SYN or FIN.
    pub seq: u64,
    /// The next byte expected. It has no meaning in the first SYN.
    pub ack: u64,
    /// Bytes of payload.
    pub payload: u32,
    /// The ECN field of its IP header, which the network may change.
    pub ecn: Ecn,
    /// Connection request.
    pub syn: bool,
    /// End of data, after the payload.
    pub fin: bool,
    /// Push: the last segment of a burst, or of what the application wrote.
    pub psh: bool,
    /// Receive window in bytes, not scaled.
    pub window: u32,
    /// Timestamps in milliseconds, if the connection uses them.
    pub timestamps: Option<Timestamps>,
    /// Congestion echo, RFC 3168 §6.1.3.
    pub ece: bool,
    /// Congestion window reduced, RFC 3168 §6.1.2.
    pub cwr: bool,
    /// Accurate ECN: with `cwr` and `ece` a counter of three bits, RFC 9768 §3.2.
    pub ae: bool,
    /// Whether its payload, SYN or FIN was sent before. This is only for counting: nothing on the
    /// way or at the receiver may use it.
    pub again: bool,
    /// Selective acknowledgements, RFC 2018 and (first of them) RFC 2883.
    pub sacks: Sacks,
}

impl Segment {
    /// Makes it a segment without content. The ranges that it had stay in memory, unused: to write all of it would take
    /// long for each packet.
    #[inline]
    pub(super) fn clear(&mut self) {
        let Self {
            seq,
            ack,
            payload,
            ecn,
            syn,
            fin,
            psh,
            window,
            timestamps,
            ece,
            cwr,
            ae,
            again,
            sacks,
        } = self;
        (*seq, *ack, *payload, *window) = (0, 0, 0, 0);
        (*ecn, *timestamps) = (Ecn::NotEct, None);
        (*syn, *fin, *psh, *again) = (false, false, false, false);
        (*ece, *cwr, *ae) = (false, false, false);
        sacks.count = 0;
    }

    /// Length of the IP packet that carries it in bytes: IPv4 and TCP headers of 20 each, the
    /// options as Linux lays them out (`tcp_options_write`), and the payload.
    ///
    /// Options are padded to words: timestamps take 12 bytes, n selective acknowledgements 4 + 8n.
    /// A SYN has its largest segment size (4), window scale (4) and the permission of selective
    /// acknowledgements, which fits into the padding of timestamps or takes 4 bytes.
    pub fn ip_bytes(&self) -> u32 {
        const HEADERS: u32 = 20 + 20;
        let timestamps = if self.timestamps.is_some() { 12 } else { 0 };
        let options = if self.syn {
            4 + 4 + timestamps.max(4)
        } else {
            let sacks = self.sacks.len() as u32;
            timestamps + if sacks > 0 { 4 + 8 * sacks } else { 0 }
        };
        HEADERS + options + self.payload
    }

    /// The counter of marked packets, RFC 9768 §3.2.2.1.
    pub(super) fn ace(&self) -> u64 {
        u64::from(self.ae) << 2 | u64::from(self.cwr) << 1 | u64::from(self.ece)
    }

    /// Sets the counter.
    pub(super) fn set_ace(&mut self, count: u64) {
        (self.ae, self.cwr, self.ece) = (count & 4 > 0, count & 2 > 0, count & 1 > 0);
    }

    /// The sequence number after it: SYN and FIN count as a byte each.
    pub fn end(&self) -> u64 {
        self.seq
            .saturating_add(u64::from(self.payload))
            .saturating_add(u64::from(self.syn) + u64::from(self.fin))
    }
}

/// Up to four ranges of selectively acknowledged bytes, the most recent first.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Sacks {
    count: u8,
    /// Only `count` of them have a meaning.
    ranges: [(u64, u64); 4],
}

impl PartialEq for Sacks {
    fn eq(&self, other: &Self) -> bool {
        self.ranges().eq(other.ranges())
    }
}

impl Eq for Sacks {}

impl Sacks {
    /// Adds a range of sequence numbers. A fifth one is left out.
    pub fn push(&mut self, range: Range<u64>) {
        if let Some(slot) = self.ranges.get_mut(usize::from(self.count)) {
            *slot = (range.start, range.end);
            self.count += 1;
        }
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The ranges, the most recent first.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = Range<u64>> + Clone + use<> {
        let Self { count, ranges } = *self;
        ranges
            .into_iter()
            .take(count.into())
            .map(|(start, end)| start..end)
    }
}
