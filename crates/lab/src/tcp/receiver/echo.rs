//! What a receiver tells the sender of marked packets, as Linux does.

use tidegate_limiter::Ecn;

use super::super::Segment;
use super::super::config::Marks;

/// The echo of marks.
#[derive(Debug, Clone)]
pub(super) struct MarkEcho {
    marks: Option<Marks>,
    /// Whether acknowledgements echo a mark now.
    echoes: bool,
    /// An ECN-capable packet came before.
    seen: bool,
    /// An acknowledgement of this byte that must be sent before the present state, and whether it echoes a mark.
    overdue: Option<(u64, bool)>,
    /// Accurate ECN: the counter of marked packets, and whether the last packet was one.
    count: u64,
    is_marked: bool,
}

/// What a packet asks of the receiver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// A few acknowledgements without delay.
    pub(super) quicken: bool,
    /// One at once.
    pub(super) at_once: bool,
}

impl MarkEcho {
    pub(super) fn new(marks: Option<Marks>) -> Self {
        Self {
            marks,
            echoes: false,
            seen: false,
            overdue: None,
            count: Marks::FIRST,
            is_marked: false,
        }
    }

    /// A segment with data comes, merged of `count`, when `next` is the byte expected next, and perhaps an acknowledgement
    /// is delayed.
    pub(super) fn take(
        &mut self,
        (segment, count): (&Segment, u16),
        next: u64,
        delayed: bool,
    ) -> Answer {
        let mut answer = Answer::default();
        let Some(marks) = self.marks else {
            return answer;
        };
        if marks.accurate {
            // RFC 9768 §3.2.2.5: at once for the first of several; every second packet is acknowledged anyway.
            let before = std::mem::replace(&mut self.is_marked, segment.ecn == Ecn::Ce);
            // §3.2.2: the counter is one of packets. All that were merged have the same mark (`tcp_ecn_received_counters`
            // adds `gso_segs`).
            self.count += u64::from(self.is_marked) * u64::from(count);
            answer.at_once = self.is_marked && !before;
            return answer;
        }
        if segment.cwr {
            // RFC 3168 §6.1.3: the sender has answered. The acknowledgement shows it that it was heard
            // (`tcp_ecn_accept_cwr`).
            self.echoes &= marks.each;
            answer.at_once = true;
        }
        if segment.ecn == Ecn::NotEct {
            // A retransmission, so something was lost (`__tcp_ecn_check_ce`).
            answer.quicken = self.seen;
            return answer;
        }
        self.seen = true;
        let is_marked = segment.ecn == Ecn::Ce;
        if !marks.each {
            answer.quicken = is_marked && !self.echoes;
            self.echoes |= is_marked;
        } else if is_marked != self.echoes {
            // RFC 8257 §3.2 (`dctcp_ece_ack_update`): the segments until now are acknowledged with their state.
            if delayed {
                self.overdue = Some((next, self.echoes));
            }
            answer = Answer {
                quicken: is_marked,
                at_once: true,
            };
            self.echoes = is_marked;
        }
        answer
    }

    /// Sets what a segment tells of marks.
    pub(super) fn fill(&self, segment: &mut Segment) {
        match self.marks {
            Some(marks) if marks.accurate => segment.set_ace(self.count),
            _ => segment.ece = self.echoes,
        }
    }

    pub(super) fn is_overdue(&self) -> bool {
        self.overdue.is_some()
    }

    pub(super) fn take_overdue(&mut self) -> Option<(u64, bool)> {
        self.overdue.take()
    }
}
