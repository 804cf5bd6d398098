//! When each actor of a simulation acts next.

use std::collections::{BTreeSet, VecDeque};

use tidegate_limiter::{Nanos, prefetch_all};

use crate::plan::Plan;

#[cfg(test)]
mod tests;

/// The time of an actor that is not set. Nothing acts so late.
const IDLE: Nanos = Nanos::MAX;
/// No actor.
const NONE: u32 = u32::MAX;
/// In place of the actor before it in its slot: it is beyond all slots.
const FAR: u32 = u32::MAX - 1;
/// All slots together last 2^26 ns, 67 ms: most round trips, and delayed acknowledgements.
const SPAN: u32 = 26;
/// Bounds of the number of slots, as powers of two. The largest have 256 kB.
const SLOTS: (u32, u32) = (6, 16);
/// Up to this many actors are simply kept in order, in one slot.
const FEW: usize = 64;
/// From this many on, their memory is asked for ahead, and so slots that begin within `NEAR` slots are put in order
/// ahead of time, until `SOON` entries are known.
const MANY: usize = 1000;
const NEAR: u64 = 12;
const SOON: usize = 20;

/// Which of several actors acts first at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ties {
    /// The one that was set first.
    Counted,
    /// The one that was set at the earlier time, then the one with the lower number. Unlike a count over all settings,
    /// this is known in any part of a simulation without the others.
    Timed,
}

impl Ties {
    /// The order of a plan, which depends on nothing but its number of flows: so a plan has the same outcome with and
    /// without a capture, and on any number of threads. Small plans have kept the order that they always had.
    pub fn of(plan: &Plan) -> Self {
        if plan.flows.len() < MANY_FLOWS {
            Self::Counted
        } else {
            Self::Timed
        }
    }
}

/// Flows from which on plans may be divided. With so few, two cores are 1.2 to 1.9 times as fast as one, with thousands more.
pub const MANY_FLOWS: usize = 300;

/// The place of an action in a simulation with [`Ties::Timed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// When it is.
    pub at: Nanos,
    /// When that was set.
    pub set: Nanos,
    /// Who acts.
    pub actor: u32,
}

impl Key {
    /// Behind all actions.
    pub const NEVER: Self = Self {
        at: IDLE,
        set: Nanos::MAX,
        actor: NONE,
    };
}

/// A calendar with at most one entry for each actor: an element, an end of a connection, a flow's
/// delay, an application. Later deadlines of an actor are kept by the actor. So the calendar stays as
/// small as the network, for any number of packets under way.
///
/// Equal times are served in the order that [`Ties`] says.
///
/// It is a calendar queue (Brown 1988): times are in slots, each of which is put in order when its turn comes. An
/// entry costs the same among five actors and among fifty thousand, where a heap waits for memory at each of its levels.
#[derive(Debug, Clone)]
pub struct Timers {
    ties: Ties,
    actors: Vec<Actor>,
    /// In order: the entries of the present slot, and of those before it.
    soon: VecDeque<Entry>,
    /// Number of the present slot: time divided by the length of a slot.
    present: u64,
    /// A slot lasts two to the power of this many nanoseconds.
    shift: u32,
    /// With fewer entries in order than these, further slots are put in order.
    least: usize,
    /// The first actor of each of the slots that follow the present one, and a bit for each slot that has one.
    slots: Vec<u32>,
    used: Vec<u64>,
    /// Entries that were beyond all slots when they were set.
    far: BTreeSet<Entry>,
    /// Entries of a slot that is being put in order.
    unordered: Vec<Entry>,
    set: u64,
}

#[derive(Debug, Clone, Copy)]
struct Actor {
    at: Nanos,
    order: u64,
    /// The actors behind it and before it in its slot.
    next: u32,
    previous: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: Nanos,
    /// A counter of the settings, or the time of this one.
    order: u64,
    actor: u32,
}

impl Timers {
    /// Timers for this many actors, none of them set.
    pub fn new(actors: usize, ties: Ties) -> Self {
        // A few slots for each actor: then a slot has few entries, for most actors act several times in a span.
        let bits = (actors.saturating_mul(4) | 1).ilog2() + 1;
        let bits = bits.clamp(SLOTS.0, SLOTS.1);
        let idle = Actor {
            at: IDLE,
            order: 0,
            next: NONE,
            previous: NONE,
        };
        Self {
            ties,
            actors: vec![idle; actors],
            soon: VecDeque::new(),
            present: 0,
            shift: if actors <= FEW {
                Nanos::BITS - 1
            } else {
                SPAN - bits
            },
            least: if actors < MANY { 1 } else { SOON },
            slots: vec![NONE; 1 << bits],
            used: vec![0; 1 << (bits - 6)],
            far: BTreeSet::new(),
            unordered: Vec::new(),
            set: 0,
        }
    }

    /// Wakes an actor at this time at the latest, which is set now. An earlier entry stays: the actor will find that
    /// nothing is due, and set itself again. So a retransmission timer that every acknowledgement
    /// moves costs nothing.
    #[inline]
    pub fn at_latest(&mut self, actor: usize, at: Nanos, now: Nanos) {
        let present = self.actors[actor].at;
        if present <= at {
            return;
        }
        if present != IDLE {
            self.remove(actor);
        }
        let entry = Entry {
            at,
            order: match self.ties {
                Ties::Counted => self.set,
                Ties::Timed => now,
            },
            actor: actor as u32,
        };
        self.set += 1;
        let slot = at >> self.shift;
        let ahead = slot.saturating_sub(self.present);
        let mut links = (NONE, NONE);
        if ahead == 0 {
            let place = self.soon.partition_point(|other| *other < entry);
            self.soon.insert(place, entry);
        } else if ahead < self.slots.len() as u64 {
            let index = slot as usize % self.slots.len();
            let next = std::mem::replace(&mut self.slots[index], entry.actor);
            if next == NONE {
                self.used[index / 64] |= 1 << (index % 64);
            } else {
                self.actors[next as usize].previous = entry.actor;
            }
            links.0 = next;
        } else {
            self.far.insert(entry);
            links.1 = FAR;
        }
        self.actors[actor] = Actor {
            at,
            order: entry.order,
            next: links.0,
            previous: links.1,
        };
    }

