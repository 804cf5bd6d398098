//! When a server may write how much: the two phases of [Trickle §2], for each way to pace.
//!
//! Pure: time is passed in, and waiting is the server's.

use super::Way;

const SECOND: u64 = 1_000_000_000;
/// Packets of 1448 bytes, that a full Ethernet frame carries: the paper's bursts are of 10.
const BURST: u64 = 10 * 1448;
/// Bytes that a transfer may be ahead of its rate, at most, after the window let it: twice what a
/// socket takes at once.
const AHEAD: i128 = 1 << 18;

/// The paper's two phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The first 30 to 40 s of video, as fast as TCP can.
    StartUp,
    /// The rest, paced.
    Throttling,
}

/// What holds a paced socket at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// What was written before it was paced is still under way: nothing.
    StartUp,
    /// The clamp, at headroom · R · RTT: the writer need not throttle, unless it had to before.
    Clamped,
    /// The clamp at its floor, which allows more than R: the writer must throttle.
    Floor,
    /// Goodput is below R: nothing, so that it catches up.
    Behind,
    /// No clamp can be had: the writer must throttle.
    Fallback,
}

/// What the writer may do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// Write up to so many bytes; `u64::MAX` for all there is.
    Write(u64),
    /// Nothing for so many nanoseconds.
    Wait(u64),
}

/// What to set on the socket when the throttling phase begins, bit/s each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// For `tidegate_pace::Pacer::pace`.
    pub clamp: Option<u64>,
    /// For SO_MAX_PACING_RATE.
    pub max_pacing_rate: Option<u64>,
}

/// Which tokens a throttled writer keeps when it could not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    /// All: the average of the phase is the rate, whatever happened.
    All,
    /// Two bursts: what is behind is caught up without a clamp, not with more bursts.
    Bursts,
    /// All, and no wait: the window decides. What it lets out ahead of the rate counts later.
    Count,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bucket {
    /// Bytes per second.
    rate: u64,
    /// What a write waits for.
    block: u64,
    keep: Keep,
    /// Negative when ahead.
    tokens: i128,
    /// Tokens that were more than two bursts: due, if the kernel says that the transfer is behind.
    missed: i128,
    /// Of the last division by a second.
    carry: u128,
    at: u64,
    /// The next write, at the earliest: bursts that are caught up come at twice the rate, not at
    /// once, since the window may be wider than a burst.
    next: u64,
}

impl Bucket {
    fn fill(&mut self, now: u64) {
        let passed = now.saturating_sub(self.at);
        self.at = self.at.max(now);
        let new = u128::from(self.rate) * u128::from(passed) + self.carry;
        self.carry = new % u128::from(SECOND);
        self.tokens += i128::try_from(new / u128::from(SECOND)).unwrap_or(i128::MAX / 2);
        if self.keep == Keep::Bursts {
            let kept = self.tokens.min(i128::from(self.block) * 2);
            self.missed += self.tokens - kept;
            self.tokens = kept;
        } else {
            self.tokens += std::mem::take(&mut self.missed);
        }
    }

    /// Nanoseconds until there is enough for a block.
    fn wait(&self) -> u64 {
        let missing = i128::from(self.block) - self.tokens;
        let spaced = self.next.saturating_sub(self.at);
        let Ok(missing @ 1..) = u128::try_from(missing) else {
            return spaced;
        };
        let missing = missing * u128::from(SECOND) - self.carry;
        let wait = missing.div_ceil(u128::from(self.rate.max(1)));
        u64::try_from(wait).unwrap_or(u64::MAX).max(spaced)
    }

    fn take(&mut self, bytes: u64) {
        self.tokens -= i128::from(bytes);
        if self.keep == Keep::Bursts {
            let half = u128::from(bytes) * u128::from(SECOND / 2) / u128::from(self.rate.max(1));
            let half = u64::try_from(half).unwrap_or(u64::MAX);
            self.next = self.at.saturating_add(half);
        } else if self.keep == Keep::Count {
            self.tokens = self.tokens.max(-AHEAD);
        }
    }
}

/// The schedule of one transfer's writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    way: Way,
    /// Bytes per second, of the throttling phase.
    rate: u64,
    startup: u64,
    bucket: Option<Bucket>,
    least_wait: u64,
    /// Algorithm 1's `write_throttle`: the clamp was at its floor.
    throttled: bool,
}

