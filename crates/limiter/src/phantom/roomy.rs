//! Phantom queues for policies of any size.

use super::{PhantomQueues, PhantomQueuesConfig, SizedPhantomQueues};
use crate::{Decision, Nanos, PacketMeta, PolicyTree, Program};

/// Most queues, and most sharing nodes, of a policy.
const MOST: usize = PolicyTree::MAX_NODES;

/// Phantom queues with room for every policy. Small policies take few cache lines: there are three
/// sizes, and the policy chooses one.
#[derive(Debug, Clone)]
pub enum RoomyPhantomQueues {
    /// Up to 16 queues that share evenly.
    Flat(Box<PhantomQueues>),
    /// Up to 64 queues and 16 nodes that share.
    Nested(Box<SizedPhantomQueues<64, 16>>),
    /// Any policy.
    Any(Box<SizedPhantomQueues<MOST, MOST>>),
}

impl RoomyPhantomQueues {
    /// Empty queues.
    pub fn new(config: &PhantomQueuesConfig, now: Nanos) -> Self {
        match size(config.program()) {
            Size::Flat => Self::Flat(Box::new(SizedPhantomQueues::empty(config, now))),
            Size::Nested => Self::Nested(Box::new(SizedPhantomQueues::empty(config, now))),
            Size::Any => Self::Any(Box::new(SizedPhantomQueues::empty(config, now))),
        }
    }

    /// Decides about a packet, see [`SizedPhantomQueues::offer`].
    ///
    /// # Panics
    /// If the policy has no such queue.
    #[inline]
    pub fn offer(&mut self, now: Nanos, packet: &PacketMeta) -> Decision {
        match self {
            Self::Flat(queues) => queues.offer(now, packet),
            Self::Nested(queues) => queues.offer(now, packet),
            Self::Any(queues) => queues.offer(now, packet),
        }
    }

    /// Each queue's bytes, and of these the magic ones, at a time.
    pub(crate) fn occupancy(&mut self, now: Nanos) -> (Vec<u64>, Vec<u64>) {
        match self {
            Self::Flat(queues) => queues.occupancy(now).unzip(),
            Self::Nested(queues) => queues.occupancy(now).unzip(),
            Self::Any(queues) => queues.occupancy(now).unzip(),
        }
    }
}

impl PhantomQueuesConfig {
    /// Bytes of the type that the policy chooses.
    pub(crate) fn memory(&self) -> usize {
        match size(self.program()) {
            Size::Flat => size_of::<PhantomQueues>(),
            Size::Nested => size_of::<SizedPhantomQueues<64, 16>>(),
            Size::Any => size_of::<SizedPhantomQueues<MOST, MOST>>(),
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
