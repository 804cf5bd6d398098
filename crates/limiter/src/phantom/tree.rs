//! Phantom queues, drained lazily but as if all the time.
//!
//! Each sharing node has a clock: the bytes per weight that every active child of it was given so
//! far. A child's backlog is what it was when the node's clock was last read for it, less what
//! the clock advanced since, times its weight. So a packet costs one step for each level of the
//! policy, however many queues are active, and all active queues are looked at only when one of
//! them runs empty. Phantom dequeues are thereby batched [BCPQP §3.1] without the error that a
//! batch makes when it treats packets as present that came in its course: queues share as the
//! fluid reference does, to the byte.

use crate::{Kind, Program};

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

    /// Bytes in a queue, exact after [`settle`](Self::settle).
    #[inline]
    pub(super) fn length(&self, queue: u16) -> u64 {
        self.queues[usize::from(queue)].part.length
    }

    /// Of these, magic ones. Packets leave before them, so they are no more than what is there.
    #[inline]
    pub(super) fn magic(&self, queue: u16) -> u64 {
        let queue = &self.queues[usize::from(queue)];
        queue.magic.min(queue.part.length)
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

    /// Brings a queue up to date, and all nodes above it.
    #[inline]
    pub(super) fn settle(&mut self, program: &Program, queue: u16) {
        for &node in program.path(queue) {
            self.settle_share(program, usize::from(node));
        }
        self.pull(program, program.leaf(queue));
    }

    /// Brings all queues up to date.
    pub(super) fn settle_all(&mut self, program: &Program) {
        for (number, node) in program.nodes().iter().enumerate() {
            match node.kind {
                Kind::Queue(_) => self.pull(program, number),
                _ => self.settle_share(program, number),
            }
        }
    }

    /// Takes over what the parent's clock gave to a child; priority nodes have given already.
    #[inline]
    fn pull(&mut self, program: &Program, child: usize) {
        let node = &program.nodes()[child];
        let parent = &program.nodes()[usize::from(node.parent)];
        if matches!(parent.kind, Kind::Priority) {
            return;
        }
        let clock = self.shares[usize::from(parent.slot)].clock;
        let slot = usize::from(node.slot);
        match node.kind {
            Kind::Queue(_) => {
                let part = &mut self.queues[slot].part;
                if part.length > 0 {
                    part.drain(clock, node.weight);
                }
            }
            _ => {
                let share = &mut self.shares[slot];
                if share.part.length > 0 {
                    share.credit += share.part.drain(clock, node.weight).0;
                }
            }
        }
    }

    #[inline]
    fn settle_share(&mut self, program: &Program, number: usize) {
        let node = &program.nodes()[number];
        if number != 0 {
            self.pull(program, number);
        }
        let slot = usize::from(node.slot);
        if matches!(node.kind, Kind::Priority) {
            self.serve_first(program, number);
            return;
        }
        let share = &mut self.shares[slot];
        if share.weight == 0 {
            return;
        }
        // A node that has all it was owed is empty, though the last bytes make no whole step.
        let step = divide(share.credit, share.weight);
        let until = share.empties.wrapping_sub(share.clock);
        if step < until && share.part.length > 0 {
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
    fn serve_first(&mut self, program: &Program, number: usize) {
        let node = &program.nodes()[number];
        let mut credit = std::mem::take(&mut self.shares[usize::from(node.slot)].credit);
        for child in node.children() {
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
    #[inline]
    pub(super) fn add(&mut self, program: &Program, queue: u16, bytes: u64) {
        let leaf = program.leaf(queue);
        let at = &mut self.queues[usize::from(queue)];
        at.magic = at.magic.min(at.part.length);
        let idle = at.part.length == 0;
        at.part.length += bytes;
        if idle {
            self.activate(program, leaf);
        }
        for &above in program.path(queue).iter().rev() {
            let slot = usize::from(program.nodes()[usize::from(above)].slot);
            let part = &mut self.shares[slot].part;
            let idle = part.length == 0;
            part.length += bytes;
            if idle && above != 0 {
                self.activate(program, usize::from(above));
            }
        }
    }

    /// Links a child that has something again into the list of its parent.
    fn activate(&mut self, program: &Program, child: usize) {
        let node = &program.nodes()[child];
        let parent = &program.nodes()[usize::from(node.parent)];
        if matches!(parent.kind, Kind::Priority) {
            return;
        }
        let slot = usize::from(parent.slot);
        let share = self.shares[slot];
        let part = self.part(program, child);
        part.seen = share.clock;
        part.next = share.active;
        let empties = part.length.div_ceil(u64::from(node.weight));
        let share = &mut self.shares[slot];
        if share.weight == 0 || empties < share.empties.wrapping_sub(share.clock) {
            share.empties = share.clock.wrapping_add(empties);
        }
        share.weight += node.weight;
        share.active = child as u16;
    }

    /// Adds magic bytes to a queue that is settled.
    pub(super) fn add_magic(&mut self, program: &Program, queue: u16, bytes: u64) {
        let magic = self.magic(queue) + bytes;
        self.add(program, queue, bytes);
        self.queues[usize::from(queue)].magic = magic;
    }

    /// Takes all magic bytes out of a queue; everything must be settled.
    pub(super) fn remove_magic(&mut self, program: &Program, queue: u16) {
        let mut gone = self.magic(queue);
        let at = &mut self.queues[usize::from(queue)];
        at.magic = 0;
        at.part.length -= gone;
        for &above in program.path(queue).iter().rev() {
            let slot = usize::from(program.nodes()[usize::from(above)].slot);
            let share = &mut self.shares[slot];
            // It may run empty now, and leaves the list when it is looked at next.
            share.empties = share.clock;
            // What was given already and is no longer owed vanishes as the node runs empty.
            gone = gone.min(share.part.length);
            share.part.length -= gone;
        }
    }

    /// The part of `total` that a settled queue is served, or would be if it had something: the
    /// product of its shares from the root down.
    #[inline]
    pub(super) fn share_of(&self, program: &Program, queue: u16, total: u64) -> u64 {
        let mut total = total;
        let mut child = program.leaf(queue);
        for &above in program.path(queue).iter().rev() {
            let node = &program.nodes()[child];
            let parent = &program.nodes()[usize::from(above)];
            if matches!(parent.kind, Kind::Priority) {
                let mut before = usize::from(parent.first)..child;
                if before.any(|other| self.has_anything(program, other)) {
                    return 0;
                }
            } else {
                let mut weight = self.shares[usize::from(parent.slot)].weight;
                if !self.has_anything(program, child) {
                    weight += node.weight;
                }
                total = divide(total.saturating_mul(u64::from(node.weight)), weight);
            }
            child = usize::from(above);
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
