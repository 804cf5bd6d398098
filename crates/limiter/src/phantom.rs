//! Policing with phantom queues: PQP [BCPQP §3], and with burst control BC-PQP [BCPQP §4].

mod tree;

use std::sync::Arc;

use crate::{Decision, Kind, Meter, Nanos, PacketMeta, Program, Rate};
use tree::Tree;

#[cfg(test)]
mod tests;

/// Burst control, [BCPQP §4]: what fills a phantom queue before its flow has done so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurstControl {
    /// T: the time over which accepted bytes are counted.
    pub period: Nanos,
    /// θ+ in thousandths: a queue that accepts more than this part of what it is served in a
    /// period is filled with magic bytes.
    pub upper: u32,
    /// θ− in thousandths: from a queue that accepts less, they are taken out again.
    pub lower: u32,
}

impl Default for BurstControl {
    /// What the paper recommends: 100 ms, 1.5 and 0.5.
    fn default() -> Self {
        Self {
            period: 100_000_000,
            upper: 1500,
            lower: 500,
        }
    }
}

/// Why phantom queues cannot be set up so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PhantomError {
    /// The policy needs more of something than the type has room for.
    #[error("the policy has {found} {what}, and there is room for {room}")]
    Room {
        /// Queues, or sharing nodes.
        what: &'static str,
        /// How many the policy has.
        found: usize,
        /// How many there may be.
        room: usize,
    },
    /// Queues of no size, or of more than 2^60 bytes together.
    #[error(
        "a phantom queue has at least 1 byte, and all together at most 2^60; {0} is out of range"
    )]
    Size(u64),
    /// A rate that is not between 8 kbit/s and 400 Gbit/s.
    #[error("{0} is out of range: phantom queues serve from 8 kbit/s to 400 Gbit/s")]
    Rate(Rate),
    /// A period of 0 or of more than a minute.
    #[error("the period of burst control is between 1 ns and 60 s")]
    Period,
    /// Thresholds out of order or out of range.
    #[error("burst control needs a lower threshold below its upper one, which is at most 1000")]
    Thresholds,
}

/// Limits an aggregate by phantom queues, at a policer's cost.
///
/// A packet passes if its phantom queue has room for it, and is counted in; the queues are drained
/// at the aggregate's rate as the policy shares it. With burst control, a queue that accepts
/// bytes faster than its rate is filled at once, so that its flow meets losses before it bursts.
///
/// Room for `QUEUES` queues and `SHARES` sharing nodes is inside: 16 queues and one node are less
/// than 1 KiB.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_limiter::*;
/// let program = Arc::new(Program::new(&PolicyTree::fair(16)?));
/// let rate = "10mbit".parse()?;
/// let mut limiter: PhantomQueues = PhantomQueues::new(
///     program, rate, 1_000_000, Some(BurstControl::default()), 0)?;
/// let packet = PacketMeta { bytes: 1500, queue: 3, ..PacketMeta::default() };
/// assert_eq!(limiter.offer(0, &packet), Decision::Pass);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
// In this order what every packet needs comes first, in two cache lines for a flat policy; its
// queue is in one or two more.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct PhantomQueues<const QUEUES: usize = 16, const SHARES: usize = 1> {
    program: Arc<Program>,
    meter: Meter,
    /// B, in bytes.
    size: u64,
    /// T; endless without burst control.
    period: Nanos,
    /// When queues that nothing is sent to any more are looked for next.
    due: Nanos,
    /// θ+ rT and θ− rT of the aggregate, in bytes; endless and 0 without burst control.
    thresholds: (u64, u64),
    /// Fair shares among the queues, and nothing else: most packets need not settle anything.
    fair: bool,
    tree: Tree<QUEUES, SHARES>,
}

impl<const QUEUES: usize, const SHARES: usize> PhantomQueues<QUEUES, SHARES> {
    /// Empty queues of so many bytes each. Without burst control this is PQP.
    ///
    /// # Errors
    /// If the policy is too large for the type or a number is out of range.
    pub fn new(
        program: Arc<Program>,
        rate: Rate,
        size: u64,
        control: Option<BurstControl>,
        now: Nanos,
    ) -> Result<Self, PhantomError> {
        for (what, found, room) in [
            ("queues", program.queues(), QUEUES),
            ("sharing nodes", program.shares(), SHARES),
        ] {
            if found > room {
                return Err(PhantomError::Room { what, found, room });
            }
        }
        if !(1..=(1 << 60) / program.queues() as u64).contains(&size) {
            return Err(PhantomError::Size(size));
        }
        let mut new = Self {
            fair: program.nodes()[1..]
                .iter()
                .all(|node| node.parent == 0 && node.weight == 1)
                && matches!(program.nodes()[0].kind, Kind::Weighted),
            program,
            meter: Meter::new(rate, now),
            size,
            period: Nanos::MAX,
            due: Nanos::MAX,
            thresholds: (0, 0),
            tree: Tree::new(),
        };
        new.set(now, rate, control)?;
        Ok(new)
    }

