//! Any limiter, at work.

use crate::{
    Decision, FairPolicer, LimiterConfig, Nanos, PacketMeta, PhantomQueues, Shaper,
    SingleRateMarker, TokenBucket, TwoRateMarker, WaterFillingPolicer,
};

#[cfg(test)]
mod tests;

/// A limiter of any scheme. `P` is what a packet is held by while it waits in a shaper: a buffer, or
/// the number of one.
///
/// ```
/// use tidegate_limiter::{Fate, Limiter, LimiterConfig, PacketMeta, PolicerConfig};
/// let config = LimiterConfig::Policer(PolicerConfig::new("8mbit".parse()?, 3000)?);
/// let mut limiter = Limiter::new(&config, 0);
/// let meta = PacketMeta { bytes: 1500, ..PacketMeta::default() };
/// assert_eq!(limiter.offer(0, &meta, "first"), Fate::Pass("first"));
/// assert_eq!(limiter.offer(0, &meta, "second"), Fate::Pass("second"));
/// assert_eq!(limiter.offer(0, &meta, "third"), Fate::Drop("third"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub enum Limiter<P = ()> {
    /// No limit.
    Unlimited,
    /// A token bucket.
    Policer(TokenBucket),
    /// The marker of RFC 2697.
    SingleRate(SingleRateMarker),
    /// The marker of RFC 2698.
    TwoRate(TwoRateMarker),
    /// FairPolicer as its authors published it.
    FairPolicer(Box<FairPolicer>),
    /// FairPolicer as the authors of BC-PQP measured it.
    WaterFilling(WaterFillingPolicer),
    /// PQP or BC-PQP.
    PhantomQueues(PhantomQueues),
    /// Real queues.
    Shaper(Box<Shaper<P>>),
}

/// What becomes of a packet that was offered to a [`Limiter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate<P> {
    /// It goes on as it is.
    Pass(P),
    /// It goes on with this differentiated services code point.
    Mark(P, u8),
    /// It goes on with [`Ecn::Ce`](crate::Ecn::Ce).
    Ce(P),
    /// It goes no further.
    Drop(P),
    /// The limiter keeps it, until [`Limiter::poll_release`] returns it.
    Wait,
}

/// How full a limiter is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Occupancy {
    /// Bytes in each queue, or, of a limiter without queues, tokens that are missing from its
    /// buckets.
    pub queues: Vec<u64>,
    /// Of these, the magic bytes; empty but for phantom queues.
    pub magic: Vec<u64>,
}

impl<P> Limiter<P> {
    /// A limiter that has seen no packet: buckets are full, queues empty.
    pub fn new(config: &LimiterConfig, now: Nanos) -> Self {
        match config {
            LimiterConfig::Unlimited => Self::Unlimited,
            LimiterConfig::Policer(config) => Self::Policer(TokenBucket::new(config, now)),
            LimiterConfig::SingleRate(config) => {
                Self::SingleRate(SingleRateMarker::new(config, now))
            }
            LimiterConfig::TwoRate(config) => Self::TwoRate(TwoRateMarker::new(config, now)),
            LimiterConfig::FairPolicer(config) => {
                Self::FairPolicer(Box::new(FairPolicer::new(config, now)))
            }
            LimiterConfig::WaterFilling(config) => {
                Self::WaterFilling(WaterFillingPolicer::new(config, now))
            }
            LimiterConfig::PhantomQueues(config) => {
                Self::PhantomQueues(PhantomQueues::new(config, now))
            }
            LimiterConfig::Shaper(config) => Self::Shaper(Box::new(Shaper::new(config, now))),
        }
    }

    /// Decides about a packet, which is given back unless it has to wait.
    ///
    /// # Panics
    /// If the policy does not have the packet's queue.
    #[inline]
    pub fn offer(&mut self, now: Nanos, meta: &PacketMeta, packet: P) -> Fate<P> {
        let decision = match self {
            Self::Unlimited => Decision::Pass,
            Self::Policer(bucket) => bucket.offer(now, meta),
            Self::SingleRate(marker) => marker.offer(now, meta),
            Self::TwoRate(marker) => marker.offer(now, meta),
            Self::FairPolicer(policer) => policer.offer(now, meta),
            Self::WaterFilling(policer) => policer.offer(now, meta),
            Self::PhantomQueues(queues) => queues.offer(now, meta),
            Self::Shaper(shaper) => {
                return match shaper.offer(now, meta, packet) {
                    Ok(()) => Fate::Wait,
                    Err(packet) => Fate::Drop(packet),
                };
            }
        };
        match decision {
            Decision::Pass => Fate::Pass(packet),
            Decision::Mark(dscp) => Fate::Mark(packet, dscp),
            Decision::Ce => Fate::Ce(packet),
            Decision::Drop => Fate::Drop(packet),
        }
    }

    /// A packet that waited and leaves now: to be called until there is none.
    #[inline]
    pub fn poll_release(&mut self, now: Nanos) -> Option<P> {
        match self {
            Self::Shaper(shaper) => shaper.poll_release(now),
            _ => None,
        }
    }

    /// When [`poll_release`](Self::poll_release) has the next packet; `None` if none waits.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        match self {
            Self::Shaper(shaper) => shaper.poll_timeout(),
            _ => None,
        }
    }

    /// How full it is at this time.
    pub fn occupancy(&mut self, now: Nanos) -> Occupancy {
        let mut magic = Vec::new();
        let queues = match self {
            Self::Unlimited => Vec::new(),
            Self::Policer(bucket) => vec![bucket.missing(now)],
            Self::SingleRate(marker) => vec![marker.missing(now)],
            Self::TwoRate(marker) => vec![marker.missing(now)],
            Self::FairPolicer(policer) => vec![policer.missing(now)],
            Self::WaterFilling(policer) => policer.occupancy(now),
            Self::PhantomQueues(phantom) => {
                let fills = phantom.occupancy(now);
                magic = fills.iter().map(|fill| fill.magic).collect();
                fills.iter().map(|fill| fill.bytes).collect()
            }
            Self::Shaper(shaper) => shaper.occupancy(),
        };
        Occupancy { queues, magic }
    }
}
