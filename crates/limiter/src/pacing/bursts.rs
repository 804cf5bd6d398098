//! Trickle's writes, where the clamp does not hold the rate alone: a token bucket, kept as times.

use super::time_of;
use crate::Nanos;

/// Bytes that a transfer may be ahead of its rate, at most, after the window let it: twice what a
/// socket takes at once.
const AHEAD: u64 = 1 << 18;

/// What becomes of tokens that were not used in time, and of bytes that were written without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// All tokens are kept: the average of the phase is the rate, also after a stall.
    All,
    /// Tokens for two bursts: what is behind is caught up without a clamp, not with more bursts. Nothing can be behind while the
    /// start-up is under way.
    TwoBursts { may_be_behind: bool },
    /// Nothing waits for tokens, since the window decides. What it lets out ahead of the rate counts later.
    Count,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bursts {
    /// Bytes per second.
    rate: u64,
    /// Bytes of a burst.
    block: u64,
    keep: Keep,
    /// When there are tokens for a burst.
    enough: Nanos,
    /// Tokens that were more than two bursts, as time: due, if the kernel says that the transfer is behind.
    missed: Nanos,
    /// The next burst, at the earliest. Bursts that are caught up come at twice the rate, not at once,
    /// since the window may be wider than a burst.
    next: Nanos,
}

impl Bursts {
    pub fn new(rate: u64, block: u64, start: Nanos) -> Self {
        Self {
            rate,
            block,
            keep: Keep::All,
            enough: start.saturating_add(time_of(rate, block)),
            missed: 0,
            next: 0,
        }
    }

    /// When there are tokens for what was written.
    pub fn paid(&self) -> Nanos {
        self.enough.saturating_sub(time_of(self.rate, self.block))
    }

    /// When the next burst may be written, at the earliest. It has this many bytes, and there must be tokens for that many of them: for all,
    /// a whole block unless less is left of the transfer, or for none where the kernel spaces it.
    pub fn due(&mut self, now: Nanos, keep: Keep, (bytes, tokens): (u64, u64)) -> Nanos {
        self.keep = keep;
        match keep {
            Keep::TwoBursts { may_be_behind } => {
                let two = now.saturating_sub(time_of(self.rate, self.block.max(bytes)));
                if may_be_behind {
                    self.missed = self.missed.saturating_add(two.saturating_sub(self.enough));
                }
                self.enough = self.enough.max(two);
            }
            Keep::All | Keep::Count => {
                let missed = std::mem::take(&mut self.missed);
                self.enough = self.enough.saturating_sub(missed);
            }
        }
        match keep {
            Keep::Count => now,
            Keep::All | Keep::TwoBursts { .. } => {
                let less = time_of(self.rate, self.block.saturating_sub(tokens));
                self.enough.saturating_sub(less).max(self.next)
            }
        }
    }

    pub fn wrote(&mut self, bytes: u64, now: Nanos) {
        let time = time_of(self.rate, bytes);
        self.enough = self.enough.saturating_add(time);
        match self.keep {
            Keep::All => {}
            Keep::TwoBursts { .. } => self.next = now.saturating_add(time / 2),
            Keep::Count => {
                let most = time_of(self.rate, self.block.saturating_add(AHEAD));
                self.enough = self.enough.min(now.saturating_add(most));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Nanos = 1_000_000;
    const TWO: Keep = Keep::TwoBursts {
        may_be_behind: true,
    };

    /// 10 kB come in 20 ms.
    #[test]
    fn bursts_that_are_late_are_caught_up_at_twice_the_rate_two_at_most() {
        let mut bursts = Bursts::new(500_000, 10_000, 0);
        let mut at = Vec::new();
        let mut write = |bursts: &mut Bursts, from: Nanos, count: usize| {
            let mut now = from;
            for _ in 0..count {
                now = bursts.due(now, TWO, (10_000, 10_000)).max(now);
                at.push(now / MILLISECOND);
                bursts.wrote(10_000, now);
            }
        };
        write(&mut bursts, 0, 2);
        // Nothing for 160 ms: eight are due, and two are there.
        write(&mut bursts, 200 * MILLISECOND, 5);
        assert_eq!(at, [20, 40, 200, 210, 220, 240, 260]);
        // Behind, the six that were missed are due.
        bursts.due(270 * MILLISECOND, Keep::Count, (10_000, 10_000));
        bursts.wrote(60_000, 270 * MILLISECOND);
        let due = bursts.due(270 * MILLISECOND, TWO, (10_000, 10_000));
        assert_eq!(due, 280 * MILLISECOND);
        // What the window let go ahead counts, up to 262,144 bytes.
        bursts.due(280 * MILLISECOND, Keep::Count, (10_000, 10_000));
        bursts.wrote(1 << 30, 280 * MILLISECOND);
        let wait = 10_000_u64 * 2_000 + (1 << 18) * 2_000;
        assert_eq!(
            bursts.due(0, TWO, (10_000, 10_000)),
            280 * MILLISECOND + wait
        );
    }
}
