//! Packets that are on their way between two parts, or back to a server.

use std::collections::VecDeque;

use tidegate_limiter::{Nanos, prefetch_all};

use crate::packet::Packet;
use crate::sim::timers::Key;
use crate::tcp::Segment;

/// The place of a packet in a batch, by when it arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    at: Nanos,
    set: Nanos,
    actor: u32,
    /// Packets with the same key arrive in the order in which they were sent.
    pub place: u32,
    /// Its flow, which is known here without the packet's memory.
    flow: u32,
}

impl Entry {
    /// The same elsewhere.
    pub fn placed(self, place: u32) -> Self {
        Self { place, ..self }
    }

    pub fn key(&self) -> Key {
        Key {
            at: self.at,
            set: self.set,
            actor: self.actor,
        }
    }
}

/// The memory of as many places ahead is asked for: it was used many windows ago.
const NEXT: usize = 3;

/// Packets that arrive in the same window. Memory is used again: there are as many packets as entries, and what lies behind
/// them is left from earlier windows.
#[derive(Debug, Default)]
pub struct Batch {
    packets: Vec<Packet>,
    entries: Vec<Entry>,
}

impl Batch {
    /// The place of the next packet, with any content.
    #[inline]
    pub fn spare(&mut self) -> &mut Packet {
        let place = self.entries.len();
        if place == self.packets.len() {
            self.packets
                .push(Packet::new(0, false, 0, Segment::default()));
        }
        &mut self.packets[place]
    }

    /// Takes in the packet that was written to the spare place.
    #[inline]
    pub fn commit(&mut self, key: Key) {
        let Key { at, set, actor } = key;
        let place = self.entries.len() as u32;
        self.entries.push(Entry {
            at,
            set,
            actor,
            place,
            flow: self.packets[place as usize].flow,
        });
        let next = self.packets.get(place as usize + NEXT);
        next.inspect(|packet| prefetch_all(*packet));
    }

    /// Puts the packets in the order of their arrival.
    pub fn sort(&mut self) {
        self.entries.sort_unstable();
    }

    /// Forgets the packets.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The packets in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// When the packet in this place of the order arrives.
    #[inline]
    pub fn key(&self, number: usize) -> Key {
        self.entries.get(number).map_or(Key::NEVER, Entry::key)
    }

    /// The flow of the packet in this place of the order.
    #[inline]
    pub fn flow(&self, number: usize) -> Option<usize> {
        self.entries.get(number).map(|entry| entry.flow as usize)
    }

    /// The packet in this place of the order.
    #[inline]
    pub fn get(&self, number: usize) -> Option<&Packet> {
        let entry = self.entries.get(number)?;
        Some(self.packet(entry.place))
    }

    /// The packet of an entry.
    #[inline]
    pub fn packet(&self, place: u32) -> &Packet {
        &self.packets[place as usize]
    }
}

/// The batches of the coming windows, for packets of one direction. A window lasts a power of two in nanoseconds.
#[derive(Debug)]
pub struct Transit {
    shift: u32,
    /// The window of the first batch.
    first: u64,
    batches: VecDeque<Batch>,
    spare: Vec<Batch>,
}

impl Transit {
    /// Batches from this window on.
    pub fn new(shift: u32, first: u64) -> Self {
        Self {
            shift,
            first,
            batches: VecDeque::new(),
            spare: Vec::new(),
        }
    }

    /// The batch of the window of this time.
    #[inline]
    pub fn at(&mut self, due: Nanos) -> &mut Batch {
        let place = ((due >> self.shift) - self.first) as usize;
        while self.batches.len() <= place {
            self.batches.push_back(self.spare.pop().unwrap_or_default());
        }
        &mut self.batches[place]
    }

    /// Takes the batch of the next window, in order.
    pub fn take(&mut self) -> Batch {
        self.first += 1;
        let mut batch = self.batches.pop_front().unwrap_or_default();
        batch.sort();
        batch
    }

    /// Takes back the memory of a batch.
    pub fn reuse(&mut self, mut batch: Batch) {
        batch.clear();
        self.spare.push(batch);
    }

    /// Packets in all batches.
    pub fn held(&self) -> usize {
        self.batches.iter().map(Batch::len).sum()
    }
}

/// Which packets of a flow's direction arrive when.
#[derive(Debug)]
pub struct Way {
    delay: Nanos,
    actor: u32,
    /// When the last packet arrives, and when that is set.
    last: (Nanos, Nanos),
}

impl Way {
    /// A way that takes this long, as an actor with this number.
    pub fn new(delay: Nanos, actor: usize) -> Self {
        Self {
            delay,
            actor: actor as u32,
            last: (0, 0),
        }
    }

    /// When a packet arrives that is sent now.
    #[inline]
    pub fn due(&self, now: Nanos) -> Nanos {
        now.saturating_add(self.delay)
    }

    /// The place of its arrival among the actions. The next arrival is set when there is none before it: at once, or when
    /// the packet before it arrives. Packets that arrive at the same time do so in one action.
    #[inline]
    pub fn key(&mut self, now: Nanos) -> Key {
        let due = self.due(now);
        if self.last.0 != due {
            self.last = (due, self.last.0.max(now));
        }
        Key {
            at: due,
            set: self.last.1,
            actor: self.actor,
        }
    }
}
