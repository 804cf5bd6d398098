//! What a subscriber's line feels: round trips on both sides of the gate, and segments of TCP that were sent again.
//! `bpf/watch.h` counts them.

use std::collections::HashMap;

use crate::table::PerDirection;

#[cfg(test)]
mod tests;

/// Groups of round trips of like length.
pub(crate) const GROUPS: usize = 128;
/// Each doubling of a round trip is divided into 2 to this power.
pub(crate) const STEPS_SHIFT: u32 = 3;
/// The shortest round trips are of less than 2 to this power of nanoseconds.
pub(crate) const LEAST: u32 = 16;

/// Round trips on one side of the gate, in groups of like length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trips([u32; GROUPS]);

impl Default for Trips {
    fn default() -> Self {
        Self([0; GROUPS])
    }
}

impl Trips {
    /// Adds those of each group.
    pub(crate) fn add(&mut self, counts: impl IntoIterator<Item = u32>) {
        for (sum, count) in self.0.iter_mut().zip(counts) {
            *sum = sum.saturating_add(count);
        }
    }

    /// Their number.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|&count| u64::from(count)).sum()
    }

    /// Where a group begins, in nanoseconds.
    fn begins(group: usize) -> u64 {
        let steps = 1 << STEPS_SHIFT;
        let (doublings, step) = (group >> STEPS_SHIFT, group & (steps - 1));
        ((steps + step) as u64) << (LEAST - STEPS_SHIFT + doublings as u32)
    }

    /// The round trip that this share of all is not longer than, in nanoseconds; `None` if there is none. Within a
    /// group, which is 6 to 12 % of its length wide, they count as evenly spread.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = share.clamp(0.0, 1.0) * self.count() as f64;
        let mut before = 0.0;
        for (group, &count) in self.0.iter().enumerate().filter(|(_, count)| **count > 0) {
            let until = before + f64::from(count);
            if until >= wanted {
                let (begin, end) = (Self::begins(group), Self::begins(group + 1));
                let part = (wanted - before) / f64::from(count);
                return Some(begin + (part * (end - begin) as f64) as u64);
            }
            before = until;
        }
        None
    }
}

/// Round trips, in short.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TripSummary {
    /// Those that were measured since the subscriber was added.
    pub measured: u64,
    /// Those of them that the percentiles are of: of the last 34 to 69 seconds.
    pub lately: u64,
    /// The median, in nanoseconds; 0 if none was measured lately.
    pub p50: u64,
    /// What 95 % are not longer than, in nanoseconds.
    pub p95: u64,
}

impl TripSummary {
    pub(crate) fn of(trips: &Trips, measured: u64) -> Self {
        Self {
            measured,
            lately: trips.count(),
            p50: trips.quantile(0.5).unwrap_or(0),
            p95: trips.quantile(0.95).unwrap_or(0),
        }
    }
}

/// Segments of TCP with data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Segments {
    /// All that came.
    pub all: u64,
    /// Those of them that were sent again.
    pub again: u64,
}

impl Segments {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            all: self.all.wrapping_add(other.all),
            again: self.again.wrapping_add(other.again),
        }
    }

    /// The share that was sent again.
    pub fn share(self) -> f64 {
        match self.all {
            0 => 0.0,
            all => self.again as f64 / all as f64,
        }
    }
}

/// What a subscriber's line feels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Line {
    /// Round trips between the gate and the subscriber's devices: of packets down, and their answers.
    pub access: TripSummary,
    /// Round trips between the gate and what is on its other side: of packets up, and their answers.
    pub core: TripSummary,
    /// Segments since the subscriber was added.
    pub segments: PerDirection<Segments>,
    /// Segments of the last 34 to 69 seconds.
    pub lately: PerDirection<Segments>,
}

/// What lines feel.
#[derive(Debug, Clone, Default)]
pub struct Lines {
    /// By the number of a subscriber. Those without TCP have none.
    pub by_subscriber: HashMap<u32, Line>,
    /// All of them together.
    pub all: Line,
}

/// One line as it was counted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counted {
    /// Round trips lately: of packets down and of packets up.
    pub trips: PerDirection<Trips>,
    /// Round trips since the beginning.
    pub measured: PerDirection<u64>,
    /// As in [`Line`].
    pub segments: PerDirection<Segments>,
    pub lately: PerDirection<Segments>,
}

impl Counted {
    pub fn summary(&self) -> Line {
        Line {
            access: TripSummary::of(&self.trips.down, self.measured.down),
            core: TripSummary::of(&self.trips.up, self.measured.up),
            segments: self.segments,
            lately: self.lately,
        }
    }

    pub fn add(&mut self, other: &Self) {
        for (trips, more) in [
            (&mut self.trips.down, &other.trips.down),
            (&mut self.trips.up, &other.trips.up),
        ] {
            trips.add(more.0);
        }
        let sum = |a: PerDirection<Segments>, b: PerDirection<Segments>| {
            PerDirection::new(|direction| a[direction].plus(b[direction]))
        };
        self.measured = PerDirection::new(|direction| {
            self.measured[direction].wrapping_add(other.measured[direction])
        });
        self.segments = sum(self.segments, other.segments);
        self.lately = sum(self.lately, other.lately);
    }
}
