//! A timer wheel: which of many things is due, at a cost that does not depend on how many there are.

use crate::Nanos;

#[cfg(test)]
mod tests;

/// No id, no slot.
const NONE: u32 = u32::MAX;
/// This many bits number the slots of a level.
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
/// Enough for any 64-bit tick, so nothing is ever beyond the horizon.
const LEVELS: usize = 64usize.div_ceil(BITS as usize);

/// A hierarchical timer wheel, scheme 7 of Varghese and Lauck (1987), for timers with the ids
/// 0 to n − 1. Slots are lists through arrays, with a bitmap of those in use for each level, so an
/// empty stretch of time costs nothing. Nothing is allocated but for timers that are added.
///
/// Time is counted in ticks of the granularity. A timer is due at the first tick that is not
/// before its time: never early, and late by less than a tick if [`pop`](Self::pop) is called at
/// every tick.
#[derive(Debug)]
pub struct Wheel {
    granularity: Nanos,
    /// All before it is past; at it, there may still be timers.
    now: u64,
    timers: Vec<Timer>,
    slots: Box<[Slot]>,
    /// A bit for each slot of a level: whether it holds anything.
    used: [u64; LEVELS],
}

#[derive(Debug, Clone, Copy)]
struct Timer {
    tick: u64,
    /// The slot it is in, if any.
    slot: u32,
    next: u32,
    previous: u32,
}

impl Timer {
    const IDLE: Self = Self {
        tick: 0,
        slot: NONE,
        next: NONE,
        previous: NONE,
    };
}

/// First in, first out.
#[derive(Debug, Clone, Copy)]
struct Slot {
    head: u32,
    tail: u32,
}

/// How many timers a [`Wheel`] has, and how exactly it keeps their times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WheelSettings {
    /// Timers. Their ids are below this.
    pub timers: u32,
    /// Nanoseconds of a tick; 0 counts as 1.
    pub granularity: Nanos,
}

impl Wheel {
    /// A wheel with no timer scheduled.
    pub fn new(settings: WheelSettings, now: Nanos) -> Self {
        let granularity = settings.granularity.max(1);
        let slot = Slot {
            head: NONE,
            tail: NONE,
        };
        Self {
            granularity,
            now: now / granularity,
            timers: vec![Timer::IDLE; settings.timers as usize],
            slots: vec![slot; LEVELS * SLOTS].into(),
            used: [0; LEVELS],
        }
    }

    /// Adds a timer, whose id is the next one.
    pub fn add(&mut self) {
        self.timers.push(Timer::IDLE);
    }

    /// Makes a timer due at this time, and no longer at the time it was scheduled for before. A
    /// time that is past is due at once.
    ///
    /// # Panics
    /// If there is no such timer.
    #[inline]
    pub fn schedule(&mut self, id: u32, at: Nanos) {
        self.cancel(id);
        self.timers[id as usize].tick = at.div_ceil(self.granularity).max(self.now);
        self.insert(id);
    }

    /// Makes a timer never due, if it was scheduled.
    ///
    /// # Panics
    /// If there is no such timer.
    #[inline]
    pub fn cancel(&mut self, id: u32) {
        let timer = self.timers[id as usize];
        if timer.slot == NONE {
            return;
        }
        self.timers[id as usize].slot = NONE;
        let slot = &mut self.slots[timer.slot as usize];
        match timer.previous {
            NONE => slot.head = timer.next,
            previous => self.timers[previous as usize].next = timer.next,
        }
        match timer.next {
            NONE => slot.tail = timer.previous,
            next => self.timers[next as usize].previous = timer.previous,
        }
        if slot.head == NONE {
            let number = timer.slot as usize;
            self.used[number / SLOTS] &= !(1 << (number % SLOTS));
        }
    }

    /// Takes out the next timer that is due, if one is: to be called until there is none. Timers
    /// come in the order of their ticks, those of a tick in the order in which they were scheduled.
    #[inline]
    pub fn pop(&mut self, now: Nanos) -> Option<u32> {
        let target = now / self.granularity;
        loop {
            let id = self.slots[self.now as usize % SLOTS].head;
            if id != NONE {
                self.cancel(id);
                return Some(id);
            }
            let (level, start) = self
                .first_used()
                .filter(|&(_, start)| start <= target)
                .unwrap_or((0, target.max(self.now)));
            if start == self.now {
                return None;
            }
            self.now = start;
            if level > 0 {
                self.spread(level);
            }
        }
    }

    /// A time before which nothing is due and [`pop`](Self::pop) need not be called; `None` if
    /// nothing is scheduled. The time of the next timer if that is near, or one some way to it.
    pub fn next(&self) -> Option<Nanos> {
        let tick = if self.slots[self.now as usize % SLOTS].head != NONE {
            self.now
        } else {
            self.first_used()?.1
        };
        Some(tick.saturating_mul(self.granularity))
    }

    /// The first slot in use behind the present tick: its level and its first tick.
    #[inline]
    fn first_used(&self) -> Option<(usize, u64)> {
        (0..LEVELS).find_map(|level| {
            let shift = BITS * level as u32;
            let present = (self.now >> shift) as usize % SLOTS;
            // Slots before the present one are past, so what they hold belongs to a later turn.
            let later = self.used[level] & (u64::MAX << present << 1);
            if later == 0 {
                return None;
            }
            let slot = u64::from(later.trailing_zeros());
            let turn = self.now.checked_shr(shift + BITS).unwrap_or(0);
            let turn = turn.checked_shl(shift + BITS).unwrap_or(0);
            Some((level, turn | slot << shift))
        })
    }

    /// Moves the timers of a level's present slot to levels below, in their order. No timer can be
    /// there already: those of this slot's ticks were all put here.
    fn spread(&mut self, level: usize) {
        let number = level * SLOTS + (self.now >> (BITS * level as u32)) as usize % SLOTS;
        let mut id = self.slots[number].head;
        self.slots[number] = Slot {
            head: NONE,
            tail: NONE,
        };
        self.used[level] &= !(1 << (number % SLOTS));
        while id != NONE {
            let next = self.timers[id as usize].next;
            self.insert(id);
            id = next;
        }
    }

    /// Puts a timer at the end of the slot of its tick: on the level of the highest bits in which
    /// that differs from the present.
    #[inline]
    fn insert(&mut self, id: u32) {
        let tick = self.timers[id as usize].tick;
        let differing = tick ^ self.now;
        let level = (differing | 1).ilog2() / BITS;
        let index = (tick >> (BITS * level)) as usize % SLOTS;
        let number = level as usize * SLOTS + index;
        self.used[level as usize] |= 1 << index;
        let slot = &mut self.slots[number];
        let previous = std::mem::replace(&mut slot.tail, id);
        match previous {
            NONE => slot.head = id,
            previous => self.timers[previous as usize].next = id,
        }
        let timer = &mut self.timers[id as usize];
        (timer.slot, timer.next, timer.previous) = (number as u32, NONE, previous);
    }
}
