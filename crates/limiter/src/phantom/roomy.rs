//! Phantom queues for policies of any size.

use super::{BurstControl, PhantomQueuesConfig, QueueFill, SizedPhantomQueues};
use crate::{ConfigError, Decision, Nanos, PacketMeta, PolicyTree, Program, Rate, Share};

/// Most queues, and most sharing nodes, of a policy.
const MOST: usize = PolicyTree::MAX_NODES;

type Flat = SizedPhantomQueues<16, 1>;
type Nested = SizedPhantomQueues<64, 16>;
type Any = SizedPhantomQueues<MOST, MOST>;

/// Limits an aggregate by phantom queues, at a policer's cost.
///
/// A packet passes if its phantom queue has room for it, and is counted in; the queues are drained
/// at the aggregate's rate as the policy shares it. With burst control, a queue that accepts
/// bytes faster than its rate is filled at once, so that its flow meets losses before it bursts.
///
/// There is room for every policy. Small policies take few cache lines: an even share of up to 16
/// queues takes at most 1.5 KiB.
///
/// ```
/// use tidegate_limiter::*;
/// let policy = PolicyTree::fair(16)?;
/// let config = PhantomQueuesConfig::new(&policy, "10mbit".parse()?, 1_000_000)?
///     .with_burst_control(BurstControl::DEFAULT);
/// let mut limiter = PhantomQueues::new(&config, 0);
/// let packet = PacketMeta { bytes: 1500, queue: 3, ..PacketMeta::default() };
/// assert_eq!(limiter.offer(0, &packet), Decision::Pass);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct PhantomQueues(BySize);

/// The policy chooses one of three sizes.
#[derive(Debug, Clone)]
enum BySize {
    /// Up to 16 queues that share evenly.
    Flat(Box<Flat>),
    /// Up to 64 queues and 16 nodes that share.
    Nested(Box<Nested>),
    /// Any policy.
    Any(Box<Any>),
}

macro_rules! of_any_size {
    ($of:expr, $queues:ident => $result:expr) => {
        match $of {
            BySize::Flat($queues) => $result,
            BySize::Nested($queues) => $result,
            BySize::Any($queues) => $result,
        }
    };
}

impl PhantomQueues {
    /// Empty queues.
    pub fn new(config: &PhantomQueuesConfig, now: Nanos) -> Self {
        Self(match size(config.program()) {
            Size::Flat => BySize::Flat(Box::new(SizedPhantomQueues::empty(config, now))),
            Size::Nested => BySize::Nested(Box::new(SizedPhantomQueues::empty(config, now))),
            Size::Any => BySize::Any(Box::new(SizedPhantomQueues::empty(config, now))),
        })
    }

    /// Another rate or burst control from now on; queues keep what is in them.
    ///
    /// # Errors
    /// If the rate is not one of [`Rate::LIMITABLE`]; nothing is changed then.
    pub fn set(
        &mut self,
        now: Nanos,
        rate: Rate,
        control: Option<BurstControl>,
    ) -> Result<(), ConfigError> {
        of_any_size!(&mut self.0, queues => queues.set(now, rate, control))
    }

    /// Uses this share of the rate from the latest packet on, see [`Hierarchy`](crate::Hierarchy).
    #[inline]
    pub fn set_share(&mut self, share: Share) {
        of_any_size!(&mut self.0, queues => queues.set_share(share));
    }

    /// The part of the whole rate that was used between the latest two looks, or more, see
    /// [`Hierarchy::tell`](crate::Hierarchy::tell). It is said once after each look.
    #[inline]
    pub fn take_used(&mut self) -> Option<Share> {
        of_any_size!(&mut self.0, queues => queues.take_used())
    }

    /// Whether [`take_used`](Self::take_used) ever says anything: with burst control, unless it is the paper's, and
    /// without a boost.
    #[inline]
    pub fn knows_used(&self) -> bool {
        of_any_size!(&self.0, queues => queues.knows_used())
    }

    /// Decides about a packet. Times that go back count as the latest so far.
    ///
    /// # Panics
    /// If the policy has no such queue.
    #[inline]
    pub fn offer(&mut self, now: Nanos, packet: &PacketMeta) -> Decision {
        of_any_size!(&mut self.0, queues => queues.offer(now, packet))
    }

    /// Asks for the memory that a packet to this queue will need. With a burst of packets, call it
    /// for each of them before the first is offered: the processor then waits for memory once, not
    /// for each packet. With many thousand limiters, waiting is most of what they cost.
    #[inline]
    pub fn prefetch(&self, queue: u16) {
        of_any_size!(&self.0, queues => queues.prefetch(queue));
    }

    /// Bytes of all queues together that are still to be drained, as of the latest packet.
    pub fn backlog(&self) -> u64 {
        of_any_size!(&self.0, queues => queues.backlog())
    }

    /// How full each queue is at a time.
    pub(crate) fn occupancy(&mut self, now: Nanos) -> Vec<QueueFill> {
        of_any_size!(&mut self.0, queues => queues.occupancy(now).collect())
    }
}

impl PhantomQueuesConfig {
    /// Bytes of the type that the policy chooses.
    pub(crate) fn memory(&self) -> usize {
        match size(self.program()) {
            Size::Flat => size_of::<Flat>(),
            Size::Nested => size_of::<Nested>(),
            Size::Any => size_of::<Any>(),
        }
    }
}

enum Size {
    Flat,
    Nested,
    Any,
}

fn size(program: &Program) -> Size {
    match (program.queues(), program.shares()) {
        (..=16, ..=1) => Size::Flat,
        (..=64, ..=16) => Size::Nested,
        _ => Size::Any,
    }
}