    /// Takes out the entry of an actor that is set.
    fn remove(&mut self, actor: usize) {
        let Actor {
            at,
            order,
            next,
            previous,
        } = self.actors[actor];
        let entry = Entry {
            at,
            order,
            actor: actor as u32,
        };
        if previous == FAR {
            self.far.remove(&entry);
            return;
        }
        let slot = at >> self.shift;
        if slot <= self.present {
            let place = self.soon.partition_point(|other| *other < entry);
            self.soon.remove(place);
            return;
        }
        if next != NONE {
            self.actors[next as usize].previous = previous;
        }
        if previous != NONE {
            self.actors[previous as usize].next = next;
            return;
        }
        let index = slot as usize % self.slots.len();
        self.slots[index] = next;
        if next == NONE {
            self.used[index / 64] &= !(1 << (index % 64));
        }
    }

    /// When the next actor acts, for a caller that sleeps until then.
    pub fn first(&self) -> Option<Nanos> {
        if let Some(first) = self.soon.front() {
            return Some(first.at);
        }
        let slot = self.next_slot(self.slots.len() as u64);
        let mut actor = slot.map_or(NONE, |slot| self.slots[slot as usize % self.slots.len()]);
        let mut least = self.far.first().map(|entry| entry.at);
        while let Some(found) = self.actors.get(actor as usize) {
            least = Some(least.map_or(found.at, |least| least.min(found.at)));
            actor = found.next;
        }
        least
    }

    /// The actor that acts in this place after the next one, unless others are set before it, if that is known.
    #[inline]
    pub fn ahead(&self, place: usize) -> Option<usize> {
        self.soon.get(place).map(|entry| entry.actor as usize)
    }

    /// Asks for the memory of an actor's entry.
    #[inline]
    pub fn prefetch(&self, actor: usize) {
        self.actors.get(actor).inspect(|actor| prefetch_all(*actor));
    }

    /// The actor that acts next, and its time. It is no longer set then.
    #[inline]
    pub fn next(&mut self) -> Option<(Nanos, usize)> {
        if self.soon.len() < self.least {
            self.order();
        }
        let first = self.soon.pop_front()?;
        self.actors[first.actor as usize].at = IDLE;
        Some((first.at, first.actor as usize))
    }

    /// What acts next with [`Ties::Timed`]; [`Key::NEVER`] if nothing does.
    #[inline]
    pub fn peek(&mut self) -> Key {
        debug_assert_eq!(self.ties, Ties::Timed);
        if self.soon.len() < self.least {
            self.order();
        }
        self.soon.front().map_or(Key::NEVER, |first| Key {
            at: first.at,
            set: first.order,
            actor: first.actor,
        })
    }

    /// Puts the next slots in order: one if nothing else is known, and those that begin soon.
    fn order(&mut self) {
        let near = match self.soon.front() {
            Some(first) => (first.at >> self.shift) + NEAR,
            None => u64::MAX,
        };
        while near > self.present {
            let most = (near - self.present).min(self.slots.len() as u64);
            let slot = self.next_slot(most);
            let far = self.far.first().map(|entry| entry.at >> self.shift);
            let Some(slot) = slot
                .into_iter()
                .chain(far)
                .min()
                .filter(|&slot| slot <= near)
            else {
                return;
            };
            self.take(slot);
            if self.soon.len() >= self.least || near == u64::MAX {
                return;
            }
        }
    }

    /// Makes a slot the present one.
    fn take(&mut self, slot: u64) {
        // A far entry may be in a slot that is past.
        self.present = self.present.max(slot);
        let index = self.present as usize % self.slots.len();
        let mut actor = std::mem::replace(&mut self.slots[index], NONE);
        self.used[index / 64] &= !(1 << (index % 64));
        while let Some(found) = self.actors.get(actor as usize) {
            if let Some(next) = self.actors.get(found.next as usize) {
                prefetch_all(next);
            }
            self.unordered.push(Entry {
                at: found.at,
                order: found.order,
                actor,
            });
            actor = found.next;
        }
        while let Some(first) = self.far.first()
            && first.at >> self.shift <= self.present
            && let Some(entry) = self.far.pop_first()
        {
            self.actors[entry.actor as usize].previous = NONE;
            self.unordered.push(entry);
        }
        self.unordered.sort_unstable();
        self.soon.extend(self.unordered.drain(..));
        if let Some(slot) = self.next_slot(NEAR) {
            self.prefetch(self.slots[slot as usize % self.slots.len()] as usize);
        }
    }

    /// The next slot that has entries, among this many that follow the present one.
    fn next_slot(&self, most: u64) -> Option<u64> {
        let slots = self.slots.len() as u64;
        let mut slot = self.present + 1;
        let end = self.present.saturating_add(most);
        while slot <= end {
            let index = (slot % slots) as usize;
            let left = self.used[index / 64] >> (index % 64);
            if left != 0 {
                slot += u64::from(left.trailing_zeros());
                return (slot <= end).then_some(slot);
            }
            slot += 64 - (index % 64) as u64;
        }
        None
    }
}
