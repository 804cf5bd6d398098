//! Segments that were sent and are not acknowledged, with the marks of Linux's retransmission queue
//! (`TCPCB_SACKED_ACKED`, `TCPCB_LOST`, `TCPCB_SACKED_RETRANS`, `TCPCB_EVER_RETRANS`).
//!
//! Segments have numbers that grow by one, so each is found at once from its number, and by binary
//! search from a sequence number. Those that time decides about are linked in the order of sending,
//! because RACK needs this order (Linux `tsorted_sent_queue`).

use std::collections::VecDeque;

use tidegate_limiter::{Nanos, prefetch_all};

use super::Outstanding;
use super::rate::Snapshot;

#[cfg(test)]
mod tests;

/// No segment.
const NONE: u64 = u64::MAX;

/// A segment on its way.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    /// Its first byte.
    pub(super) seq: u64,
    /// Bytes of payload.
    pub(super) payload: u32,
    /// Whether it ends the data.
    pub(super) fin: bool,
    /// Whether it ends a burst, or what the application wrote.
    pub(super) psh: bool,
    /// When it was last sent.
    pub(super) sent_at: Nanos,
    /// Grows with every segment sent. Linux compares times of sending, and sequence numbers if the
    /// times are equal. In virtual time many segments are sent at one time; in Linux they differ by
    /// microseconds.
    pub(super) order: u64,
    /// The delivery counters at that time; `None` once it is delivered.
    pub(super) snapshot: Option<Snapshot>,
    /// Selectively acknowledged.
    pub(super) sacked: bool,
    /// Marked lost.
    pub(super) lost: bool,
    /// A retransmission is in flight.
    pub(super) again: bool,
    /// It was retransmitted at some time.
    pub(super) ever_again: bool,
    linked: bool,
    older: u64,
    newer: u64,
}

impl Sent {
    pub(super) fn new(
        seq: u64,
        payload: u32,
        fin: bool,
        psh: bool,
        at: Nanos,
        snapshot: Snapshot,
    ) -> Self {
        Self {
            seq,
            payload,
            fin,
            psh,
            sent_at: at,
            order: 0,
            snapshot: Some(snapshot),
            sacked: false,
            lost: false,
            again: false,
            ever_again: false,
            linked: false,
            older: NONE,
            newer: NONE,
        }
    }

    /// The byte after it.
    pub(super) fn end(&self) -> u64 {
        self.seq + u64::from(self.payload) + u64::from(self.fin)
    }
}

/// Segments sent and not acknowledged cumulatively.
#[derive(Debug, Clone)]
pub(super) struct Scoreboard {
    sent: VecDeque<Sent>,
    /// Number of the first segment.
    base: u64,
    oldest: u64,
    newest: u64,
    /// Segments ever sent.
    order: u64,
    /// Selectively acknowledged. Without SACK, the counted duplicates.
    pub(super) sacked_out: u32,
    /// Marked lost.
    pub(super) lost_out: u32,
    /// Retransmissions in flight.
    pub(super) retrans_out: u32,
    /// Marked lost and not retransmitted since.
    to_resend: u32,
    /// No segment before this one must be retransmitted.
    resend_from: u64,
    /// Number of the highest selectively acknowledged.
    highest_sacked: Option<u64>,
}

impl Scoreboard {
    pub(super) fn new() -> Self {
        Self {
            sent: VecDeque::new(),
            base: 0,
            oldest: NONE,
            newest: NONE,
            order: 0,
            sacked_out: 0,
            lost_out: 0,
            retrans_out: 0,
            to_resend: 0,
            resend_from: 0,
            highest_sacked: None,
        }
    }

    /// Asks for the memory of the first segments and of the last one.
    #[inline]
    pub(super) fn prefetch(&self) {
        let ends = [self.sent.front(), self.sent.get(1), self.sent.back()];
        ends.into_iter().flatten().for_each(prefetch_all);
    }

    /// Segments not acknowledged cumulatively (`packets_out`).
    pub(super) fn out(&self) -> u32 {
        self.sent.len() as u32
    }

    /// Segments that count as in flight: RFC 6675's pipe, Linux `tcp_packets_in_flight`.
    pub(super) fn in_flight(&self) -> u32 {
        (self.out() + self.retrans_out).saturating_sub(self.sacked_out + self.lost_out)
    }

    /// The counts of segments that are not acknowledged cumulatively.
    pub(super) fn outstanding(&self) -> Outstanding {
        Outstanding {
            unacked: self.out(),
            sacked: self.sacked_out,
            lost: self.lost_out,
            retransmitted: self.retrans_out,
            ..Outstanding::default()
        }
    }

    /// The order of the last transmission.
    pub(super) fn newest_order(&self) -> u64 {
        self.order
    }

    /// Number of the first segment.
    pub(super) fn first(&self) -> u64 {
        self.base
    }