    /// Another rate or burst control from now on; queues keep what is in them.
    ///
    /// # Errors
    /// If a number is out of range; nothing is changed then.
    pub fn set(
        &mut self,
        now: Nanos,
        rate: Rate,
        control: Option<BurstControl>,
    ) -> Result<(), PhantomError> {
        if !(8_000..=400_000_000_000).contains(&rate.bits_per_second()) {
            return Err(PhantomError::Rate(rate));
        }
        let mut thresholds = (u64::MAX, 0);
        if let Some(control) = control {
            if !(1..=60_000_000_000).contains(&control.period) {
                return Err(PhantomError::Period);
            }
            if control.lower >= control.upper || control.upper > 1_000_000 {
                return Err(PhantomError::Thresholds);
            }
            // bit/s × ns × thousandths
            let of = |thousandths: u32| {
                let product = u128::from(rate.bits_per_second())
                    * u128::from(control.period)
                    * u128::from(thousandths);
                (product / 8_000_000_000_000) as u64
            };
            thresholds = (of(control.upper), of(control.lower));
        }
        self.advance(now);
        self.meter.set_rate(rate);
        self.thresholds = thresholds;
        self.period = control.map_or(Nanos::MAX, |control| control.period);
        self.due = if control.is_some() { 0 } else { Nanos::MAX };
        Ok(())
    }

    /// Decides about a packet. Times that go back count as the latest so far.
    ///
    /// # Panics
    /// If the policy has no such queue.
    #[inline]
    pub fn offer(&mut self, now: Nanos, packet: &PacketMeta) -> Decision {
        let (queue, bytes) = (usize::from(packet.queue), u64::from(packet.bytes));
        let now = self.advance(now);
        let began = self.tree.queues[queue].began;
        if self.fair && now < self.due && now.wrapping_sub(began) < self.period {
            let upper = self.thresholds.0;
            if let Some(decision) = self.tree.offer_unsettled(queue, bytes, self.size, upper) {
                return decision;
            }
        }
        self.offer_settled(now, packet)
    }

    /// Decides about a packet with everything that it depends on brought up to date.
    #[inline(never)]
    fn offer_settled(&mut self, now: Nanos, packet: &PacketMeta) -> Decision {
        let (queue, bytes) = (usize::from(packet.queue), u64::from(packet.bytes));
        if now >= self.due {
            self.end_periods(now);
        }
        let program = &*self.program;
        let path = program.path(packet.queue);
        let tree = &mut self.tree;
        tree.settle(program, path, queue);
        let at = &tree.queues[queue];
        if at.length() > 0 && now - at.began >= self.period {
            tree.end_period(program, path, queue, now, self.period, self.thresholds.1);
            tree.settle(program, path, queue);
        }
        let length = tree.queues[queue].length();
        if length + bytes > self.size {
            return Decision::Drop;
        }
        tree.add(program, path, queue, bytes);
        if self.period != Nanos::MAX {
            let at = &mut tree.queues[queue];
            if length == 0 {
                (at.accepted, at.began) = (0, now);
            }
            at.accepted += bytes;
            if tree.is_to_be_filled(program, path, queue, self.thresholds.0) {
                tree.add_magic(program, path, queue, self.size - length - bytes);
            }
        }
        Decision::Pass
    }

    /// Ends all periods that are over, also of queues that nothing is sent to any more.
    #[cold]
    fn end_periods(&mut self, now: Nanos) {
        let program = &*self.program;
        self.tree.settle_all(program);
        for queue in 0..program.queues() {
            let at = &self.tree.queues[queue];
            if at.length() > 0 && now - at.began >= self.period {
                let path = program.path(queue as u16);
                let lower = self.thresholds.1;
                self.tree
                    .end_period(program, path, queue, now, self.period, lower);
            }
        }
        self.due = now.saturating_add(self.period);
    }

    #[inline]
    fn advance(&mut self, now: Nanos) -> Nanos {
        let bytes = self.meter.advance(now);
        self.tree.give(bytes);
        if self.tree.backlog() == 0 {
            self.meter.forget();
        }
        self.meter.at()
    }

    /// The policy.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The size of each queue in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of all queues together that are still to be drained.
    pub fn backlog(&self) -> u64 {
        self.tree.backlog()
    }

    /// Each queue's bytes, and of these the magic ones, at a time.
    pub fn occupancy(&mut self, now: Nanos) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.advance(now);
        self.tree.settle_all(&self.program);
        #[cfg(test)]
        self.tree.check(&self.program);
        self.tree.queues[..self.program.queues()]
            .iter()
            .map(|queue| (queue.length(), queue.magic()))
    }
}
