//! When each actor of a simulation acts next.

use tidegate_limiter::Nanos;

#[cfg(test)]
mod tests;

/// Not in the heap.
const IDLE: u32 = u32::MAX;
/// Children of a node. Four share a cache line or two; measured as fast as two, with fewer levels.
const ARITY: usize = 4;

/// A heap with at most one entry for each actor: an element, an end of a connection, a flow's
/// delay, an application. Later deadlines of an actor are kept by the actor. So the heap stays as
/// small as the network, for any number of packets under way.
///
/// Equal times are served in the order in which they were set.
#[derive(Debug, Clone)]
pub struct Timers {
    heap: Vec<Entry>,
    /// Where the entry of each actor is, or [`IDLE`].
    places: Vec<u32>,
    set: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: Nanos,
    /// A counter of the settings, so that no two entries are equal.
    order: u64,
    actor: u32,
}

impl Timers {
    /// Timers for this many actors, none of them set.
    pub fn new(actors: usize) -> Self {
        Self {
            heap: Vec::with_capacity(actors),
            places: vec![IDLE; actors],
            set: 0,
        }
    }

    /// Wakes an actor at this time at the latest. An earlier entry stays: the actor will find that
    /// nothing is due, and set itself again. So a retransmission timer that every acknowledgement
    /// moves costs nothing.
    #[inline]
    pub fn at_latest(&mut self, actor: usize, at: Nanos) {
        let place = self.places[actor];
        if place != IDLE && self.heap[place as usize].at <= at {
            return;
        }
        let entry = Entry {
            at,
            order: self.set,
            actor: actor as u32,
        };
        self.set += 1;
        let place = if place == IDLE {
            self.heap.push(entry);
            self.heap.len() - 1
        } else {
            place as usize
        };
        self.rise(place, entry);
    }

    /// When the next actor acts, for a caller that sleeps until then.
    pub fn first(&self) -> Option<Nanos> {
        self.heap.first().map(|entry| entry.at)
    }

    /// The actor that acts next, and the few of which one follows it.
    #[inline]
    pub fn soon(&self) -> impl Iterator<Item = usize> {
        let first = self.heap.iter().take(1 + ARITY);
        first.map(|entry| entry.actor as usize)
    }

    /// The actor that acts next, and its time. It is removed from the heap.
    #[inline]
    pub fn next(&mut self) -> Option<(Nanos, usize)> {
        let first = *self.heap.first()?;
        self.places[first.actor as usize] = IDLE;
        if let Some(last) = self.heap.pop()
            && !self.heap.is_empty()
        {
            self.sink(last);
        }
        Some((first.at, first.actor as usize))
    }

    /// Moves an entry from a place towards the root until it fits.
    fn rise(&mut self, mut place: usize, entry: Entry) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.heap[parent] < entry {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    /// Moves an entry from the root downwards until it fits.
    fn sink(&mut self, entry: Entry) {
        let mut place = 0;
        loop {
            let first = place * ARITY + 1;
            let children = first..(first + ARITY).min(self.heap.len());
            let Some(least) = children.min_by_key(|&child| self.heap[child]) else {
                break;
            };
            if entry < self.heap[least] {
                break;
            }
            self.put(place, self.heap[least]);
            place = least;
        }
        self.put(place, entry);
    }

    #[inline]
    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        self.places[entry.actor as usize] = place as u32;
    }
}