    /// The number after the last segment.
    pub(super) fn behind(&self) -> u64 {
        self.base + self.sent.len() as u64
    }

    /// The first segment.
    pub(super) fn front(&self) -> Option<&Sent> {
        self.sent.front()
    }

    /// A segment by its number.
    pub(super) fn get(&self, number: u64) -> Option<&Sent> {
        self.sent
            .get(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Sent> {
        let index = number.checked_sub(self.base)?;
        self.sent.get_mut(usize::try_from(index).ok()?)
    }

    /// Number of the first segment that ends after `seq`.
    pub(super) fn number_at(&self, seq: u64) -> u64 {
        // Most segments are as long as the first, so a division is a good first guess.
        if let Some(front) = self.sent.front() {
            let length = u64::from(front.payload.max(1));
            let guess = (seq.saturating_sub(front.seq) / length) as usize;
            let found = self.sent.get(guess);
            if found.is_some_and(|sent| sent.seq <= seq && seq < sent.end()) {
                return self.base + guess as u64;
            }
        }
        self.base + self.sent.partition_point(|sent| sent.end() <= seq) as u64
    }

    /// The byte after the highest selectively acknowledged one, if there is one.
    pub(super) fn highest_sacked_end(&self) -> Option<u64> {
        self.highest_sacked
            .and_then(|number| self.get(number))
            .filter(|_| self.sacked_out > 0)
            .map(Sent::end)
    }

    /// Number of the highest selectively acknowledged.
    pub(super) fn highest_sacked(&self) -> Option<u64> {
        self.highest_sacked.filter(|&number| number >= self.base)
    }

    /// Adds a segment that was just sent.
    pub(super) fn push(&mut self, mut segment: Sent) {
        let number = self.behind();
        self.order += 1;
        segment.order = self.order;
        self.sent.push_back(segment);
        self.link(number);
    }

    /// Removes the first segment, if it ends at or before `una`.
    pub(super) fn pop_acked(&mut self, una: u64, sack: bool) -> Option<Sent> {
        if self.sent.front()?.end() > una {
            return None;
        }
        self.unlink(self.base);
        let sent = self.sent.pop_front()?;
        self.base += 1;
        self.retrans_out -= u32::from(sent.again);
        self.lost_out -= u32::from(sent.lost);
        self.to_resend -= u32::from(sent.lost && !sent.again);
        // Without SACK the count is the number of duplicates, and is corrected where they are
        // counted.
        self.sacked_out -= u32::from(sack && sent.sacked);
        Some(sent)
    }

    /// Marks a segment selectively acknowledged, so it is no longer lost. A retransmission of a
    /// segment that was not marked lost stays counted as in flight.
    pub(super) fn mark_sacked(&mut self, number: u64) {
        let Some(sent) = self.get_mut(number).filter(|sent| !sent.sacked) else {
            return;
        };
        let (lost, again) = (sent.lost, sent.again);
        sent.sacked = true;
        sent.lost = false;
        sent.again = again && !lost;
        self.sacked_out += 1;
        self.lost_out -= u32::from(lost);
        self.retrans_out -= u32::from(lost && again);
        self.to_resend -= u32::from(lost && !again);
        self.highest_sacked = self.highest_sacked.max(Some(number));
        self.unlink(number);
    }

    /// Takes the counters' snapshot of a segment, once.
    pub(super) fn take_snapshot(&mut self, number: u64) -> Option<Snapshot> {
        self.get_mut(number)?.snapshot.take()
    }

    /// A duplicate was reported for a segment whose retransmission is in flight: the retransmission
    /// has arrived.
    pub(super) fn forget_retransmission(&mut self, number: u64) {
        if let Some(sent) = self.get_mut(number).filter(|sent| sent.again) {
            sent.again = false;
            let lost = sent.lost;
            self.retrans_out -= 1;
            if lost {
                self.to_resend += 1;
                self.resend_from = self.resend_from.min(number);
                self.unlink(number);
            }
        }
    }

    /// Marks a segment lost, or its retransmission lost again; returns whether it was not marked before.
    pub(super) fn mark_lost(&mut self, number: u64) -> bool {
        let Some(sent) = self.get_mut(number).filter(|sent| !sent.sacked) else {
            return false;
        };
        let (lost, again) = (sent.lost, sent.again);
        match (lost, again) {
            (true, false) => return false,
            (true, true) => {
                sent.again = false;
                self.retrans_out -= 1;
                self.to_resend += 1;
            }
            (false, _) => {
                sent.lost = true;
                self.lost_out += 1;
                self.to_resend += u32::from(!again);
            }
        }
        if lost || !again {
            self.unlink(number);
        }
        self.resend_from = self.resend_from.min(number);
        true
    }

    /// Number of the first segment lost and not retransmitted since.
    pub(super) fn next_to_resend(&mut self) -> Option<u64> {
        if self.to_resend == 0 {
            self.resend_from = self.behind();
            return None;
        }
        let mut number = self.resend_from.max(self.base);
        while let Some(sent) = self.get(number) {
            if sent.lost && !sent.again {
                self.resend_from = number;
                return Some(number);
            }
            number += 1;
        }
        None
    }

    /// A segment is sent again. `counted` unless it is a probe, which is not in the counts.
    pub(super) fn on_resent(&mut self, number: u64, now: Nanos, snapshot: Snapshot, counted: bool) {
        self.order += 1;
        let order = self.order;
        let Some(sent) = self.get_mut(number) else {
            return;
        };
        sent.sent_at = now;
        sent.order = order;
        sent.ever_again = true;
        sent.snapshot = Some(snapshot);
        let (lost, again, sacked) = (sent.lost, sent.again, sent.sacked);
        if counted && !again {
            sent.again = true;
            self.retrans_out += 1;
            self.to_resend -= u32::from(lost);
        }
        self.unlink(number);
        if !sacked && (!lost || again || counted) {
            self.link(number);
        }
    }

    /// Removes the mark from all lost segments, because it was an error.
    pub(super) fn unmark_lost(&mut self) {
        let mut found = false;
        for sent in &mut self.sent {
            found |= sent.lost;
            sent.lost = false;
        }
        self.lost_out = 0;
        self.to_resend = 0;
        if found {
            self.relink();
        }
    }

    /// Forgets all selective acknowledgements, because the receiver withdrew them, RFC 2018 §8.
    pub(super) fn forget_sacked(&mut self) {
        for sent in &mut self.sent {
            sent.sacked = false;
        }
        self.sacked_out = 0;
        self.highest_sacked = None;
        self.relink();
    }

    /// Number of the segment that was sent longest ago and that time decides about.
    pub(super) fn oldest(&self) -> Option<u64> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Number of the one sent after it.
    pub(super) fn newer(&self, number: u64) -> Option<u64> {
        self.get(number)
            .map(|sent| sent.newer)
            .filter(|&newer| newer != NONE)
    }

    fn link(&mut self, number: u64) {
        let newest = self.newest;
        if let Some(sent) = self.get_mut(number) {
            sent.linked = true;
            sent.older = newest;
            sent.newer = NONE;
        }
        match self.get_mut(newest) {
            Some(last) => last.newer = number,
            None => self.oldest = number,
        }
        self.newest = number;
    }

    fn unlink(&mut self, number: u64) {
        let Some(sent) = self.get_mut(number).filter(|sent| sent.linked) else {
            return;
        };
        sent.linked = false;
        let (older, newer) = (sent.older, sent.newer);
        match self.get_mut(older) {
            Some(sent) => sent.newer = newer,
            None => self.oldest = newer,
        }
        match self.get_mut(newer) {
            Some(sent) => sent.older = older,
            None => self.newest = older,
        }
    }

    /// Rebuilds the list of all segments that time decides about.
    fn relink(&mut self) {
        let mut order: Vec<(u64, u64)> = Vec::new();
        for (index, sent) in self.sent.iter_mut().enumerate() {
            sent.linked = false;
            if !sent.sacked && (!sent.lost || sent.again) {
                order.push((sent.order, self.base + index as u64));
            }
        }
        order.sort_unstable();
        self.oldest = NONE;
        self.newest = NONE;
        for (_, number) in order {
            self.link(number);
        }
    }

    /// Compares every count with the marks, for tests.
    #[cfg(test)]
    pub(super) fn check(&self, sack: bool) {
        let count =
            |mark: fn(&Sent) -> bool| self.sent.iter().filter(|sent| mark(sent)).count() as u32;
        if sack {
            assert_eq!(self.sacked_out, count(|sent| sent.sacked));
            assert_eq!(
                self.in_flight(),
                self.out() - self.sacked_out - self.lost_out + self.retrans_out
            );
        }
        assert_eq!(self.lost_out, count(|sent| sent.lost));
        assert_eq!(self.retrans_out, count(|sent| sent.again));
        assert_eq!(self.to_resend, count(|sent| sent.lost && !sent.again));
        assert_eq!(count(|sent| sent.lost && sent.sacked), 0);
        let first = self.sent.iter().position(|sent| sent.lost && !sent.again);
        assert!(first.is_none_or(|index| self.resend_from <= self.base + index as u64));
        let mut linked = 0;
        let mut before = 0;
        let mut next = self.oldest();
        while let Some(number) = next {
            let sent = self.get(number).expect("linked segments are there");
            assert!(sent.linked && !sent.sacked);
            assert!(before < sent.order, "in the order of sending");
            before = sent.order;
            linked += 1;
            next = self.newer(number);
        }
        assert_eq!(linked, count(|sent| sent.linked));
        assert_eq!(
            linked,
            count(|sent| !sent.sacked && (!sent.lost || sent.again))
        );
    }
}
