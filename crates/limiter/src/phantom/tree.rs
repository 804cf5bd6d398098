//! Phantom queues, drained lazily but as if all the time.
//!
//! Each sharing node has a clock: the bytes per weight that every active child of it was given so
//! far. A child's backlog is what it was when the node's clock was last read for it, less what
//! the clock advanced since, times its weight. So a packet costs one step for each level of the
//! policy, however many queues are active, and all active queues are looked at only when one of
//! them runs empty. Phantom dequeues are thereby batched [BCPQP §3.1] without the error that a
//! batch makes when it treats packets as present that came in its course: queues share as the
//! fluid reference does, to the byte.

use crate::{Decision, Kind, Nanos, Program, Step};

#[cfg(test)]
mod tests;

/// No node.
const NONE: u16 = u16::MAX;

/// What queues and sharing nodes have in common, as children.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// Backlog in bytes when the parent's clock was at `seen`. Of a sharing node: what is still to
    /// be given to it from above.
    length: u64,
    seen: u64,
    /// The next child in the parent's list of active ones.
    next: u16,
}

impl Part {
    const EMPTY: Self = Self {
        length: 0,
        seen: 0,
        next: NONE,
    };

    /// Brings the backlog up to the parent's clock. Returns what was drained, and what its share
    /// was beyond that.
    #[inline]
    fn drain(&mut self, clock: u64, weight: u32) -> (u64, u64) {
        if self.length == 0 {
            return (0, 0);
        }
        let share = clock.wrapping_sub(self.seen) * u64::from(weight);
        let drained = share.min(self.length);
        self.seen = clock;
        self.length -= drained;
        (drained, share - drained)
    }
}

/// A phantom queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queue {
    part: Part,
    /// Of the backlog, bytes that are no packet's.
    magic: u64,
    /// Bytes of packets accepted in the current period.
    pub(super) accepted: u64,
    /// When it began.
    pub(super) began: u64,
}

impl Queue {
    /// Bytes in the queue, once it is settled.
    #[inline]
    pub(super) fn length(&self) -> u64 {
        self.part.length
    }

    /// Of these, magic ones. Packets leave before them, so they are no more than what is there.
    #[inline]
    pub(super) fn magic(&self) -> u64 {
        self.magic.min(self.part.length)
    }
}

/// A node that shares among its children.
///
/// Its children's backlogs sum to its own and its credit: what it was given and did not hand on.
#[derive(Debug, Clone, Copy)]
struct Share {
    part: Part,
    /// Bytes per weight given to every active child so far. Wraps.
    clock: u64,
    /// No child runs empty before the clock is here.
    empties: u64,
    credit: u64,
    /// Sum of the weights of active children.
    weight: u32,
    /// The first of them; the others follow by `next`. In priority nodes nothing is linked.
    active: u16,
}

/// The state of a tree with room for so many queues and sharing nodes.
#[derive(Debug, Clone)]
#[repr(C)]
pub(super) struct Tree<const QUEUES: usize, const SHARES: usize> {
    shares: [Share; SHARES],
    pub(super) queues: [Queue; QUEUES],
}

impl<const QUEUES: usize, const SHARES: usize> Tree<QUEUES, SHARES> {
    pub(super) fn new() -> Self {
        Self {
            queues: [Queue {
                part: Part::EMPTY,
                magic: 0,
                accepted: 0,
                began: 0,
            }; QUEUES],
            shares: [Share {
                part: Part::EMPTY,
                clock: 0,
                empties: 0,
                credit: 0,
                weight: 0,
                active: NONE,
            }; SHARES],
        }
    }

    fn part(&mut self, program: &Program, node: usize) -> &mut Part {
        let node = &program.nodes()[node];
        let slot = usize::from(node.slot);
        match node.kind {
            Kind::Queue(_) => &mut self.queues[slot].part,
            _ => &mut self.shares[slot].part,
        }
    }

    /// All bytes that are to be drained.
    pub(super) fn backlog(&self) -> u64 {
        self.shares[0].part.length
    }

    /// The rate comes to so many bytes more. What finds nothing to drain is lost: a link that
    /// idles.
    #[inline]
    pub(super) fn give(&mut self, bytes: u64) {
        let root = &mut self.shares[0];
        let drained = bytes.min(root.part.length);
        root.part.length -= drained;
        root.credit += drained;
    }

