//! Shapers: packets wait in queues, and leave at the aggregate's rate.

use std::sync::Arc;

use crate::error::check_rate;
use crate::{ConfigError, Field, Nanos, PacketMeta, Program, Rate};

mod aggregate;
mod fleet;
mod pace;
mod pool;
mod schedule;
#[cfg(test)]
mod tests;

use aggregate::Aggregate;
pub use fleet::{Fleet, FleetSettings};
use pool::Pool;

/// What a [`Shaper`] enforces.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ShaperConfig {
    pub(crate) program: Arc<Program>,
    pub(crate) rate: Rate,
    pub(crate) burst: u64,
    pub(crate) queue_bytes: Option<u64>,
    pub(crate) queue_packets: Option<u64>,
}

impl ShaperConfig {
    /// Packets leave at the rate, as the policy shares it, and exactly at the rate: nothing is saved
    /// up in silence. Queues are unbounded, but for [`Shaper::MAX_PACKETS`].
    ///
    /// # Errors
    /// If the rate is not one of [`Rate::LIMITABLE`].
    pub fn new(program: impl Into<Arc<Program>>, rate: Rate) -> Result<Self, ConfigError> {
        check_rate(Field::Rate, rate)?;
        Ok(Self {
            program: program.into(),
            rate,
            burst: 0,
            queue_bytes: None,
            queue_packets: None,
        })
    }

    /// With `burst` bytes that may leave at once after silence, and one packet in any case. With
    /// more than a packet, the shaper is burst-tolerant [Flach16 §5.1.2].
    #[must_use]
    pub fn with_burst(self, burst: u64) -> Self {
        Self { burst, ..self }
    }

    /// With a bound of bytes for each queue; what finds no space is dropped.
    ///
    /// # Errors
    /// If it is 0.
    pub fn with_queue_bytes(self, bytes: u64) -> Result<Self, ConfigError> {
        let most = u64::MAX;
        match bytes {
            0 => Err(ConfigError::Size {
                field: Field::Queue,
                bytes,
                most,
            }),
            _ => Ok(Self {
                queue_bytes: Some(bytes),
                ..self
            }),
        }
    }

    /// With a bound of packets for each queue; what finds no space is dropped.
    ///
    /// # Errors
    /// If it is 0.
    pub fn with_queue_packets(self, packets: u64) -> Result<Self, ConfigError> {
        match packets {
            0 => Err(ConfigError::NoPackets),
            _ => Ok(Self {
                queue_packets: Some(packets),
                ..self
            }),
        }
    }

    /// The policy.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The rate at which packets leave.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Bytes that may leave at once after silence.
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// Most bytes in each queue.
    pub fn queue_bytes(&self) -> Option<u64> {
        self.queue_bytes
    }

    /// Most packets in each queue.
    pub fn queue_packets(&self) -> Option<u64> {
        self.queue_packets
    }
}

/// What waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Bytes, as charged.
    pub bytes: u64,
    /// Packets.
    pub packets: u32,
}

/// A shaper of one aggregate, and the packets `P` it holds. Its policy is served by hierarchical
/// deficit round robin and strict priority.
///
/// ```
/// use tidegate_limiter::{PacketMeta, PolicyTree, Shaper, ShaperConfig};
/// let policy = PolicyTree::fair(2)?;
/// let config = ShaperConfig::new(&policy, "12mbit".parse()?)?.with_queue_packets(48)?;
/// let mut shaper = Shaper::new(&config, 0);
/// for (queue, packet) in [(0, "a"), (0, "b"), (1, "c")] {
///     let meta = PacketMeta { bytes: 1500, queue, ..PacketMeta::default() };
///     assert_eq!(shaper.offer(0, &meta, packet), Ok(()));
/// }
/// assert_eq!(shaper.poll_release(0), Some("a"));
/// assert_eq!(shaper.poll_release(0), None);
/// assert_eq!(shaper.poll_timeout(), Some(1_000_000), "1500 bytes at 12 Mbit/s");
/// assert_eq!(shaper.poll_release(1_000_000), Some("c"), "the other queue's turn");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Shaper<P> {
    aggregate: Aggregate,
    pool: Pool<P>,
}

impl<P> Shaper<P> {
    /// Most packets that any shaper holds.
    pub const MAX_PACKETS: usize = 1 << 20;

    /// A shaper that holds nothing and was silent for long. Reserves room for as many packets as
    /// its queues can hold, where they are limited by bytes only for packets of 64 bytes and more
    /// (smaller ones may find no space before the bytes are reached); at most
    /// [`MAX_PACKETS`](Self::MAX_PACKETS).
    pub fn new(config: &ShaperConfig, now: Nanos) -> Self {
        let by_bytes = config.queue_bytes.map(|bytes| bytes.div_ceil(64));
        let each = config.queue_packets.or(by_bytes).unwrap_or(u64::MAX);
        let all = each.saturating_mul(config.program.queues() as u64);
        let packets =
            usize::try_from(all).map_or(Self::MAX_PACKETS, |all| all.min(Self::MAX_PACKETS));
        Self {
            aggregate: Aggregate::new(config, now),
            pool: Pool::new(packets),
        }
    }

    /// Puts a packet at the end of its queue.
    ///
    /// # Errors
    /// Gives the packet back if its queue is full: it is dropped.
    ///
    /// # Panics
    /// If the policy has no such queue.
    #[inline]
    pub fn offer(&mut self, now: Nanos, meta: &PacketMeta, packet: P) -> Result<(), P> {
        self.aggregate.offer(now, meta, packet, &mut self.pool)
    }

    /// A packet that leaves now, if there is one: to be called until there is none. Calls that
    /// come up to 10 ms late cost no rate.
    #[inline]
    pub fn poll_release(&mut self, now: Nanos) -> Option<P> {
        self.aggregate.poll_release(now, &mut self.pool)
    }

    /// When [`poll_release`](Self::poll_release) has the next packet; may be in the past. `None`
    /// if nothing waits, or if the rate is 0.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.aggregate.poll_timeout()
    }

    /// Another rate from now on.
    pub fn set_rate(&mut self, now: Nanos, rate: Rate) {
        self.aggregate.set_rate(now, rate);
    }

    /// What waits in a queue.
    ///
    /// # Panics
    /// If the policy has no such queue.
    pub fn backlog(&self, queue: u16) -> Backlog {
        self.aggregate.backlog(queue)
    }

    /// Bytes that wait in each queue.
    pub(crate) fn occupancy(&self) -> Vec<u64> {
        let queues = 0..self.aggregate.queues() as u16;
        queues.map(|queue| self.backlog(queue).bytes).collect()
    }

    /// What waits in all queues.
    pub fn total(&self) -> Backlog {
        self.aggregate.total()
    }
}
