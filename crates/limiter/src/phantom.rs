//! Policing with phantom queues: PQP [BCPQP §3], and with burst control BC-PQP [BCPQP §4].

mod ahead;
mod config;
mod crowd;
mod draw;
mod marks;
mod placement;
mod queue;
mod roomy;
mod share;
mod tree;
mod used;

use std::sync::Arc;

use crate::error::check_rate;
use crate::meter::BYTE;
use crate::policy::Room;
use crate::prefetch::prefetch;
use crate::{ConfigError, Decision, Field, Meter, Nanos, PacketMeta, Program, Rate, Share};
use ahead::Ahead;
use config::{LASTS, mark_bytes};
use marks::mark_level;
use placement::Placement;
use tree::{PACKET, Tree};

pub use config::{BurstControl, PaperControl, PhantomQueuesConfig, Thresholds};
pub use roomy::PhantomQueues;

#[cfg(test)]
mod tests;

/// Silence is long from this many periods on after a look was due, see `advance`.
const SILENT: u64 = 4;

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
    /// After this time burst control looks again at queues whose flows may have ended; endless without burst
    /// control.
    period: Nanos,
    /// The number of active queues for which decisions were computed ahead.
    active: u32,
    /// Fair shares among the queues, and nothing else: things can be known ahead.
    fair: bool,
    /// Burst control as in the paper. Then nothing is known ahead.
    paper: bool,
    ecn: bool,
    /// The share of rate, thresholds and marking level that is in use.
    share: Share,
    /// The part of the whole rate that was used between the latest two looks; 0 if it was said.
    used: u32,
    /// With less room than this, a queue that is alone marks packets; 0 if nothing is marked.
    mark: u32,
    /// The same of each queue, as long as decisions are computed ahead.
    mark_each: u32,
    /// So long, what each is served in two periods.
    served_each: u64,
    /// When they are looked at next. 0 before the first packet.
    due: Nanos,
    meter: Meter,
    program: Arc<Program>,
    tree: Tree<QUEUES, SHARES>,
    /// Of the aggregate, in bytes: what a filled queue may have in its burst bucket, and what it must
    /// accept to keep its magic bytes; endless and 0 without burst control. In the paper's: θ+ rT
    /// and θ− rT.
    thresholds: (u64, u64),
    /// Bytes that passed so far, except those that the root does not know of.
    passed: u64,
    /// These at the latest look, less the surplus of that time, and those since that saved bytes served.
    base: u64,
    /// Bytes of the rate that were left unused and may serve the queues at once, and the most of them, see
    /// [`PhantomQueuesConfig::with_boost`].
    saved: u64,
    boost: u64,
    /// Rate, thresholds and marking level, if only a share of them is in use.
    whole: Option<Box<Terms>>,
    placement: Placement<QUEUES>,
}