    /// Decides about a packet to a queue of a fair share, without a division and without settling
    /// anything, where the outcome is the same: what the credit would drain is compared with what
    /// has to be. `None`: settle and decide then; nothing was changed.
    #[inline(always)]
    pub(super) fn offer_unsettled(
        &mut self,
        queue: usize,
        bytes: u64,
        size: u64,
        upper: u64,
    ) -> Option<Decision> {
        let root = &mut self.shares[0];
        let at = &mut self.queues[queue];
        let weight = u64::from(root.weight);
        let until = root.empties.wrapping_sub(root.clock);
        // A queue may be empty by now, or this one may be.
        if root.credit >= until.saturating_mul(weight)
            || root.part.length == 0
            || at.part.length == 0
        {
            return None;
        }
        let length = at.part.length - root.clock.wrapping_sub(at.part.seen);
        // Packets may be gone, so that magic goes.
        if length < at.magic.saturating_add(root.credit) {
            return None;
        }
        let short = (length + bytes).saturating_sub(size);
        if short * weight > root.credit {
            return Some(Decision::Drop);
        }
        let accepted = at.accepted + bytes;
        if accepted.saturating_mul(weight) > upper {
            return None;
        }
        at.accepted = accepted;
        at.part.length += bytes;
        root.part.length += bytes;
        Some(Decision::Pass)
    }

    /// Brings a queue up to date, and all nodes above it on its path.
    #[inline(always)]
    pub(super) fn settle(&mut self, program: &Program, path: &[Step], queue: usize) {
        // Most policies are flat.
        if let [step] = path
            && !step.priority
        {
            self.step(program, 0);
            let clock = self.shares[0].clock;
            self.queues[queue].part.drain(clock, step.weight);
        } else {
            self.settle_path(program, path, queue);
        }
    }

    #[inline(never)]
    fn settle_path(&mut self, program: &Program, path: &[Step], queue: usize) {
        let mut below = None;
        for step in path.iter().rev() {
            let slot = usize::from(step.slot);
            if let Some((above, weight)) = below.take() {
                self.pull_share(slot, weight, above);
            }
            if step.priority {
                self.serve_first(program, slot);
            } else {
                self.step(program, slot);
                below = Some((slot, step.weight));
            }
        }
        if let Some((slot, weight)) = below {
            let clock = self.shares[slot].clock;
            self.queues[queue].part.drain(clock, weight);
        }
    }

    /// Brings all queues up to date.
    pub(super) fn settle_all(&mut self, program: &Program) {
        for (number, node) in program.nodes().iter().enumerate() {
            let slot = usize::from(node.slot);
            let parent = &program.nodes()[usize::from(node.parent)];
            let above = usize::from(parent.slot);
            let priority = matches!(parent.kind, Kind::Priority);
            match node.kind {
                Kind::Queue(_) if priority => {}
                Kind::Queue(_) => {
                    let clock = self.shares[above].clock;
                    self.queues[slot].part.drain(clock, node.weight);
                }
                kind => {
                    if number != 0 && !priority {
                        self.pull_share(slot, node.weight, above);
                    }
                    if matches!(kind, Kind::Priority) {
                        self.serve_first(program, slot);
                    } else {
                        self.step(program, slot);
                    }
                }
            }
        }
    }

