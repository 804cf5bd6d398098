//! Phantom queues, drained lazily but as if all the time.
//!
//! Each sharing node has a clock: the bytes per weight that every active child of it was given so
//! far. A queue is kept as what that clock, times its weight, is when all of it is drained; its
//! backlog is what the clock has to go. So a packet costs one step for each level of the
//! policy, however many queues are active, and all active queues are looked at only when one of
//! them runs empty. Phantom dequeues are thereby batched [BCPQP §3.1] without the error that a
//! batch makes when it treats packets as present that came in its course: queues share as the
//! fluid reference does, to the byte.

use super::queue::{Queue, WHOLE};
use super::share::{NONE, Share};
use crate::Nanos;
use crate::policy::{Kind, Program, Step};

#[cfg(test)]
mod tests;

/// Bytes of a full packet.
pub(super) const PACKET: u64 = 1500;

/// The state of a tree with room for `QUEUES` queues and `SHARES` sharing nodes.
#[derive(Debug, Clone)]
#[repr(C)]
pub(super) struct Tree<const QUEUES: usize, const SHARES: usize> {
    pub(super) shares: [Share; SHARES],
    /// Of each queue, in bytes.
    pub(super) size: u64,
    /// Whether queues have burst buckets: always, but for burst control as in the paper.
    pub(super) buckets: bool,
    /// For each queue, the next child in the list of the node above it.
    next: [u16; QUEUES],
    pub(super) queues: [Queue; QUEUES],
}

impl<const QUEUES: usize, const SHARES: usize> Tree<QUEUES, SHARES> {
    /// Empty queues with room for `size` bytes each.
    pub(super) fn new(size: u64) -> Self {
        Self {
            queues: [Queue::EMPTY; QUEUES],
            shares: [Share::EMPTY; SHARES],
            next: [NONE; QUEUES],
            size,
            buckets: true,
        }
    }

    /// What the node at the end of a step was given of the clock above it, see [`Queue`].
    #[inline]
    fn drained(&self, step: &Step) -> u64 {
        if step.priority {
            return 0;
        }
        let clock = self.shares[usize::from(step.slot)].clock;
        clock.wrapping_mul(u64::from(step.weight))
    }

    /// Bytes in a queue that is settled.
    #[inline]
    pub(super) fn length(&self, path: &[Step], queue: usize) -> u64 {
        self.queues[queue].length(self.size, self.drained(&path[0]))
    }

    /// Of these, magic ones.
    #[inline]
    pub(super) fn magic(&self, path: &[Step], queue: usize) -> u64 {
        self.queues[queue].magic(self.size, self.drained(&path[0]))
    }

    /// Bytes in the burst bucket of a queue that is settled.
    #[inline]
    pub(super) fn burst(&self, path: &[Step], queue: usize) -> u64 {
        let at = &self.queues[queue];
        match at.is_active() {
            true => at.burst(self.drained(&path[0])),
            false => 0,
        }
    }

    /// All bytes that are to be drained.
    pub(super) fn backlog(&self) -> u64 {
        self.shares[0].length
    }

    /// The rate comes to this many bytes more. Returns those that find nothing to drain: a link that
    /// idles.
    #[inline]
    pub(super) fn give(&mut self, bytes: u64) -> u64 {
        let root = &mut self.shares[0];
        let drained = bytes.min(root.length);
        root.take(drained);
        bytes - drained
    }

    /// Brings a queue up to date, whose path this is, and all nodes above it.
    #[inline(always)]
    pub(super) fn settle(&mut self, program: &Program, path: &[Step]) {
        // Most policies are flat.
        if let [step] = path
            && !step.priority
        {
            self.step(program, 0);
        } else {
            self.settle_path(program, path);
        }
    }

    #[inline(never)]
    fn settle_path(&mut self, program: &Program, path: &[Step]) {
        let mut below: Option<(usize, u32)> = None;
        for step in path.iter().rev() {
            let slot = usize::from(step.slot);
            if let Some((above, weight)) = below.take() {
                let clock = self.shares[above].clock;
                self.shares[slot].pull(clock, weight);
            }
            if step.priority {
                self.serve_first(program, slot);
            } else {
                self.step(program, slot);
                below = Some((slot, step.weight));
            }
        }
    }

