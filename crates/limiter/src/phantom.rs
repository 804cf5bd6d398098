//! Policing with phantom queues: PQP [BCPQP §3], and with burst control BC-PQP [BCPQP §4].

mod ahead;
mod config;
mod queue;
mod roomy;
mod share;
mod tree;

use std::sync::Arc;

use crate::error::check_rate;
use crate::meter::BYTE;
use crate::policy::Room;
use crate::prefetch::prefetch;
use crate::{ConfigError, Decision, Field, Meter, Nanos, PacketMeta, Program, Rate};
use ahead::Ahead;
use tree::{PACKET, Tree};

pub use config::{BurstControl, PaperControl, PhantomQueuesConfig, Thresholds};
pub use roomy::PhantomQueues;

#[cfg(test)]
mod tests;

/// [`PhantomQueues`] of one size, for measurements and tests that choose it.
///
/// Room for `QUEUES` queues and `SHARES` sharing nodes is inside, without a pointer to follow.
// What most packets need is in the first cache line and in their queue's half of another one.
#[derive(Debug, Clone)]
#[doc(hidden)]
#[repr(C, align(64))]
pub struct SizedPhantomQueues<const QUEUES: usize, const SHARES: usize> {
    ahead: Ahead,
    // What some need besides, in another.
    /// After which time queues are looked at again that nothing may be sent to any more; endless
    /// without burst control.
    period: Nanos,
    /// Of how many active queues what is known ahead is.
    active: u32,
    /// Fair shares among the queues, and nothing else: things can be known ahead.
    fair: bool,
    /// Burst control as in the paper. Then nothing is known ahead.
    paper: bool,
    /// When they are looked at next. 0 before the first packet.
    due: Nanos,
    meter: Meter,
    program: Arc<Program>,
    tree: Tree<QUEUES, SHARES>,
    /// Of the aggregate, in bytes: what a filled queue may have in its burst bucket, and what it must
    /// accept to keep its magic bytes; endless and 0 without burst control. In the paper's: θ+ rT
    /// and θ− rT.
    thresholds: (u64, u64),
}

impl<const QUEUES: usize, const SHARES: usize> SizedPhantomQueues<QUEUES, SHARES> {
    /// Empty queues.
    ///
    /// # Errors
    /// If the policy is too large for the type.
    pub fn new(config: &PhantomQueuesConfig, now: Nanos) -> Result<Self, ConfigError> {
        let (queues, shares) = (QUEUES, SHARES);
        config.program().check_room(Room { queues, shares })?;
        Ok(Self::empty(config, now))
    }

    /// Empty queues of a policy that there is room for.
    fn empty(config: &PhantomQueuesConfig, now: Nanos) -> Self {
        let program = Arc::clone(config.program());
        let mut new = Self {
            fair: program.is_fair(),
            ahead: Ahead::NOTHING,
            tree: Tree::new(config.queue()),
            program,
            meter: Meter::new(config.rate(), now),
            period: Nanos::MAX,
            due: Nanos::MAX,
            thresholds: (0, 0),
            active: 0,
            paper: false,
        };
        new.apply(now, config.rate(), config.burst_control());
        new
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
        check_rate(Field::Rate, rate)?;
        self.apply(now, rate, control);
        Ok(())
    }

    fn apply(&mut self, now: Nanos, rate: Rate, control: Option<BurstControl>) {
        let now = self.latest(now);
        self.advance(now);
        self.meter.set_rate(rate);
        self.thresholds = control.map_or((u64::MAX, 0), |control| {
            (control.upper_bytes(rate), control.lower_bytes(rate))
        });
        let period = control.map_or(Nanos::MAX, |control| control.period());
        let paper = matches!(control, Some(BurstControl::Paper(_)));
        self.set_form(paper, period);
        self.due = if control.is_some() { 0 } else { Nanos::MAX };
        // The next packet settles, and looks ahead again.
        (self.ahead.event, self.active) = (0, 0);
    }

    /// Prepares what queues keep for another form of burst control, or other periods of the paper's.
    fn set_form(&mut self, paper: bool, period: Nanos) {
        let program = &*self.program;
        if paper || self.paper {
            self.tree.settle_all(program);
        }
        for queue in 0..program.queues() {
            if !self.tree.queues[queue].is_active() {
                continue;
            }
            if paper {
                let old = if self.paper { self.period } else { Nanos::MAX };
                self.tree.queues[queue].set_period(old, period);
            } else if self.paper {
                self.tree.empty_bucket(program.path(queue as u16), queue);
            }
        }
        (self.paper, self.tree.buckets, self.period) = (paper, !paper, period);
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

    /// Asks for the memory that a packet to this queue will need. With a burst of packets, call it
    /// for each of them before the first is offered: the processor then waits for memory once, not
    /// for each packet. With many thousand limiters, waiting is most of what they cost.
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
        self.advance(now);
        if now >= self.due {
            self.look_at_all(now);
        }
        let decision = match self.paper {
            false => self.decide(packet),
            true => self.decide_by_periods(now, packet),
        };
        self.look_ahead();
        decision
    }