impl Writer {
    /// A transfer of a video of this encoding rate (bit/s), whose first bytes go out at full speed.
    #[must_use]
    pub fn new(way: Way, encoding_rate: u64, startup: u64) -> Self {
        let rate = u128::from(encoding_rate) * u128::from(way.percent()) / 800;
        let rate = u64::try_from(rate).unwrap_or(u64::MAX).max(1);
        Self {
            way,
            rate,
            startup,
            bucket: None,
            least_wait: 0,
            throttled: false,
        }
    }

    /// Waits shorter than this are left out, and the tokens lent: the paper's servers did so below
    /// 100 ms to save timers, and sent 16 kB blocks together by it [Trickle §3.2]. 0 unless set.
    #[must_use]
    pub fn least_wait(self, nanoseconds: u64) -> Self {
        Self {
            least_wait: nanoseconds,
            ..self
        }
    }

    /// Which phase the next byte belongs to.
    #[must_use]
    pub fn phase(&self) -> Phase {
        if self.startup > 0 || self.way == Way::None {
            Phase::StartUp
        } else {
            Phase::Throttling
        }
    }

    /// What the way wants on the socket, once [`Writer::phase`] is [`Phase::Throttling`].
    #[must_use]
    pub fn settings(&self) -> Settings {
        let rate = Some(self.rate.saturating_mul(8));
        match self.way {
            Way::None | Way::Application { .. } => Settings::default(),
            Way::MaxPacingRate { .. } => Settings {
                clamp: None,
                max_pacing_rate: rate,
            },
            Way::Trickle { .. } => Settings {
                clamp: rate,
                max_pacing_rate: None,
            },
        }
    }

    /// What may be written at `now` (ns, from any beginning). `hold` is what `tidegate_pace::Pacer::hold`
    /// says; only [`Way::Trickle`] asks for it. [`Hold::Fallback`] throttles by time alone: pass it
    /// for each of several transfers that share a connection, whose clamp holds only their sum.
    pub fn ready(&mut self, now: u64, hold: Option<Hold>) -> Ready {
        if self.way == Way::None {
            return Ready::Write(u64::MAX);
        }
        if self.startup > 0 {
            return Ready::Write(self.startup);
        }
        // Once set it is never cleared [Trickle, Algorithm 1]. A round trip that grows for a moment, and
        // the clamp with it, would let the socket take all that it has room for, ahead of R.
        self.throttled |= hold == Some(Hold::Floor);
        let (block, keep) = match self.way {
            Way::None | Way::MaxPacingRate { .. } => return Ready::Write(u64::MAX),
            Way::Application { block, .. } => (block.max(1), Keep::All),
            Way::Trickle { .. } => match hold {
                // Of what is under way nothing is missing; what comes after it waits for the clamp.
                Some(Hold::Floor | Hold::StartUp) => (BURST, Keep::Bursts),
                Some(Hold::Fallback) => (BURST, Keep::All),
                Some(Hold::Clamped) if self.throttled => (BURST, Keep::Bursts),
                // The window holds the rate, or nothing does: all that there is [Trickle,
                // Algorithm 1].
                _ => (BURST, Keep::Count),
            },
        };
        let empty = Bucket {
            rate: self.rate,
            block,
            keep,
            tokens: 0,
            missed: 0,
            carry: 0,
            at: now,
            next: now,
        };
        let bucket = self.bucket.get_or_insert(empty);
        bucket.fill(now);
        if (bucket.block, bucket.keep) != (block, keep) {
            (bucket.block, bucket.keep) = (block, keep);
            // What was kept back is due now, or what is too much is kept back.
            bucket.fill(now);
        }
        if keep == Keep::Count {
            return Ready::Write(u64::MAX);
        }
        let wait = bucket.wait();
        if wait > 0 && wait >= self.least_wait {
            Ready::Wait(wait)
        } else {
            Ready::Write(block)
        }
    }

    /// Says that so many bytes were written at `now`, to a socket that took them.
    pub fn wrote(&mut self, bytes: u64, now: u64) {
        let left = bytes.saturating_sub(self.startup);
        self.startup = self.startup.saturating_sub(bytes);
        if let Some(bucket) = &mut self.bucket {
            bucket.fill(now);
            bucket.take(left);
        }
    }
}

#[cfg(test)]
mod tests;