    /// Brings all queues up to date.
    pub(super) fn settle_all(&mut self, program: &Program) {
        for slot in 0..program.shares() {
            let node = program.share(slot);
            let parent = &program.nodes()[usize::from(node.parent)];
            if slot != 0 && !matches!(parent.kind, Kind::Priority) {
                let clock = self.shares[usize::from(parent.slot)].clock;
                self.shares[slot].pull(clock, node.weight);
            }
            if matches!(node.kind, Kind::Priority) {
                self.serve_first(program, slot);
            } else {
                self.step(program, slot);
            }
        }
    }

    /// Advances the clock of a sharing node as far as its credit goes.
    #[inline(always)]
    fn step(&mut self, program: &Program, slot: usize) {
        let share = &mut self.shares[slot];
        if share.weight == 0 {
            return;
        }
        // A node that has all it was owed is empty, though the last bytes make no whole step.
        let step = divide(share.credit, share.weight);
        if step < share.empties.wrapping_sub(share.clock) && share.length > 0 {
            share.clock = share.clock.wrapping_add(step);
            share.credit -= step * u64::from(share.weight);
        } else {
            self.empty(program, slot);
        }
    }

    /// Advances a clock past the point where children may run empty.
    #[cold]
    fn empty(&mut self, program: &Program, slot: usize) {
        loop {
            let share = &mut self.shares[slot];
            let all = share.length == 0;
            let step = divide(share.credit, share.weight);
            let until = share.empties.wrapping_sub(share.clock);
            if step < until && !all {
                share.clock = share.clock.wrapping_add(step);
                share.credit -= step * u64::from(share.weight);
                return;
            }
            if !all {
                share.clock = share.clock.wrapping_add(until);
                share.credit -= until * u64::from(share.weight);
            }
            let clock = share.clock;
            let found = if program.is_fair() {
                self.visit_fair(clock, all)
            } else {
                self.visit(program, slot, all)
            };
            let (active, weight, empties, credit) = found;
            let share = &mut self.shares[slot];
            (share.active, share.weight) = (active, weight);
            share.empties = clock.wrapping_add(empties);
            if all {
                share.credit = 0;
            } else {
                share.credit += credit;
            }
            if weight == 0 {
                return;
            }
        }
    }

    /// Drains the children of a node up to its clock, or altogether, and links those again that have
    /// anything left: the first of them, the sum of their weights, steps until one is empty, and
    /// what was too much for those that are.
    #[inline]
    fn visit(&mut self, program: &Program, slot: usize, all: bool) -> (u16, u32, u64, u64) {
        let (clock, mut child) = (self.shares[slot].clock, self.shares[slot].active);
        let (mut active, mut weight, mut empties, mut credit) = (NONE, 0, u64::MAX, 0);
        while child != NONE {
            let node = &program.nodes()[usize::from(child)];
            let slot = usize::from(node.slot);
            let (length, next) = match node.kind {
                Kind::Queue(_) => {
                    let at = &mut self.queues[slot];
                    let drained = clock.wrapping_mul(u64::from(node.weight));
                    let left = at.full.wrapping_add(self.size).wrapping_sub(drained) as i64;
                    if !all && left < 0 {
                        credit += left.unsigned_abs();
                    }
                    let length = if all { 0 } else { left.max(0) as u64 };
                    if length == 0 {
                        at.room = 0;
                    }
                    (length, &mut self.next[slot])
                }
                _ => {
                    let below = &mut self.shares[slot];
                    credit += below.pull(clock, node.weight);
                    if all {
                        below.take(below.length);
                    }
                    (below.length, &mut below.next)
                }
            };
            let following = *next;
            if length > 0 {
                *next = active;
                active = child;
                weight += node.weight;
                empties = empties.min(steps(length, node.weight));
            }
            child = following;
        }
        (active, weight, empties, credit)
    }

