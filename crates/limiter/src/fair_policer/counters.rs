//! How many bytes each flow occupies.

#[cfg(test)]
mod tests;

/// Counters of flows: exact, or estimates that are never too low.
#[derive(Debug, Clone)]
pub(super) enum Counters {
    Exact(FlowTable),
    Sketch(Sketch),
}

impl Counters {
    #[inline]
    pub(super) fn of(&self, flow: u32) -> u64 {
        match self {
            Self::Exact(table) => table.of(flow),
            Self::Sketch(sketch) => sketch.of(flow),
        }
    }

    #[inline]
    pub(super) fn add(&mut self, flow: u32, bytes: u64) {
        match self {
            Self::Exact(table) => table.add(flow, bytes),
            Self::Sketch(sketch) => sketch.update(flow, |count| count.saturating_add(bytes)),
        }
    }

    /// No more than the flow has.
    #[inline]
    pub(super) fn subtract(&mut self, flow: u32, bytes: u64) {
        match self {
            Self::Exact(table) => table.subtract(flow, bytes),
            Self::Sketch(sketch) => sketch.update(flow, |count| count.saturating_sub(bytes)),
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    flow: u32,
    /// 0 in a free slot.
    bytes: u64,
}

/// Flows with open addressing and linear probing. At least half of the slots are free as long as
/// no more flows than promised have any bytes.
#[derive(Debug, Clone)]
pub(super) struct FlowTable {
    slots: Box<[Slot]>,
    shift: u32,
}

impl FlowTable {
    pub(super) fn new(flows: u16) -> Self {
        let slots = (2 * usize::from(flows)).next_power_of_two().max(2);
        Self {
            slots: vec![Slot::default(); slots].into(),
            shift: u32::BITS - slots.trailing_zeros(),
        }
    }

    /// Where the flow is looked for first: Fibonacci hashing [Knuth, volume 3, §6.4], so that
    /// flows numbered from 0, as in a simulation, are spread as well as hashes.
    #[inline]
    fn home(&self, flow: u32) -> usize {
        (flow.wrapping_mul(0x9e37_79b1) >> self.shift) as usize
    }

    /// The slot of the flow, or the free one where it belongs.
    #[inline]
    fn find(&self, flow: u32) -> usize {
        let mut at = self.home(flow);
        while self.slots[at].bytes != 0 && self.slots[at].flow != flow {
            at = (at + 1) & (self.slots.len() - 1);
        }
        at
    }

    #[inline]
    fn of(&self, flow: u32) -> u64 {
        self.slots[self.find(flow)].bytes
    }

    #[inline]
    fn add(&mut self, flow: u32, bytes: u64) {
        let at = self.find(flow);
        let bytes = self.slots[at].bytes.saturating_add(bytes);
        self.slots[at] = Slot { flow, bytes };
    }

    #[inline]
    fn subtract(&mut self, flow: u32, bytes: u64) {
        let at = self.find(flow);
        if self.slots[at].bytes == 0 {
            return;
        }
        self.slots[at].bytes = self.slots[at].bytes.saturating_sub(bytes);
        if self.slots[at].bytes == 0 {
            self.close(at);
        }
    }

    /// Moves flows that were pushed on past a slot, now free, back towards their home.
    fn close(&mut self, mut free: usize) {
        let mask = self.slots.len() - 1;
        let mut at = (free + 1) & mask;
        while self.slots[at].bytes != 0 {
            let from_home = at.wrapping_sub(self.home(self.slots[at].flow)) & mask;
            if from_home >= at.wrapping_sub(free) & mask {
                self.slots.swap(free, at);
                free = at;
            }
            at = (at + 1) & mask;
        }
    }
}

/// A Count-Min sketch [Cormode and Muthukrishnan, 2005]: each flow has a counter in every row, and
/// the least of them is the least that others have added to.
#[derive(Debug, Clone)]
pub(super) struct Sketch {
    counts: Box<[[u64; Self::WIDTH]; Self::ROWS]>,
    hashes: [(u64, u64); Self::ROWS],
}

impl Sketch {
    const ROWS: usize = 4;
    const WIDTH: usize = 1024;

    pub(super) fn new(seed: u64) -> Self {
        let mut state = seed;
        Self {
            counts: Box::new([[0; Self::WIDTH]; Self::ROWS]),
            hashes: std::array::from_fn(|_| (random(&mut state), random(&mut state))),
        }
    }

    /// The flow's counter in a row. Multiply-shift with an offset is 2-universal, as the sketch
    /// asks for [Dietzfelbinger, 1996].
    #[inline]
    fn place(&self, row: usize, flow: u32) -> usize {
        let (factor, offset) = self.hashes[row];
        let hash = factor.wrapping_mul(flow.into()).wrapping_add(offset);
        (hash >> (u64::BITS - Self::WIDTH.trailing_zeros())) as usize
    }

    #[inline]
    fn of(&self, flow: u32) -> u64 {
        let count = |row| self.counts[row][self.place(row, flow)];
        (1..Self::ROWS).fold(count(0), |least, row| least.min(count(row)))
    }

    #[inline]
    fn update(&mut self, flow: u32, change: impl Fn(u64) -> u64) {
        for row in 0..Self::ROWS {
            let place = self.place(row, flow);
            self.counts[row][place] = change(self.counts[row][place]);
        }
    }
}

/// SplitMix64 [Steele, Lea and Flood, 2014].
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
