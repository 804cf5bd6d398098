//! HyStart++, RFC 9406: slow start slows down when round trips rise, and ends if they stay long.

use tidegate_limiter::Nanos;

use super::{AckSample, Window};
use crate::MILLISECOND;

#[cfg(test)]
mod tests;

/// How far round trips must rise: an eighth of the least of the round before, within these bounds. Names and values are
/// those of §4.3.
const MIN_RTT_THRESH: Nanos = 4 * MILLISECOND;
const MAX_RTT_THRESH: Nanos = 16 * MILLISECOND;
const MIN_RTT_DIVISOR: Nanos = 8;
/// Round trips in a round before their least is trusted.
const N_RTT_SAMPLE: u32 = 8;
/// The window grows by this part of slow start's growth once round trips have risen.
const CSS_GROWTH_DIVISOR: u32 = 4;
/// Rounds of that before slow start ends.
const CSS_ROUNDS: u32 = 5;
/// Most segments that one acknowledgement lets the window grow by, without pacing.
const L: u32 = 8;

/// The initial slow start of a connection. It has no part in later ones, §4.2.
#[derive(Debug, Clone)]
pub(super) struct HyStartPlus {
    paced: bool,
    /// The round ends when this byte is acknowledged.
    round_end: u64,
    /// The least round trips of the round before and of this one.
    last: Option<Nanos>,
    current: Option<Nanos>,
    samples: u32,
    /// In conservative slow start: the least round trip with which it began, and the rounds since.
    baseline: Option<Nanos>,
    rounds: u32,
    /// Acknowledged segments by which the window has not grown yet, times the divisor.
    credit: u32,
}

impl HyStartPlus {
    pub(super) fn new(paced: bool) -> Self {
        Self {
            paced,
            round_end: 0,
            last: None,
            current: None,
            samples: 0,
            baseline: None,
            rounds: 0,
            credit: 0,
        }
    }

    /// Counts rounds and round trips. Ends slow start after the rounds of conservative slow start.
    pub(super) fn on_acked(&mut self, sample: &AckSample, window: &mut Window) {
        if window.ssthresh != u32::MAX {
            return;
        }
        if sample.snd_una >= self.round_end {
            self.round_end = sample.snd_nxt;
            self.last = self.current.take();
            self.samples = 0;
            if self.baseline.is_some() {
                // A round that was begun counts.
                self.rounds += 1;
                if self.rounds >= CSS_ROUNDS {
                    window.ssthresh = window.cwnd;
                    return;
                }
            }
        }
        let Some(rtt) = sample.rtt else { return };
        let current = self.current.map_or(rtt, |least| least.min(rtt));
        self.current = Some(current);
        self.samples = self.samples.saturating_add(1);
        if self.samples < N_RTT_SAMPLE {
            return;
        }
        match (self.baseline, self.last) {
            (None, Some(last)) => {
                let rise = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if current >= last.saturating_add(rise) {
                    (self.baseline, self.rounds) = (Some(current), 0);
                }
            }
            // The rise was not the queue's: slow start continues.
            (Some(baseline), _) if current < baseline => self.baseline = None,
            _ => {}
        }
    }

    /// Lets the window grow for acknowledged segments.
    pub(super) fn grow(&mut self, acked: u32, window: &mut Window) {
        let acked = if self.paced { acked } else { acked.min(L) };
        let grown = match self.baseline {
            None => acked,
            Some(_) => {
                self.credit = self.credit.saturating_add(acked);
                let grown = self.credit / CSS_GROWTH_DIVISOR;
                self.credit %= CSS_GROWTH_DIVISOR;
                grown
            }
        };
        window.cwnd = window.cwnd.saturating_add(grown);
    }
}
