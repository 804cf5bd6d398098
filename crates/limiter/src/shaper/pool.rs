//! Where packets wait: one pool of slots, in which every queue is a linked list.

/// No slot.
const NONE: u32 = u32::MAX;

/// Room for packets, which all queues share. If each queue had room of its own, all of them would
/// reserve for the worst case: at 16 queues of 48 packets of 1500 bytes that is over 1 MB for one
/// aggregate [BCPQP §2.1], over 100 GB for 100,000, of which nearly all is empty at any time.
/// From a pool, queues take only what they hold. Slots are touched when first needed, and those
/// freed last are used first, so memory that is not needed is never touched.
#[derive(Debug)]
pub(super) struct Pool<P> {
    slots: Vec<Slot<P>>,
    /// The first of the slots that were used before and are free, linked by `next`.
    free: u32,
    capacity: usize,
}

/// A packet, and the slot of the one behind it.
#[derive(Debug)]
struct Slot<P> {
    packet: Option<P>,
    bytes: u32,
    next: u32,
}

/// First in, first out.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    head: u32,
    tail: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
    };
}

impl<P> Pool<P> {
    pub(super) fn new(packets: usize) -> Self {
        let capacity = packets.min(NONE as usize);
        Self {
            slots: Vec::with_capacity(capacity),
            free: NONE,
            capacity,
        }
    }

    /// Puts a packet at the end of a list; gives it back if there is no slot left.
    pub(super) fn push(&mut self, list: &mut List, bytes: u32, packet: P) -> Result<(), P> {
        let slot = Slot {
            packet: Some(packet),
            bytes,
            next: NONE,
        };
        let number = if self.free != NONE {
            let number = self.free;
            let place = &mut self.slots[number as usize];
            self.free = place.next;
            *place = slot;
            number
        } else if self.slots.len() < self.capacity {
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        } else {
            return slot.packet.map_or(Ok(()), Err);
        };
        match list.tail {
            NONE => list.head = number,
            tail => self.slots[tail as usize].next = number,
        }
        list.tail = number;
        Ok(())
    }

    /// The packets of all lists.
    pub(super) fn into_packets(self) -> impl Iterator<Item = P> {
        self.slots.into_iter().filter_map(|slot| slot.packet)
    }

    /// Takes the first packet of a list, and what it was charged.
    pub(super) fn pop(&mut self, list: &mut List) -> Option<(P, u32)> {
        let number = list.head;
        let slot = self.slots.get_mut(number as usize)?;
        let packet = slot.packet.take()?;
        list.head = slot.next;
        if list.head == NONE {
            list.tail = NONE;
        }
        slot.next = self.free;
        self.free = number;
        Some((packet, slot.bytes))
    }
}