    /// The same of a fair share of queues and nothing else, whose nodes follow the root.
    #[inline]
    fn visit_fair(&mut self, clock: u64, all: bool) -> (u16, u32, u64, u64) {
        let mut child = self.shares[0].active;
        let (mut active, mut weight, mut empties) = (NONE, 0, u64::MAX);
        while child != NONE {
            let queue = usize::from(child) - 1;
            let (at, next) = (&mut self.queues[queue], &mut self.next[queue]);
            let following = *next;
            let length = at.full.wrapping_add(self.size).wrapping_sub(clock);
            if all || length == 0 {
                at.room = 0;
            } else {
                (*next, active) = (active, child);
                weight += 1;
                empties = empties.min(length);
            }
            child = following;
        }
        (active, weight, empties, 0)
    }

    /// Hands a priority node's credit to its children in their order.
    fn serve_first(&mut self, program: &Program, slot: usize) {
        let mut credit = std::mem::take(&mut self.shares[slot].credit);
        for child in program.share(slot).children() {
            if credit == 0 {
                break;
            }
            let node = &program.nodes()[child];
            let slot = usize::from(node.slot);
            if matches!(node.kind, Kind::Queue(_)) {
                credit -= self.queues[slot].serve(credit, self.size, self.buckets);
            } else {
                let below = &mut self.shares[slot];
                let drained = credit.min(below.length);
                below.take(drained);
                credit -= drained;
            }
        }
    }

    /// Adds bytes to a queue that is settled.
    #[inline(always)]
    pub(super) fn add(&mut self, path: &[Step], queue: usize, bytes: u64) {
        let drained = self.drained(&path[0]);
        let at = &mut self.queues[queue];
        let mut idle = !at.is_active();
        at.add(bytes, self.size, drained);
        let mut length = bytes;
        for (level, step) in path.iter().enumerate() {
            if idle && !step.priority {
                let next = self.activate(step, length);
                if level == 0 {
                    self.next[queue] = next;
                } else {
                    let clock = self.shares[usize::from(step.slot)].clock;
                    let below = &mut self.shares[usize::from(path[level - 1].slot)];
                    (below.seen, below.next) = (clock, next);
                }
            }
            let share = &mut self.shares[usize::from(step.slot)];
            idle = share.length == 0;
            share.length += bytes;
            length = share.length;
        }
    }

    /// Links a child that has bytes now and had none into the list of the node above it.
    /// Returns what follows it there.
    #[inline]
    fn activate(&mut self, step: &Step, length: u64) -> u16 {
        let share = &mut self.shares[usize::from(step.slot)];
        let empties = steps(length, step.weight);
        if share.weight == 0 || empties < share.empties.wrapping_sub(share.clock) {
            share.empties = share.clock.wrapping_add(empties);
        }
        share.weight += step.weight;
        std::mem::replace(&mut share.active, step.below)
    }

    /// Adds magic bytes to a queue that is settled.
    #[inline(never)]
    pub(super) fn add_magic(&mut self, path: &[Step], queue: usize, bytes: u64) {
        self.add(path, queue, bytes);
        self.queues[queue].conjure(bytes, self.size);
    }

    /// Puts the bytes of an accepted packet into the burst bucket of a queue that they were just
    /// added to.
    #[inline(always)]
    pub(super) fn pour(&mut self, path: &[Step], queue: usize, bytes: u64) {
        let drained = self.drained(&path[0]);
        self.queues[queue].pour(bytes, drained);
    }

    /// Empties the burst bucket of a queue.
    #[inline]
    pub(super) fn empty_bucket(&mut self, path: &[Step], queue: usize) {
        self.queues[queue].mark = self.drained(&path[0]);
    }

    /// Takes all magic bytes out of a queue that is settled, and is not settled then.
    pub(super) fn remove_magic(&mut self, path: &[Step], queue: usize) {
        if !self.queues[queue].is_active() {
            return;
        }
        let mut gone = self.magic(path, queue);
        let drained = self.drained(&path[0]);
        let at = &mut self.queues[queue];
        at.room = WHOLE;
        at.take(gone);
        if path[0].priority && at.length(self.size, drained) == 0 {
            at.room = 0;
        }
        for step in path {
            let share = &mut self.shares[usize::from(step.slot)];
            // It may run empty now, and leaves the list when it is looked at next.
            share.empties = share.clock;
            // What was given already and is no longer owed vanishes as the node runs empty.
            gone = gone.min(share.length);
            share.length -= gone;
        }
    }

