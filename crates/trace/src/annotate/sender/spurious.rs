//! What acknowledgements say of retransmissions in vain.

use super::Sender;
use crate::annotate::log::Number;
use crate::annotate::sent::Marks;
use crate::read::Nanos;

impl Sender {
    /// The receiver got these bytes twice, so a retransmission was spurious: the latest that is not
    /// known to be spurious is taken to be the one.
    pub(super) fn duplicate(&mut self, start: u64, end: u64, below: bool) {
        let Self { board, log, .. } = self;
        board.duplicated(start, end, |number, whole| {
            let mut number = number;
            let mut mark = if whole && below {
                Marks::SPURIOUS_DSACK
            } else {
                Marks::SPURIOUS_DSACK_OTHER
            };
            // There may be as many duplicates as transmissions; no sender repeats a packet more often.
            for _ in 0..16 {
                let Some(sent) = log.get_mut(number) else {
                    return;
                };
                if sent.repeated != 0 {
                    let known = Marks::SPURIOUS_DSACK | Marks::SPURIOUS_DSACK_OTHER;
                    if !sent.marks.has(known) {
                        sent.marks.set(mark);
                        return;
                    }
                    mark = Marks::SPURIOUS_DSACK_OTHER;
                }
                if sent.repeats == 0 {
                    return;
                }
                number = number.wrapping_sub(sent.repeats);
            }
        });
    }

    /// Where bytes at the left edge were sent more than once, the echoed timestamp tells which
    /// transmission arrived (RFC 3522, RFC 7323 §4.3): that one gives a round-trip time, and its
    /// retransmission was spurious.
    pub(super) fn judge_by_timestamp(
        &mut self,
        now: Nanos,
        edge: u64,
        to: u64,
        echo: u32,
    ) -> Option<Number> {
        let latest = self.board.latest(edge)?;
        let sent = self.log.get(latest)?;
        if sent.repeats == 0 || sent.acked_at != 0 || sent.end() > to || sent.seq > edge {
            return None;
        }
        let mut number = latest;
        for _ in 0..16 {
            let sent = *self.log.get(number)?;
            if sent.tsval == echo {
                // Two in one tick of the clock cannot be distinguished.
                let older = number.wrapping_sub(sent.repeats);
                let twin = sent.repeats != 0
                    && self.log.get(older).is_none_or(|older| older.tsval == echo);
                let sent = self.log.get_mut(number)?;
                if twin || sent.acked_at != 0 {
                    return None;
                }
                // `settle` gives the other transmissions of these bytes the same time.
                sent.acked_at = now.max(1);
                sent.marks.set(Marks::RTT);
                if sent.repeated != 0 {
                    sent.marks.set(Marks::SPURIOUS_TIMESTAMP);
                }
                return Some(number);
            }
            if sent.repeats == 0 {
                return None;
            }
            number = number.wrapping_sub(sent.repeats);
        }
        None
    }
}
