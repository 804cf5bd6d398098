//! Flows that flood the queues of a class, and the one queue that they share.
//!
//! Once a queue drops half of what it accepts, flows without a queue share that one: so they do not crowd the queues
//! of senders that answer to drops. Only a flow that was not among them lately gets another queue, as a new one does
//! or one that waits for a retransmission timeout: an empty queue, or else one that floods, or else the one that
//! accepted least. The flow that had this queue counts as seen among those without one: else it would take another
//! one's queue with its next packet, and so on, until this came to the flow that had just begun or come back.

use super::draw::{drawn, fraction};
use crate::Nanos;

/// Most queues of a policy that has this: data paths keep it in the place of the others.
pub(super) const QUEUES: usize = 16;
/// Bits for flows without a queue, two for each: with 256 such flows, one in twelve others is taken for one of them.
const BITS: u16 = 1536;
const WORDS: usize = BITS as usize / 64;
/// A generation is of 2^28 ns, which are 0.27 s.
const GENERATION: u32 = 28;

/// Bytes that count as accepted, at most.
const MOST: u64 = 1 << 40;

/// What queues drop, and which flows have none.
#[derive(Debug, Clone)]
pub(super) struct Crowd {
    generation: u32,
    /// A bit for each queue that dropped half of what it accepted in the generation before, or more.
    flooded: u32,
    /// Bytes that each queue dropped in this generation.
    dropped: [u32; QUEUES],
    /// Two bits for the hash of each flow without a queue in this generation, and in the one before.
    seen: [[u64; WORDS]; 2],
}

impl Crowd {
    pub(super) const NOBODY: Self = Self {
        generation: 0,
        flooded: 0,
        dropped: [0; QUEUES],
        seen: [[0; WORDS]; 2],
    };

    /// A queue dropped a packet of this many bytes.
    #[inline(always)]
    pub(super) fn note_drop(&mut self, queue: u16, bytes: u32) {
        if let Some(dropped) = self.dropped.get_mut(usize::from(queue)) {
            *dropped = dropped.saturating_add(bytes);
        }
    }

    /// A flow has this queue for its own from now on.
    pub(super) fn forget(&mut self, queue: u16) {
        if let Some(dropped) = self.dropped.get_mut(usize::from(queue)) {
            *dropped = 0;
            self.flooded &= !(1 << queue);
        }
    }

    /// Begins another generation if it is time. `accepted` is what a queue accepted lately, or `None` if it is empty.
    pub(super) fn advance(&mut self, now: Nanos, accepted: impl Fn(u16) -> Option<u64>) {
        let generation = (now >> GENERATION) as u32;
        if generation == self.generation {
            return;
        }
        let floods = |&queue: &u16| {
            let dropped = u64::from(self.dropped[usize::from(queue)]);
            accepted(queue).is_some_and(|accepted| dropped > accepted / 2)
        };
        self.flooded = (0..QUEUES as u16)
            .filter(floods)
            .map(|queue| 1 << queue)
            .sum();
        let follows = generation == self.generation.wrapping_add(1);
        let before = if follows { self.seen[0] } else { [0; WORDS] };
        (self.seen, self.generation) = ([[0; WORDS], before], generation);
        self.dropped = [0; QUEUES];
    }

    /// The queue for a flow without one, among `queues` from `first` on, and whether it is the flow's own. `None` if no
    /// queue floods. `accepted` is as above.
    pub(super) fn place(
        &mut self,
        now: Nanos,
        flow: u32,
        (first, queues): (u16, u16),
        accepted: impl Fn(u16) -> Option<u64>,
    ) -> Option<(u16, bool)> {
        let new = !self.was_seen(flow as u16, 1) & !self.was_seen(flow as u16, 0);
        self.see(flow as u16);
        let floods = |&queue: &u16| self.flooded >> queue & 1 == 1;
        let from = |start: u16| (start..first + queues).chain(first..start);
        let crowded = from(first + fraction(drawn(0, now), queues)).find(floods)?;
        let others = from(first + fraction(flow, queues)).filter(|&queue| new && queue != crowded);
        let loses = |&queue: &u16| match accepted(queue) {
            None => 0,
            Some(_) if floods(&queue) => 1,
            Some(accepted) => 2 + accepted.min(MOST),
        };
        match others.min_by_key(loses) {
            Some(other) => Some((other, true)),
            None => Some((crowded, false)),
        }
    }

    /// A flow has no queue now. The half of its hash that owners are known by is enough.
    pub(super) fn see(&mut self, flow: u16) {
        for (word, bit) in self.bits(flow, 0) {
            self.seen[0][word] |= bit;
        }
    }

    /// Where the bits of a flow are, this many generations ago. Each one has another hash, so that no flow is taken for
    /// another one for long.
    fn bits(&self, flow: u16, ago: u32) -> [(usize, u64); 2] {
        let salt = self.generation.wrapping_sub(ago).wrapping_mul(0x9e37_79b9);
        let hash = (u32::from(flow) ^ salt).wrapping_mul(0x85eb_ca6b);
        let hash = (hash ^ hash >> 15).wrapping_mul(0xc2b2_ae35);
        [hash, hash.rotate_left(16)].map(|hash| {
            let bit = fraction(hash, BITS);
            (usize::from(bit >> 6), 1 << (bit & 63))
        })
    }

    fn was_seen(&self, flow: u16, ago: u32) -> bool {
        let seen = &self.seen[ago as usize];
        let bits = self.bits(flow, ago);
        bits.iter().all(|&(word, bit)| seen[word] & bit != 0)
    }
}