    /// Leaves only this much room to a queue, which is settled and has something. This many bytes count as
    /// accepted lately.
    #[cold]
    pub(super) fn fill(&mut self, path: &[Step], queue: usize, room: u64, accepted: u64) {
        let free = self.size - self.length(path, queue);
        self.add_magic(path, queue, free.saturating_sub(room));
        let at = &mut self.queues[queue];
        at.before = at.full.wrapping_sub(accepted);
    }

    /// Whether a queue, which is settled, has more in its burst bucket than its share of `most`. A
    /// packet is never too much, and half of one before it is filled.
    ///
    /// Queues of higher priority do not count here: behind busy ones the share would be nothing and
    /// all in turn, packet by packet. The bucket drains by what is served there.
    #[inline(always)]
    pub(super) fn bursts(&self, path: &[Step], queue: usize, most: u64) -> bool {
        let burst = self.burst(path, queue);
        let packet = PACKET >> u32::from(!self.queues[queue].is_filled());
        // With weights of at least 1, this needs no division; nearly always it is the answer.
        let weights = path.iter().filter(|step| !step.priority);
        let least = weights.fold(burst, |least, step| {
            let weight = self.shares[usize::from(step.slot)].weight;
            least.saturating_mul(u64::from(weight))
        });
        burst > packet && least > most && burst > self.share_by_weight(path, most)
    }

    /// Whether a settled queue that is not filled has more in its burst bucket than its share of `most`, and was served
    /// as much without a pause. Then its sender exceeds the rate. A whole window that comes at once does not
    /// show that: it may be small for its round trip.
    pub(super) fn lasts(&self, path: &[Step], queue: usize, most: u64) -> bool {
        let (burst, share) = (self.burst(path, queue), self.share_by_weight(path, most));
        burst > PACKET && burst > share && self.queues[queue].accepted() > burst + share
    }

    /// What may still pass until a queue that is not filled has more in its burst bucket than its share of `most`,
    /// which is twice what the surplus leaves: each byte adds one to the bucket and takes two from the share. If all
    /// active queues send as much, that is a third of the difference.
    pub(super) fn burst_room(&self, path: &[Step], queue: usize, most: u64) -> u64 {
        let share = self.share_by_weight(path, most);
        share.saturating_sub(self.burst(path, queue)) / 3
    }

    /// Takes the magic out of a settled queue that accepted less lately than its share of `lower`:
    /// its flow has slowed down or ended. What was accepted is halved each time, and also for each
    /// time that was `missed`. A packet more or less does not count.
    ///
    /// Magic bytes were served meanwhile that the flow made no use of. The other queues get these
    /// back, at most a share of `upper`: otherwise each flow that ends would cost rate.
    #[cold]
    pub(super) fn look_back(
        &mut self,
        program: &Program,
        path: &[Step],
        queue: usize,
        missed: u64,
        (upper, lower): (u64, u64),
    ) {
        let at = &mut self.queues[queue];
        let accepted = at.accepted() >> missed.min(63);
        at.before = at.full.wrapping_sub(accepted / 2);
        let least = self.share_of(program, path, lower);
        let least = least.saturating_sub(PACKET).max(least / 8);
        if accepted < least {
            let unused = self.size - self.length(path, queue);
            let refund = unused.min(self.share_of(program, path, upper));
            self.remove_magic(path, queue);
            self.give(refund);
        }
    }

    /// Ends the paper's period of a settled queue, and takes its magic out if it accepted less than
    /// its share of θ− rT: its flow has slowed down or ended.
    #[cold]
    pub(super) fn end_period(
        &mut self,
        program: &Program,
        path: &[Step],
        queue: usize,
        now: Nanos,
        period: Nanos,
        lower: u64,
    ) {
        let at = &mut self.queues[queue];
        let missed = (now - at.mark) / period;
        // After more than one, nothing was accepted in the last.
        let accepted = if missed == 0 { at.accepted() } else { 0 };
        at.mark = at.mark.saturating_add((missed + 1).saturating_mul(period));
        at.before = at.full;
        // What is served behind a queue of higher priority is all or nothing at a moment, and
        // something between over a period: there, only silence shows that a flow has ended.
        let share = self.share_of(program, path, lower);
        let least = if is_behind(program, path) {
            share.min(1)
        } else {
            share
        };
        if accepted < least {
            self.remove_magic(path, queue);
        }
    }

