//! The data packets of one sender that are still kept, by their number in the flow.

use super::sent::{Marks, Sent};
use crate::read::Nanos;

/// A packet's number among the data packets of its sender, modulo 2^32.
pub(crate) type Number = u32;

/// The kept end of a sender's data packets.
#[derive(Debug, Default)]
pub(crate) struct Log {
    kept: Vec<Sent>,
    /// How many packets stood before the kept ones.
    dropped: u64,
}

impl Log {
    /// The number that the next packet will have, not reduced modulo 2^32.
    pub fn next(&self) -> u64 {
        self.dropped + self.kept.len() as u64
    }

    /// The number of the first kept packet.
    pub fn first(&self) -> u64 {
        self.dropped
    }

    pub fn len(&self) -> usize {
        self.kept.len()
    }

    #[inline]
    pub fn push(&mut self, sent: Sent) -> Number {
        let number = self.next() as Number;
        if self.kept.capacity() == 0 {
            // Most flows are short, and there can be many.
            self.kept.reserve_exact(1);
        }
        self.kept.push(sent);
        number
    }

    /// The number of the first kept packet that was sent then or later, where times do not go back.
    pub fn number_at(&self, at: Nanos) -> u64 {
        self.dropped + self.kept.partition_point(|sent| sent.at < at) as u64
    }

    /// The last one, if it is still kept.
    pub fn last(&self) -> Option<&Sent> {
        self.kept.last()
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, number: Number) -> Option<&mut Sent> {
        let i = number.wrapping_sub(self.dropped as Number) as usize;
        self.kept.get_mut(i)
    }

    /// The packet of that number, if it is still kept.
    #[inline]
    pub fn get(&self, number: Number) -> Option<&Sent> {
        let i = number.wrapping_sub(self.dropped as Number) as usize;
        self.kept.get(i)
    }

    /// The kept packets from one number to before another.
    pub fn range(&self, from: u64, to: u64) -> &[Sent] {
        let index = |n: u64| (n.saturating_sub(self.dropped) as usize).min(self.kept.len());
        &self.kept[index(from).min(index(to))..index(to)]
    }

    /// Forgets the packets before a number.
    pub fn forget(&mut self, before: u64) {
        let n = (before.saturating_sub(self.dropped) as usize).min(self.kept.len());
        self.kept.drain(..n);
        self.dropped += n as u64;
        // A long segment's memory does not outlive it.
        if self.kept.capacity() > 1024 && self.kept.capacity() / 8 > self.kept.len() {
            self.kept.shrink_to(self.kept.len() * 2);
        }
    }

    /// Gives a transmission, and the older ones of the same bytes, the time of their acknowledgement;
    /// `timely`, if that came as soon as it had arrived; `echoed` is the transmission to which an echoed
    /// timestamp has just given its time.
    #[inline]
    pub fn settle(
        &mut self,
        number: Number,
        now: Nanos,
        how: u16,
        timely: bool,
        echoed: Option<Number>,
    ) {
        let Some(sent) = self.get_mut(number) else {
            return;
        };
        if sent.repeats == 0 {
            if sent.acked_at == 0 {
                sent.acked_at = now.max(1);
                // Sent once, and seen when it was: no doubt what was acknowledged.
                let clear = timely
                    && !sent.marks.has(Marks::LATE | Marks::RETRANSMISSION)
                    && sent.repeated == 0;
                sent.marks.set(how | if clear { Marks::RTT } else { 0 });
            }
            return;
        }
        let mut number = number;
        while let Some(sent) = self.get_mut(number) {
            if sent.acked_at == 0 {
                sent.acked_at = now.max(1);
                sent.marks.set(how);
            } else if Some(number) != echoed {
                // Settled before, and so is all behind it: nothing is walked twice.
                return;
            }
            if sent.repeats == 0 {
                return;
            }
            number = number.wrapping_sub(sent.repeats);
        }
    }
}