    /// Takes over what the clock above gave to a sharing node.
    #[inline]
    fn pull_share(&mut self, slot: usize, weight: u32, above: usize) {
        let clock = self.shares[above].clock;
        let share = &mut self.shares[slot];
        share.credit += share.part.drain(clock, weight).0;
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
        if step < share.empties.wrapping_sub(share.clock) && share.part.length > 0 {
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
            let all = share.part.length == 0;
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
            let mut child = share.active;
            let (mut active, mut weight, mut empties, mut credit) = (NONE, 0, u64::MAX, 0);
            while child != NONE {
                let node = &program.nodes()[usize::from(child)];
                let part = self.part(program, usize::from(child));
                let next = part.next;
                let (mut drained, surplus) = part.drain(clock, node.weight);
                credit += surplus;
                if all {
                    drained += part.length;
                    part.length = 0;
                }
                if part.length > 0 {
                    part.next = active;
                    active = child;
                    weight += node.weight;
                    empties = empties.min(part.length.div_ceil(u64::from(node.weight)));
                }
                if !matches!(node.kind, Kind::Queue(_)) {
                    self.shares[usize::from(node.slot)].credit += drained;
                }
                child = next;
            }
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

    /// Hands a priority node's credit to its children in their order.
    fn serve_first(&mut self, program: &Program, slot: usize) {
        let mut credit = std::mem::take(&mut self.shares[slot].credit);
        for child in program.share(slot).children() {
            if credit == 0 {
                break;
            }
            let part = self.part(program, child);
            let drained = credit.min(part.length);
            part.length -= drained;
            credit -= drained;
            let node = &program.nodes()[child];
            if !matches!(node.kind, Kind::Queue(_)) {
                self.shares[usize::from(node.slot)].credit += drained;
            }
        }
    }

    /// Adds bytes to a queue that is settled.
    #[inline(always)]
    pub(super) fn add(&mut self, program: &Program, path: &[Step], queue: usize, bytes: u64) {
        let at = &mut self.queues[queue];
        at.magic = at.magic.min(at.part.length);
        let mut idle = at.part.length == 0;
        at.part.length += bytes;
        for step in path {
            if idle && !step.priority {
                self.activate(program, step);
            }
            let part = &mut self.shares[usize::from(step.slot)].part;
            idle = part.length == 0;
            part.length += bytes;
        }
    }

    /// Links a child that has something again into the list of the node above it.
    #[cold]
    fn activate(&mut self, program: &Program, step: &Step) {
        let slot = usize::from(step.slot);
        let (clock, next) = (self.shares[slot].clock, self.shares[slot].active);
        let part = self.part(program, usize::from(step.below));
        (part.seen, part.next) = (clock, next);
        let empties = part.length.div_ceil(u64::from(step.weight));
        let share = &mut self.shares[slot];
        if share.weight == 0 || empties < share.empties.wrapping_sub(clock) {
            share.empties = clock.wrapping_add(empties);
        }
        share.weight += step.weight;
        share.active = step.below;
    }

    /// Adds magic bytes to a queue that is settled.
    #[inline(never)]
    pub(super) fn add_magic(&mut self, program: &Program, path: &[Step], queue: usize, bytes: u64) {
        let magic = self.queues[queue].magic() + bytes;
        self.add(program, path, queue, bytes);
        self.queues[queue].magic = magic;
    }

    /// Takes all magic bytes out of a queue that is settled, and is not settled then.
    pub(super) fn remove_magic(&mut self, path: &[Step], queue: usize) {
        let at = &mut self.queues[queue];
        let mut gone = at.magic();
        at.magic = 0;
        at.part.length -= gone;
        for step in path {
            let share = &mut self.shares[usize::from(step.slot)];
            // It may run empty now, and leaves the list when it is looked at next.
            share.empties = share.clock;
            // What was given already and is no longer owed vanishes as the node runs empty.
            gone = gone.min(share.part.length);
            share.part.length -= gone;
        }
    }

    /// Ends the period of a settled queue, and takes its magic out if it accepted less than its
    /// share of θ− rT: its flow has slowed down or ended.
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
        let periods = (now - at.began) / period;
        // After more than one, nothing was accepted in the last.
        let accepted = if periods == 1 { at.accepted } else { 0 };
        at.began += periods * period;
        at.accepted = 0;
        // What is served behind a queue of higher priority is all or nothing at a moment, and
        // something between over a period: there, only silence tells that a flow has ended.
        let behind = path
            .iter()
            .any(|step| step.priority && step.below != program.share(step.slot.into()).first);
        let share = self.share_of(program, path, lower);
        let least = if behind { share.min(1) } else { share };
        if accepted < least {
            self.remove_magic(path, queue);
        }
    }

    /// Whether no room is to be left to a queue, which is settled and has something: it accepted
    /// more in this period than its share of `total`, which is θ+ rT.
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
        // With weights of at least 1, this needs no division; nearly always it is the answer.
        let mut least = at.accepted;
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
        at.accepted > share && (share > 0 || at.magic() == 0)
    }

    /// The part of `total` that a queue is served. The queue is settled and has something.
    #[inline(never)]
    fn share_of(&self, program: &Program, path: &[Step], mut total: u64) -> u64 {
        for step in path {
            let slot = usize::from(step.slot);
            if step.priority {
                let first = usize::from(program.share(slot).first);
                let mut before = first..usize::from(step.below);
                if before.any(|other| self.has_anything(program, other)) {
                    return 0;
                }
            } else {
                let weight = self.shares[slot].weight.max(1);
                total = divide(total.saturating_mul(u64::from(step.weight)), weight);
            }
        }
        total
    }

    fn has_anything(&self, program: &Program, node: usize) -> bool {
        let node = &program.nodes()[node];
        let slot = usize::from(node.slot);
        match node.kind {
            Kind::Queue(_) => self.queues[slot].part.length > 0,
            _ => self.shares[slot].part.length > 0,
        }
    }
}

#[cfg(test)]
impl<const QUEUES: usize, const SHARES: usize> Tree<QUEUES, SHARES> {
    /// That every sharing node's books balance, and that it knows who is active. All must be
    /// settled.
    pub(super) fn check(&mut self, program: &Program) {
        for node in program.nodes() {
            if matches!(node.kind, Kind::Queue(_)) {
                continue;
            }
            let share = self.shares[usize::from(node.slot)];
            let (mut sum, mut weight) = (0, 0);
            for child in node.children() {
                let length = self.part(program, child).length;
                sum += length;
                if length > 0 {
                    weight += program.nodes()[child].weight;
                }
            }
            assert_eq!(sum, share.part.length + share.credit);
            assert!(matches!(node.kind, Kind::Priority) || weight == share.weight);
        }
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