    /// Whether no room is to be left to a queue, by the paper's rule; it is settled and has
    /// something: it accepted more in this period than its share of `total`, which is θ+ rT.
    ///
    /// Behind a busy queue of higher priority, which serves it now and then, the share is nothing
    /// and that is so from the first packet on. Once is enough there: room that a filled queue has
    /// again is of bytes that were served, and to fill that as well would take from its rate.
    #[inline(always)]
    pub(super) fn is_to_be_filled(
        &self,
        program: &Program,
        path: &[Step],
        queue: usize,
        total: u64,
    ) -> bool {
        let at = &self.queues[queue];
        // As in `bursts`.
        let mut least = at.accepted();
        for step in path {
            let weight = self.shares[usize::from(step.slot)].weight;
            least = least.saturating_mul(u64::from(weight));
            if step.priority {
                least = u64::MAX;
            }
        }
        if least <= total {
            return false;
        }
        let share = self.share_of(program, path, total);
        at.accepted() > share && (share > 0 || self.magic(path, queue) == 0)
    }

    /// The part of `total` that a queue is served. The queue is settled and has something.
    #[inline(never)]
    pub(super) fn share_of(&self, program: &Program, path: &[Step], total: u64) -> u64 {
        let precedes = |step: &Step| {
            let first = usize::from(program.share(step.slot.into()).first);
            let mut before = first..usize::from(step.below);
            step.priority && before.any(|other| self.has_anything(program, other))
        };
        match path.iter().any(precedes) {
            true => 0,
            false => self.share_by_weight(path, total),
        }
    }

    /// The same if nothing of higher priority were there.
    pub(super) fn share_by_weight(&self, path: &[Step], total: u64) -> u64 {
        let weights = path.iter().filter(|step| !step.priority);
        weights.fold(total, |total, step| {
            let weight = self.shares[usize::from(step.slot)].weight.max(1);
            divide(total.saturating_mul(u64::from(step.weight)), weight)
        })
    }

    fn has_anything(&self, program: &Program, node: usize) -> bool {
        let node = &program.nodes()[node];
        let slot = usize::from(node.slot);
        match node.kind {
            Kind::Queue(_) => self.queues[slot].is_active(),
            _ => self.shares[slot].length > 0,
        }
    }
}

#[cfg(test)]
impl<const QUEUES: usize, const SHARES: usize> Tree<QUEUES, SHARES> {
    /// That every sharing node's books balance, and that it knows who is active. All must be
    /// settled.
    pub(super) fn check(&self, program: &Program) {
        for node in program.nodes() {
            if matches!(node.kind, Kind::Queue(_)) {
                continue;
            }
            let share = self.shares[usize::from(node.slot)];
            let (mut sum, mut weight) = (0, 0);
            for child in node.children() {
                let child = &program.nodes()[child];
                let slot = usize::from(child.slot);
                let length = match child.kind {
                    Kind::Queue(queue) => self.length(program.path(queue), slot),
                    _ => self.shares[slot].length,
                };
                sum += length;
                if length > 0 {
                    weight += child.weight;
                }
            }
            assert_eq!(sum, share.length + share.credit);
            assert!(matches!(node.kind, Kind::Priority) || weight == share.weight);
        }
    }
}

/// Whether other queues precede this one by priority, there or higher up.
pub(super) fn is_behind(program: &Program, path: &[Step]) -> bool {
    let behind = |step: &Step| step.priority && step.below != program.share(step.slot.into()).first;
    path.iter().any(behind)
}

/// Steps of the clock until this many bytes are given to a child of that weight; 1 nearly always.
#[inline]
fn steps(length: u64, weight: u32) -> u64 {
    if weight == 1 {
        length
    } else {
        length.div_ceil(u64::from(weight))
    }
}

/// Division that is quick where the numbers are small, as they nearly always are.
#[inline]
fn divide(number: u64, by: u32) -> u64 {
    match u32::try_from(number) {
        Ok(number) => u64::from(number / by),
        Err(_) => number / u64::from(by),
    }
}
