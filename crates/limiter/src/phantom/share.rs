//! A node of the tree of phantom queues that shares its rate.

/// No node.
pub(super) const NONE: u16 = u16::MAX;

/// A node that shares among its children.
///
/// Its children's backlogs sum to its own and its credit: what it was given and did not hand on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    /// What is still to be given to it from above, in bytes, when the clock there was at `seen`.
    pub(super) length: u64,
    pub(super) seen: u64,
    /// Bytes per weight given to every active child so far. Wraps.
    pub(super) clock: u64,
    /// No child runs empty before the clock is here.
    pub(super) empties: u64,
    pub(super) credit: u64,
    /// Sum of the weights of active children.
    pub(super) weight: u32,
    /// The first of them; the others follow by `next`. In priority nodes nothing is linked.
    pub(super) active: u16,
    /// The next one in the list of the node above.
    pub(super) next: u16,
}

impl Share {
    pub(super) const EMPTY: Self = Self {
        length: 0,
        seen: 0,
        clock: 0,
        empties: 0,
        credit: 0,
        weight: 0,
        active: NONE,
        next: NONE,
    };

    /// Takes over what the clock above gave to it. Returns what its share was beyond that.
    #[inline]
    pub(super) fn pull(&mut self, clock: u64, weight: u32) -> u64 {
        if self.length == 0 {
            return 0;
        }
        let share = clock.wrapping_sub(self.seen) * u64::from(weight);
        let drained = share.min(self.length);
        self.seen = clock;
        self.take(drained);
        share - drained
    }

    /// Takes over what it was given.
    #[inline]
    pub(super) fn take(&mut self, bytes: u64) {
        self.length -= bytes;
        self.credit += bytes;
    }
}
