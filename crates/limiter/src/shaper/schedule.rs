//! Which packet leaves next: deficit round robin and strict priority, nested in any combination.

use super::Backlog;
use super::pool::List;
use crate::policy::{Kind, Program};

#[cfg(test)]
mod tests;

/// No node. There are fewer nodes than that: [`crate::PolicyTree::MAX_NODES`].
const NONE: u16 = u16::MAX;

/// The state of a [`Program`]'s nodes.
///
/// A node that shares by weight keeps its children that have packets in a ring. The child at the
/// head may send as long as it has credit; then it gets its quantum and goes to the tail. A packet
/// is charged when it leaves and may overdraw the credit: what is a deficit in [Shreedhar95] is a
/// surplus here, as in Linux's `sch_htb` (`htb_dequeue_tree`), with the same bounds. Deficits
/// would ask each level for the size of its next packet, which below a priority may change before
/// it leaves. No child is passed over twice, as the quantum is at least the largest packet: what
/// makes deficit round robin O(1) [Shreedhar95].
#[derive(Debug)]
pub(super) struct Schedule {
    nodes: Box<[NodeState]>,
    /// A bit for each node whose parent serves by priority: whether it has packets.
    waiting: Box<[u64]>,
    /// The largest packet so far.
    largest: u32,
}

#[derive(Debug)]
struct NodeState {
    /// Bytes the node may send before its siblings' turn, times its parent's `scale`. Above 0
    /// while it is in the ring; what it overdrew last if not.
    credit: i64,
    /// Packets held by the node and all below.
    backlog: Backlog,
    /// A queue's packets.
    list: List,
    /// The smallest weight among its children. The least child's quantum is one largest packet,
    /// others' are in proportion [BCPQP §2.1]; as that is no whole number of bytes, credit is
    /// counted in parts of a byte.
    scale: u32,
    /// The sibling behind it in the ring; the last one's is the head.
    next: u16,
    /// Tail of the ring of its own children.
    tail: u16,
}

impl Schedule {
    pub(super) fn new(program: &Program) -> Self {
        let state = |number: usize| {
            let children = program.nodes()[number].children();
            let weights = program.nodes()[children].iter().map(|child| child.weight);
            NodeState {
                credit: 0,
                backlog: Backlog::default(),
                list: List::EMPTY,
                scale: weights.min().unwrap_or(1),
                next: NONE,
                tail: NONE,
            }
        };
        let nodes = program.nodes().len();
        Self {
            nodes: (0..nodes).map(state).collect(),
            waiting: vec![0; nodes.div_ceil(64)].into(),
            largest: 0,
        }
    }

    /// The largest packet so far.
    #[inline]
    pub(super) fn largest(&self) -> u32 {
        self.largest
    }

    /// What a node holds; node 0 all.
    #[inline]
    pub(super) fn backlog(&self, node: usize) -> Backlog {
        self.nodes[node].backlog
    }

    /// The packets of a queue's node.
    #[inline]
    pub(super) fn list(&mut self, node: usize) -> &mut List {
        &mut self.nodes[node].list
    }

    /// The node of the queue whose packet is next. Only to be called while there is one.
    #[inline]
    pub(super) fn next(&self, program: &Program) -> usize {
        let mut number = 0;
        loop {
            let node = &program.nodes()[number];
            number = match node.kind {
                Kind::Queue(_) => return number,
                Kind::Weighted => {
                    let tail = self.nodes[number].tail;
                    usize::from(self.nodes[usize::from(tail)].next)
                }
                Kind::Priority => self.first_waiting(usize::from(node.first)),
            };
        }
    }

    /// A packet was put into the queue of this node.
    #[inline]
    pub(super) fn arrived(&mut self, program: &Program, mut number: usize, bytes: u32) {
        self.largest = self.largest.max(bytes);
        loop {
            let backlog = &mut self.nodes[number].backlog;
            let idle = backlog.packets == 0;
            backlog.packets += 1;
            backlog.bytes += u64::from(bytes);
            if number == 0 {
                return;
            }
            let node = &program.nodes()[number];
            let parent = usize::from(node.parent);
            if idle {
                match program.nodes()[parent].kind {
                    Kind::Priority => self.waiting[number / 64] |= 1 << (number % 64),
                    _ => {
                        self.nodes[number].credit += self.quantum(node.weight);
                        self.append(parent, number);
                    }
                }
            }
            number = parent;
        }
    }

    /// The packet left that was [`next`](Self::next), at this node.
    #[inline]
    pub(super) fn packet_left(&mut self, program: &Program, mut number: usize, bytes: u32) {
        loop {
            let state = &mut self.nodes[number];
            state.backlog.packets -= 1;
            state.backlog.bytes -= u64::from(bytes);
            if number == 0 {
                return;
            }
            let idle = state.backlog.packets == 0;
            let node = &program.nodes()[number];
            let parent = usize::from(node.parent);
            match program.nodes()[parent].kind {
                Kind::Priority if idle => self.waiting[number / 64] &= !(1 << (number % 64)),
                Kind::Priority => {}
                _ => self.charge(parent, number, node.weight, bytes),
            }
            number = parent;
        }
    }

    /// Charges the head of a node's ring, and ends its turn if that is over.
    #[inline]
    fn charge(&mut self, parent: usize, number: usize, weight: u32, bytes: u32) {
        let quantum = self.quantum(weight);
        let scale = i64::from(self.nodes[parent].scale);
        let state = &mut self.nodes[number];
        state.credit -= i64::from(bytes) * scale;
        let next = state.next;
        if state.backlog.packets == 0 {
            // What is left of a turn is lost. A debt is not: queues that empty at the right time
            // would get twice their share.
            state.credit = state.credit.min(0);
            let tail = self.nodes[parent].tail;
            if usize::from(tail) == number {
                self.nodes[parent].tail = NONE;
            } else {
                self.nodes[usize::from(tail)].next = next;
            }
        } else if state.credit <= 0 {
            state.credit += quantum;
            self.nodes[parent].tail = number as u16;
        }
    }

    fn quantum(&self, weight: u32) -> i64 {
        i64::from(weight) * i64::from(self.largest)
    }

    fn append(&mut self, parent: usize, number: usize) {
        let added = number as u16;
        let tail = std::mem::replace(&mut self.nodes[parent].tail, added);
        self.nodes[number].next = match tail {
            NONE => added,
            tail => std::mem::replace(&mut self.nodes[usize::from(tail)].next, added),
        };
    }

    /// The first node from this one on that has packets and a parent that serves by priority.
    fn first_waiting(&self, from: usize) -> usize {
        let (mut word, mask) = (from / 64, u64::MAX << (from % 64));
        let mut bits = self.waiting[word] & mask;
        while bits == 0 {
            word += 1;
            bits = self.waiting[word];
        }
        word * 64 + bits.trailing_zeros() as usize
    }
}
