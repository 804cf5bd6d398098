//! The plain policer: one bucket of tokens.

use crate::prefetch::prefetch;
use crate::{Decision, Meter, Nanos, PacketMeta, Rate};

#[cfg(test)]
pub(crate) mod tests;

/// A single-rate token-bucket policer [BCPQP §2.2]: tokens arrive at the rate, up to the burst; a
/// packet passes if it finds as many as it has bytes, and takes them. Over every interval no more
/// passes than the rate times its length, and the burst.
///
/// Tokens are brought up to date at every packet. Leaving that until they run short, as
/// [BCPQP §6.2] does, would count tokens that a full bucket has to turn away, and let up to twice
/// the burst pass at once.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    meter: Meter,
    tokens: u64,
    burst: u64,
}

impl TokenBucket {
    /// A full bucket of so many bytes. Packets larger than it never pass.
    pub fn new(rate: Rate, burst: u64, now: Nanos) -> Self {
        Self {
            meter: Meter::new(rate, now),
            tokens: burst,
            burst,
        }
    }

    /// Passes the packet or drops it; a dropped packet takes nothing.
    #[inline]
    pub fn offer(&mut self, now: Nanos, packet: &PacketMeta) -> Decision {
        self.refill(now);
        if self.take(packet.bytes) {
            Decision::Pass
        } else {
            Decision::Drop
        }
    }

    /// Asks for the memory that a packet will need, see
    /// [`PhantomQueues::prefetch`](crate::PhantomQueues::prefetch).
    #[inline]
    pub fn prefetch(&self) {
        prefetch(self);
    }

    /// Adds the tokens of the time since the last refill.
    #[inline]
    pub(crate) fn refill(&mut self, now: Nanos) {
        self.tokens = self.tokens.saturating_add(self.meter.advance(now));
        if self.tokens >= self.burst {
            self.tokens = self.burst;
            self.meter.forget();
        }
    }

    /// Takes as many tokens as that, or none if there are fewer.
    #[inline]
    pub(crate) fn take(&mut self, bytes: u32) -> bool {
        let left = self.tokens.checked_sub(bytes.into());
        self.tokens = left.unwrap_or(self.tokens);
        left.is_some()
    }

    /// Bytes that could pass at once, as of the last packet or change.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The rate at which tokens arrive.
    pub fn rate(&self) -> Rate {
        self.meter.rate()
    }

    /// The bucket's size in bytes.
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// Another rate from now on. The tokens of the time before arrive at the rate of that time.
    pub fn set_rate(&mut self, now: Nanos, rate: Rate) {
        self.refill(now);
        self.meter.set_rate(rate);
    }

    /// Another size in bytes from now on. Tokens that no longer fit are lost; a larger bucket has
    /// to fill first.
    pub fn set_burst(&mut self, now: Nanos, burst: u64) {
        self.refill(now);
        self.burst = burst;
        self.tokens = self.tokens.min(burst);
    }
}
