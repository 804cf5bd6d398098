//! Retransmissions that were acknowledged before their own acknowledgement could be there: what they repeat had arrived.
//!
//! An acknowledgement takes a round trip between the capture and the receiver, wherever the capture was taken. RACK (RFC 8985 §6.2)
//! uses the same sign. It needs no word of the receiver: neither a duplicate selective acknowledgement nor a timestamp.

use super::log::{Log, Number};
use super::sent::{Marks, Sent};
use crate::read::Nanos;

/// An acknowledgement that comes after fewer quarters than this of the least round trip is another packet's. Times are not exact,
/// and a round trip may be a little shorter than all that were measured.
const QUARTERS: Nanos = 3;
/// A shorter round trip is hardly longer than what hosts take to answer.
const LEAST: Nanos = 1_000_000;

/// The least round trip between the capture and the receiver, as one sender's packets show it.
#[derive(Debug, Default)]
pub(crate) struct Early {
    least: Option<Nanos>,
    /// Whether the receiver cannot have held all acknowledgements back: it answered a handshake, or had two full packets at a time
    /// (RFC 9293 §3.8.6.3).
    is_prompt: bool,
}

impl Early {
    /// The flow has this least round trip from end to end, which is no shorter.
    #[inline]
    pub fn bound(&mut self, round_trip: Option<Nanos>) {
        self.is_prompt |= round_trip.is_some();
        self.add(round_trip);
    }

    fn add(&mut self, rtt: Option<Nanos>) {
        let both = [self.least, rtt];
        self.least = both.into_iter().flatten().min();
    }

    /// Marks the packets of a segment that is done, which are those up to before a number. Later packets than a retransmission may
    /// show a shorter round trip, so nothing is marked before. `full`: the payload of a full packet.
    pub fn mark(&mut self, log: &mut Log, next: u64, full: u64) {
        let mut is_any = false;
        for sent in log.range(log.first(), next) {
            is_any |= sent.lost();
            if let Some(rtt) = sent.rtt() {
                self.add(Some(rtt));
                self.is_prompt |= u64::from(sent.in_flight) >= 2 * full;
            }
        }
        let usable = |&least: &Nanos| least >= LEAST && self.is_prompt && is_any;
        let Some(least) = self.least.filter(usable) else {
            return;
        };
        let is_early = |again: &Sent| {
            let after = again.acked_at.checked_sub(again.at);
            after.is_some_and(|after| after < least / 4 * QUARTERS)
        };
        for number in log.first()..next {
            let number = number as Number;
            let Some(&sent) = log.get(number).filter(|sent| sent.lost()) else {
                continue;
            };
            let again = log.get(number.wrapping_add(sent.repeated));
            if again.is_some_and(is_early)
                && let Some(sent) = log.get_mut(number)
            {
                sent.marks.set(Marks::SPURIOUS_EARLY);
            }
        }
    }
}