/// What depends on the rate.
#[derive(Debug, Clone, Copy)]
struct Terms {
    rate: Rate,
    thresholds: (u64, u64),
    mark: u32,
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
            ecn: config.ecn(),
            mark: 0,
            mark_each: 0,
            served_each: 0,
            passed: 0,
            base: 0,
            saved: config.boost(),
            boost: config.boost(),
            share: Share::WHOLE,
            whole: None,
            placement: Placement::NOBODY,
            used: 0,
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
        self.advance_to(now);
        let period = control.map_or(Nanos::MAX, |control| control.period());
        let paper = matches!(control, Some(BurstControl::Paper(_)));
        self.set_form(paper, period);
        let marks = self.ecn && !paper;
        self.whole = None;
        self.use_terms(Terms {
            rate,
            thresholds: control.map_or((u64::MAX, 0), |control| {
                (control.upper_bytes(rate), control.lower_bytes(rate))
            }),
            mark: if marks { mark_bytes(rate) } else { 0 },
        });
        self.take_share(self.share);
        self.due = if control.is_some() { 0 } else { Nanos::MAX };
    }

    /// Another limit of what may be saved, see [`PhantomQueuesConfig::with_boost`]. What is saved beyond it is lost.
    pub fn set_boost(&mut self, boost: u64) {
        self.boost = boost;
        self.saved = self.saved.min(boost);
    }

    /// Uses this share of the rate from the latest packet on, see [`Hierarchy`](crate::Hierarchy).
    #[inline]
    pub fn set_share(&mut self, share: Share) {
        if share != self.share {
            // Saved bytes serve the queues only when a packet comes.
            self.give(self.ahead.latest);
            self.take_share(share);
        }
    }

    #[cold]
    fn take_share(&mut self, share: Share) {
        self.share = share;
        let present = Terms {
            rate: self.meter.rate(),
            thresholds: self.thresholds,
            mark: self.mark,
        };
        let whole = match &self.whole {
            Some(whole) => **whole,
            None => {
                self.whole = (share < Share::WHOLE).then(|| Box::new(present));
                present
            }
        };
        if share == Share::WHOLE {
            self.whole = None;
        }
        let (upper, lower) = whole.thresholds;
        self.use_terms(Terms {
            rate: share.rate(whole.rate),
            thresholds: (share.of(upper), share.of(lower)),
            mark: share.of(whole.mark.into()) as u32,
        });
    }

    fn use_terms(&mut self, terms: Terms) {
        self.meter.set_rate(terms.rate);
        self.thresholds = terms.thresholds;
        self.mark = terms.mark;
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
        if !self.placement.is_at_home(packet) {
            return self.offer_placed(now, packet);
        }
        self.offer_queued(now, packet)
    }

    /// Whether flows have queues of their own. The schemes of the paper are as they were published.
    #[inline(always)]
    fn places(&self) -> bool {
        !self.paper && self.period != Nanos::MAX
    }

    #[inline(always)]
    fn offer_queued(&mut self, now: Nanos, packet: &PacketMeta) -> Decision {
        let at = &mut self.tree.queues[usize::from(packet.queue)];
        let decision = match self.ahead.offer(at, now, packet.bytes) {
            Some(Some(room)) if packet.ecn.is_capable() => self.mark_ahead(packet, room),
            Some(Some(_)) => Decision::Pass,
            Some(None) => Decision::Drop,
            None => self.offer_settled(now, packet),
        };
        if decision == Decision::Drop && self.places() {
            let crowd = &mut self.placement.crowd;
            crowd.note_drop(packet.queue, packet.bytes);
        }
        decision
    }

    /// Decides about a packet whose flow does not have the queue of its hash, or need not.
    #[inline(never)]
    fn offer_placed(&mut self, now: Nanos, packet: &PacketMeta) -> Decision {
        let mut queue = packet.queue;
        if self.places() && packet.class.queues > 1 {
            queue = match self.placement.find(packet) {
                Some(queue) => queue,
                None => self.place(now, packet),
            };
        }
        self.offer_queued(now, &PacketMeta { queue, ..*packet })
    }

    /// A queue for a flow that has none.
    fn place(&mut self, now: Nanos, packet: &PacketMeta) -> u16 {
        self.advance(now);
        self.tree.settle_all(&self.program);
        self.look_ahead();
        let queues = &self.tree.queues;
        let accepted = |queue| {
            let at = queues.get(usize::from(queue))?;
            at.is_active().then(|| at.accepted())
        };
        let flood = self.program.queues() <= crowd::QUEUES;
        self.placement.place(now, packet, accepted, flood)
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
            false => self.decide(now, packet),
            true => self.decide_by_periods(now, packet),
        };
        self.look_ahead();
        decision
    }

    /// A packet that finds the burst bucket too full is dropped. The first one fills the queue with
    /// magic bytes.
    ///
    /// An ECN-capable packet is marked if it leaves little room in its queue, or soon will. The first such packet of a sender that
    /// exceeds the rate fills the queue, but for the room that the burst bucket would still let pass: so the sender
    /// has a round trip to answer. Else packets pass and are dropped as if nothing were marked.
    #[inline(always)]
    fn decide(&mut self, now: Nanos, packet: &PacketMeta) -> Decision {
        let (queue, bytes) = (usize::from(packet.queue), u64::from(packet.bytes));
        let program = &*self.program;
        let path = program.path(packet.queue);
        self.tree.settle(program, path);
        let marks = self.mark > 0 && packet.ecn.is_capable();
        let mut told = false;
        if self.period != Nanos::MAX {
            let (upper, lower) = self.thresholds;
            let filled = self.tree.queues[queue].is_filled();
            let most = if filled { upper } else { self.allowance(now) };
            let tree = &mut self.tree;
            let exceeds = tree.bursts(path, queue, most);
            told = !filled && marks && tree.lasts(path, queue, upper / LASTS);
            if !filled && (exceeds || told) {
                let room = match exceeds {
                    true => 0,
                    false => tree.burst_room(path, queue, most),
                };
                tree.fill(path, queue, room, 2 * tree.share_of(program, path, lower));
            }
            if exceeds {
                return Decision::Drop;
            }
        }
        let tree = &mut self.tree;
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
        self.passed += bytes;
        if !marks || length + bytes == 0 {
            return Decision::Pass;
        }
        if told {
            return Decision::Ce;
        }
        self.mark_settled(now, packet)
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
        // Saved bytes serve the queues at each packet.
        if !self.fair || self.paper || root.weight == 0 || self.saved > 0 {
            ahead.event = 0;
            return;
        }
        if self.active != root.weight {
            self.active = root.weight;
            let most = self.thresholds.0 / u64::from(root.weight);
            ahead.share(root.weight, most.max(PACKET));
            self.mark_each = mark_level((self.mark / root.weight).into(), self.tree.size);
            self.served_each = self.thresholds.0 / u64::from(root.weight);
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
        // Without burst control a look is due only at the last instant that a time can name.
        if self.period == Nanos::MAX {
            return;
        }
        let surplus = match self.paper || self.due == 0 {
            true => 0,
            false => self.surplus(now).min(self.thresholds.0),
        };
        self.used = self.used_since(now);
        self.base = self.passed.wrapping_sub(surplus);
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

    /// Brings the root up to date. If no packet came for long, nobody looked when the flows had ended. Their magic bytes
    /// would go on draining, at the cost of what the aggregate saves.
    #[inline]
    fn advance(&mut self, now: Nanos) {
        if self.boost > 0
            && let Some(looked) = self.silent_since()
            && now > looked
        {
            self.advance_to(looked);
            self.look_at_all(now);
        }
        self.advance_to(now);
    }

    /// The time after which silence is long: the looks at which the magic bytes of flows that ended are taken out should
    /// have been by then.
    fn silent_since(&self) -> Option<Nanos> {
        let looks = !self.paper && self.due > 0;
        looks.then(|| self.due.saturating_add(SILENT.saturating_mul(self.period)))
    }

    #[inline]
    fn advance_to(&mut self, now: Nanos) {
        let unused = self.give(now);
        if self.boost > 0 {
            self.serve_saved(unused);
        }
        if self.tree.backlog() == 0 {
            self.meter.forget();
        }
    }

    /// Gives the bytes of the rate to the root. Returns those that it has no use for.
    #[inline]
    fn give(&mut self, now: Nanos) -> u64 {
        let root = &mut self.tree.shares[0];
        let added = std::mem::take(&mut self.ahead.added);
        root.length += added;
        self.passed += added;
        let bytes = self.meter.advance(now);
        self.tree.give(bytes)
    }

    /// Saves bytes of the rate, or serves the queues with saved ones: not below a node that is full, where they would be
    /// at the cost of others. Bytes that pass thanks to them are no surplus.
    fn serve_saved(&mut self, unused: u64) {
        if self.share == Share::WHOLE {
            let left = self.tree.give(self.saved);
            // Magic bytes may be among those that were served.
            let surplus = self.passed.wrapping_sub(self.base);
            let served = (self.saved - left).min(surplus);
            self.base = self.base.wrapping_add(served);
            self.saved = left;
        }
        self.saved = self.saved.saturating_add(unused).min(self.boost);
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
        self.backlog_and_saved().0
    }

    /// Bytes that are saved, as of the latest packet, see [`PhantomQueuesConfig::with_boost`].
    pub fn saved(&self) -> u64 {
        self.backlog_and_saved().1
    }

    fn backlog_and_saved(&self) -> (u64, u64) {
        let given = self.meter.clone().advance(self.ahead.latest);
        let waits = (self.tree.backlog() + self.ahead.added).saturating_sub(given);
        let served = match self.share {
            Share::WHOLE => waits.min(self.saved),
            _ => 0,
        };
        (waits - served, self.saved - served)
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