    /// A packet that finds the burst bucket too full is dropped. The first one fills the queue with
    /// magic bytes.
    #[inline(always)]
    fn decide(&mut self, packet: &PacketMeta) -> Decision {
        let (queue, bytes) = (usize::from(packet.queue), u64::from(packet.bytes));
        let program = &*self.program;
        let path = program.path(packet.queue);
        let (tree, (upper, lower)) = (&mut self.tree, self.thresholds);
        tree.settle(program, path);
        if self.period != Nanos::MAX && tree.bursts(path, queue, upper) {
            if !tree.queues[queue].is_filled() {
                tree.fill(path, queue, 2 * tree.share_of(program, path, lower));
            }
            return Decision::Drop;
        }
        let length = tree.length(path, queue);
        if length + bytes > tree.size {
            return Decision::Drop;
        }
        if length + bytes > 0 {
            tree.add(path, queue, bytes);
            if length == 0 {
                tree.empty_bucket(path, queue);
            }
            tree.pour(path, queue, bytes);
        }
        Decision::Pass
    }

    /// Burst control as in the paper: a queue that accepts too much in a period is filled.
    fn decide_by_periods(&mut self, now: Nanos, packet: &PacketMeta) -> Decision {
        let (queue, bytes) = (usize::from(packet.queue), u64::from(packet.bytes));
        let program = &*self.program;
        let path = program.path(packet.queue);
        let (tree, (upper, lower)) = (&mut self.tree, self.thresholds);
        tree.settle(program, path);
        let at = &tree.queues[queue];
        if at.is_active() && now >= at.mark {
            tree.end_period(program, path, queue, now, self.period, lower);
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
        if length == 0 {
            tree.queues[queue].mark = now.saturating_add(self.period);
        }
        if tree.is_to_be_filled(program, path, queue, upper) {
            tree.add_magic(path, queue, tree.size - length - bytes);
        }
        Decision::Pass
    }

    /// Works out what most of the next packets need.
    #[inline]
    fn look_ahead(&mut self) {
        let (ahead, root) = (&mut self.ahead, &self.tree.shares[0]);
        if !self.fair || self.paper || root.weight == 0 {
            ahead.event = 0;
            return;
        }
        if self.active != root.weight {
            self.active = root.weight;
            let most = self.thresholds.0 / u64::from(root.weight);
            ahead.share(root.weight, most.max(PACKET));
        }
        let until = root.empties.wrapping_sub(root.clock);
        // What the clock was not advanced for yet.
        let owed = root.credit * BYTE + self.meter.remainder();
        ahead.begin(
            (self.meter.at(), self.meter.rate().bits_per_second()),
            root.weight,
            (root.clock, until, owed),
        );
        ahead.event = ahead.event.min(self.due);
    }

    /// Looks at all queues, also those that nothing is sent to any more.
    #[cold]
    fn look_at_all(&mut self, now: Nanos) {
        let program = &*self.program;
        let tree = &mut self.tree;
        tree.settle_all(program);
        let missed = match self.due {
            0 => 0,
            due => (now - due) / self.period,
        };
        for queue in 0..program.queues() {
            let (at, path) = (&tree.queues[queue], program.path(queue as u16));
            if !self.paper && at.is_filled() {
                tree.look_back(program, path, queue, missed, self.thresholds);
            } else if self.paper && at.is_active() && now >= at.mark {
                tree.end_period(program, path, queue, now, self.period, self.thresholds.1);
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

    /// How full each queue is at a time.
    pub fn occupancy(&mut self, now: Nanos) -> impl Iterator<Item = QueueFill> + '_ {
        let now = self.latest(now);
        self.advance(now);
        self.tree.settle_all(&self.program);
        #[cfg(test)]
        self.tree.check(&self.program);
        self.look_ahead();
        let (program, tree) = (&self.program, &self.tree);
        (0..program.queues()).map(|queue| {
            let path = program.path(queue as u16);
            QueueFill {
                bytes: tree.length(path, queue),
                magic: tree.magic(path, queue),
            }
        })
    }
}

/// How full a phantom queue is.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueFill {
    /// Its bytes.
    pub bytes: u64,
    /// How many of them are magic.
    pub magic: u64,
}
