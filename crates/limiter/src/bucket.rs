//! The plain policer: one bucket of tokens.

use crate::error::{check_rate, check_size};
use crate::prefetch::prefetch;
use crate::{ConfigError, Decision, Field, Meter, Nanos, PacketMeta, Rate, Share};

#[cfg(test)]
pub(crate) mod tests;

/// What a [`TokenBucket`] enforces.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PolicerConfig {
    pub(crate) rate: Rate,
    pub(crate) burst: u64,
}

impl PolicerConfig {
    /// Tokens arrive at the rate, into a bucket of `burst` bytes. Packets larger than the bucket
    /// never pass; [`sizing`](crate::sizing) has advice.
    ///
    /// # Errors
    /// If the rate is not one of [`Rate::LIMITABLE`], or the bucket has no bytes or more than 2^60.
    pub fn new(rate: Rate, burst: u64) -> Result<Self, ConfigError> {
        check_rate(Field::Rate, rate)?;
        check_size(Field::Burst, burst)?;
        Ok(Self { rate, burst })
    }

    /// The rate at which tokens arrive.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The bucket's size in bytes.
    pub fn burst(&self) -> u64 {
        self.burst
    }
}

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
    rate: Rate,
    share: Share,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(config: &PolicerConfig, now: Nanos) -> Self {
        Self {
            meter: Meter::new(config.rate, now),
            tokens: config.burst,
            burst: config.burst,
            rate: config.rate,
            share: Share::WHOLE,
        }
    }

    /// Uses this share of the rate from the latest packet on, see [`Hierarchy`](crate::Hierarchy).
    #[inline]
    pub fn set_share(&mut self, share: Share) {
        self.share = share;
        self.meter.set_rate(share.rate(self.rate));
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

    /// Tokens that are missing from a full bucket, at this time.
    pub(crate) fn missing(&mut self, now: Nanos) -> u64 {
        self.refill(now);
        self.burst - self.tokens
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

    /// Enforces another configuration from now on. The tokens of the time before arrive at the rate of
    /// that time. Tokens that no longer fit are lost; a larger bucket has to fill first.
    pub fn set(&mut self, now: Nanos, config: &PolicerConfig) {
        self.set_rate(now, config.rate);
        self.burst = config.burst;
        self.tokens = self.tokens.min(config.burst);
    }

    /// Another depth, with the tokens that it has room for.
    pub(crate) fn set_burst(&mut self, burst: u64) {
        self.burst = burst;
        self.tokens = self.tokens.min(burst);
    }

    /// Another rate from now on.
    pub(crate) fn set_rate(&mut self, now: Nanos, rate: Rate) {
        self.refill(now);
        self.rate = rate;
        self.set_share(self.share);
    }
}
