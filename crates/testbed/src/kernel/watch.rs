//! What a capture beside the server would show of a connection: retransmissions and round-trip
//! times, independent of what the sender believes.

use std::collections::VecDeque;

use tidegate_limiter::Nanos;
use tidegate_trace::wire::{Flags, Packet};

#[cfg(test)]
mod tests;

/// A range of data as it was first sent.
#[derive(Debug, Clone, Copy)]
struct Range {
    start: u64,
    end: u64,
    sent: Nanos,
    /// Sent again, so that an acknowledgement may be of either packet: Karn's rule, RFC 6298 §3.
    again: bool,
    sacked: bool,
}

/// A connection as seen beside its server.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The end of the sent data. Sequence numbers are unwrapped to 64 bits. They begin at 2^32, so
    /// that numbers before the first one are above 0.
    top: u64,
    /// Not yet acknowledged cumulatively, in order and without gaps.
    flight: VecDeque<Range>,
}

impl Watch {
    /// The server sent a packet. Returns whether it has data that was sent before.
    pub(super) fn sent(&mut self, packet: &Packet) -> bool {
        if packet.flags.has(Flags::SYN) {
            self.top = (1 << 32) | u64::from(packet.seq.wrapping_add(1));
            return false;
        }
        if packet.payload == 0 || self.top == 0 {
            return false;
        }
        let start = self.unwrap(packet.seq);
        let end = start + u64::from(packet.payload);
        let again = start < self.top;
        if again {
            self.each(start, end, |range| range.again = true);
        }
        if end > self.top {
            self.flight.push_back(Range {
                start: self.top,
                end,
                sent: packet.at,
                again,
                sacked: false,
            });
            self.top = end;
        }
        again
    }

    /// An acknowledgement reached the server. Returns the round-trip time of the latest data that
    /// it is the first to acknowledge and that was sent once, as Linux's congestion controls get
    /// it.
    pub(super) fn acknowledged(&mut self, at: Nanos, packet: &Packet) -> Option<Nanos> {
        if !packet.flags.has(Flags::ACK) || self.top == 0 {
            return None;
        }
        let mut latest = None;
        let mut news = |range: &Range| {
            if !range.again && !range.sacked {
                latest = latest.max(Some(range.sent));
            }
        };
        let ack = self.unwrap(packet.ack);
        while let Some(range) = self.flight.front().filter(|range| range.end <= ack) {
            news(range);
            self.flight.pop_front();
        }
        for block in packet.options.sacks.blocks() {
            let (start, end) = (self.unwrap(block.start), self.unwrap(block.end));
            self.each(start, end, |range| {
                if start <= range.start && range.end <= end {
                    news(range);
                    range.sacked = true;
                }
            });
        }
        latest.map(|sent| at.saturating_sub(sent))
    }

    /// Ranges that overlap this one.
    fn each(&mut self, start: u64, end: u64, mut act: impl FnMut(&mut Range)) {
        let first = self.flight.partition_point(|range| range.end <= start);
        let overlapping = self.flight.range_mut(first..);
        overlapping
            .take_while(|range| range.start < end)
            .for_each(&mut act);
    }

    /// The number nearest to the end of the sent data that has these lowest 32 bits.
    fn unwrap(&self, number: u32) -> u64 {
        let distance = number.wrapping_sub(self.top as u32) as i32;
        self.top.saturating_add_signed(i64::from(distance))
    }
}
