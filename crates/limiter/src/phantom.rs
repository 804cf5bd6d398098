//! Policing with phantom queues: PQP [BCPQP §3], and with burst control BC-PQP [BCPQP §4].

mod ahead;
mod queue;
mod tree;

use std::sync::Arc;

use crate::meter::BYTE;
use crate::prefetch::prefetch;
use crate::{Decision, Meter, Nanos, PacketMeta, Program, Rate};
use ahead::Ahead;
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
// What most packets need is in the first cache line and in their queue's half of another one.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct PhantomQueues<const QUEUES: usize = 16, const SHARES: usize = 1> {
    ahead: Ahead,
    // What some need besides, in another.
    /// T; endless without burst control.
    period: Nanos,
    /// Of how many active queues `least` and what is known ahead are.
    active: u32,
    /// Fair shares among the queues, and nothing else: things can be known ahead.
    fair: bool,
    /// The part of each queue of θ− rT, in bytes; 0 without burst control.
    least: u64,
    /// When queues that nothing is sent to any more are looked for next.
    due: Nanos,
    meter: Meter,
    program: Arc<Program>,
    tree: Tree<QUEUES, SHARES>,
    /// θ+ rT and θ− rT of the aggregate, in bytes; endless and 0 without burst control.
    thresholds: (u64, u64),
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
            fair: program.is_fair(),
            ahead: Ahead::NOTHING,
            tree: Tree::new(size),
            program,
            meter: Meter::new(rate, now),
            period: Nanos::MAX,
            due: Nanos::MAX,
            thresholds: (0, 0),
            least: 0,
            active: 0,
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
        let now = self.latest(now);
        self.advance(now);
        self.meter.set_rate(rate);
        self.thresholds = thresholds;
        let period = control.map_or(Nanos::MAX, |control| control.period);
        for at in &mut self.tree.queues {
            at.set_period(self.period, period);
        }
        self.period = period;
        self.due = if control.is_some() { 0 } else { Nanos::MAX };
        // The next packet settles, and looks ahead again.
        (self.ahead.event, self.active) = (0, 0);
        Ok(())
    }

    /// Decides about a packet. Times that go back count as the latest so far.
    ///
    /// # Panics
    /// If the policy has no such queue.
    #[inline]
    pub fn offer(&mut self, now: Nanos, packet: &PacketMeta) -> Decision {
        let now = self.latest(now);
        let at = &mut self.tree.queues[usize::from(packet.queue)];
        match self.ahead.offer(at, now, packet.bytes) {
            Some(decision) => decision,
            None => self.offer_settled(now, packet),
        }
    }

    /// Asks for the memory that a packet to this queue will need. Who has a burst of packets at
    /// once asks for all of them before the first is offered, and so waits for memory once and not
    /// for each: with many thousand limiters, waiting is most of what they cost.
    #[inline]
    pub fn prefetch(&self, queue: u16) {
        prefetch(&self.ahead);
        if let Some(at) = self.tree.queues.get(usize::from(queue)) {
            prefetch(at);
        }
    }

    /// Decides about a packet with everything that it depends on brought up to date.
    #[inline(never)]
    fn offer_settled(&mut self, now: Nanos, packet: &PacketMeta) -> Decision {
        if now < self.ahead.event {
            // Nothing happened but to this queue.
            let at = &mut self.tree.queues[usize::from(packet.queue)];
            at.go_on(now, self.period, self.least);
            let ahead = &mut self.ahead;
            if let Some(decision) = ahead.offer_exactly(at, now, packet.bytes, self.active) {
                return decision;
            }
        }
        self.advance(now);
        if now >= self.due {
            self.end_periods(now);
        }
        let decision = self.decide(now, packet);
        self.look_ahead();
        decision
    }

    #[inline(always)]
    fn decide(&mut self, now: Nanos, packet: &PacketMeta) -> Decision {
        let (queue, bytes) = (usize::from(packet.queue), u64::from(packet.bytes));
        let program = &*self.program;
        let path = program.path(packet.queue);
        let tree = &mut self.tree;
        tree.settle(program, path);
        let at = &tree.queues[queue];
        if at.is_active() && now >= at.until && at.until != Nanos::MAX {
            tree.end_period(program, path, queue, now, self.period, self.thresholds.1);
            tree.settle(program, path);
        }
        let length = tree.length(path, queue);
        if length + bytes > tree.size {
            return Decision::Drop;
        }
        if length + bytes == 0 {
            return Decision::Pass;
        }
        tree.add(path, queue, bytes);
        if self.period != Nanos::MAX {
            if length == 0 {
                tree.queues[queue].until = now.saturating_add(self.period);
            }
            if tree.is_to_be_filled(program, path, queue, self.thresholds.0) {
                tree.add_magic(path, queue, tree.size - length - bytes);
            }
        }
        Decision::Pass
    }

    /// Works out what most of the next packets need.
    #[inline]
    fn look_ahead(&mut self) {
        let (ahead, root) = (&mut self.ahead, &self.tree.shares[0]);
        if !self.fair || root.weight == 0 {
            ahead.event = 0;
            return;
        }
        if self.active != root.weight {
            self.active = root.weight;
            let (upper, lower) = self.thresholds;
            ahead.share(root.weight, upper / u64::from(root.weight));
            self.least = lower / u64::from(root.weight);
        }
        let until = root.empties.wrapping_sub(root.clock);
        // What the clock was not advanced for yet.
        let owed = root.credit * BYTE + self.meter.remainder();
        ahead.look(
            (self.meter.at(), self.meter.rate().bits_per_second()),
            root.weight,
            (root.clock, until, owed),
            self.tree.size,
        );
        ahead.event = ahead.event.min(self.due);
    }

    /// Ends all periods that are over, also of queues that nothing is sent to any more.
    #[cold]
    fn end_periods(&mut self, now: Nanos) {
        let program = &*self.program;
        self.tree.settle_all(program);
        for queue in 0..program.queues() {
            let at = &self.tree.queues[queue];
            if at.is_active() && now >= at.until {
                let path = program.path(queue as u16);
                let lower = self.thresholds.1;
                self.tree
                    .end_period(program, path, queue, now, self.period, lower);
            }
        }
        self.due = now.saturating_add(self.period);
    }

    #[inline]
    fn latest(&mut self, now: Nanos) -> Nanos {
        self.ahead.latest = now.max(self.ahead.latest);
        self.ahead.latest
    }

    /// Brings the root up to date.
    #[inline]
    fn advance(&mut self, now: Nanos) {
        let root = &mut self.tree.shares[0];
        root.length += std::mem::take(&mut self.ahead.added);
        let bytes = self.meter.advance(now);
        self.tree.give(bytes);
        if self.tree.backlog() == 0 {
            self.meter.forget();
        }
    }

    /// The policy.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The size of each queue in bytes.
    pub fn size(&self) -> u64 {
        self.tree.size
    }

    /// Bytes of all queues together that are still to be drained, as of the latest packet.
    pub fn backlog(&self) -> u64 {
        let given = self.meter.clone().advance(self.ahead.latest);
        (self.tree.backlog() + self.ahead.added).saturating_sub(given)
    }

    /// Each queue's bytes, and of these the magic ones, at a time.
    pub fn occupancy(&mut self, now: Nanos) -> impl Iterator<Item = (u64, u64)> + '_ {
        let now = self.latest(now);
        self.advance(now);
        self.tree.settle_all(&self.program);
        #[cfg(test)]
        self.tree.check(&self.program);
        self.look_ahead();
        let (program, tree) = (&self.program, &self.tree);
        (0..program.queues()).map(|queue| {
            let path = program.path(queue as u16);
            (tree.length(path, queue), tree.magic(path, queue))
        })
    }
}
