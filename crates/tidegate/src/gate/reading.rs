//! Who is limited, and what was counted of everybody at one time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_gate::table::{Counters, Direction, Match};

#[cfg(test)]
mod tests;

/// Both directions, in the order of what is held for each.
pub const DIRECTIONS: [Direction; 2] = [Direction::Down, Direction::Up];

/// A direction's name in tables, labels and JSON.
pub fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Down => "down",
        Direction::Up => "up",
    }
}

/// A subscriber's limit in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The limiter's number.
    pub limiter: u32,
    /// Bits per second; `None` if it is only counted.
    pub rate: Option<u64>,
}

/// A subscriber.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// As the configuration has it.
    pub name: Box<str>,
    /// The plan's name.
    pub plan: Arc<str>,
    /// Whether `set` made it different from the file.
    pub set: bool,
    /// Down and up.
    pub limits: [Option<Limit>; 2],
    /// What tells its packets.
    pub matches: Vec<Match>,
}

/// All subscribers, sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roster {
    /// Sorted by name, without duplicates.
    pub entries: Vec<Entry>,
}

impl Roster {
    /// Where the subscriber of this name is.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.entries
            .binary_search_by(|entry| (*entry.name).cmp(name))
            .ok()
    }

    /// The first subscriber whose name sorts behind this one.
    pub fn after(&self, name: &str) -> usize {
        self.entries.partition_point(|entry| &*entry.name <= name)
    }

    /// How many are not as the file has them.
    pub fn set(&self) -> u64 {
        self.entries.iter().filter(|entry| entry.set).count() as u64
    }
}

/// What the kernel has counted, at one time.
#[derive(Debug, Clone)]
pub struct Reading {
    /// When.
    pub at: Instant,
    /// How long it took.
    pub took: Duration,
    /// Who.
    pub roster: Arc<Roster>,
    /// For each of them, down and up; zeros where there is no limit.
    pub counters: Vec<[Counters; 2]>,
    /// Packets that no limiter saw, by reason.
    pub unlimited: Vec<(&'static str, u64)>,
}

impl Reading {
    /// Where the subscriber at `index` was in an earlier reading.
    pub fn index_in(&self, earlier: &Self, index: usize) -> Option<usize> {
        if Arc::ptr_eq(&self.roster, &earlier.roster) {
            return Some(index);
        }
        earlier.roster.find(&self.roster.entries[index].name)
    }

    /// The sum over subscribers, down and up.
    pub fn sums(&self) -> [Counters; 2] {
        let mut sums = [Counters::default(); 2];
        for counters in &self.counters {
            for (sum, one) in sums.iter_mut().zip(counters) {
                *sum = plus(*sum, *one);
            }
        }
        sums
    }
}

/// Of two counts of the same, what came between them. One that fell began anew.
pub fn since(now: u64, before: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

/// What was counted between two times.
pub fn difference(now: Counters, before: Counters) -> Counters {
    Counters {
        passed_packets: since(now.passed_packets, before.passed_packets),
        passed_bytes: since(now.passed_bytes, before.passed_bytes),
        excess_packets: since(now.excess_packets, before.excess_packets),
        excess_bytes: since(now.excess_bytes, before.excess_bytes),
    }
}

/// Both together.
pub fn plus(a: Counters, b: Counters) -> Counters {
    Counters {
        passed_packets: a.passed_packets.wrapping_add(b.passed_packets),
        passed_bytes: a.passed_bytes.wrapping_add(b.passed_bytes),
        excess_packets: a.excess_packets.wrapping_add(b.excess_packets),
        excess_bytes: a.excess_bytes.wrapping_add(b.excess_bytes),
    }
}

/// Sums over subscribers that never fall, also when some go: a counter that falls is read as one
/// that began anew, and all of it would count again.
#[derive(Debug, Default)]
pub struct Totals {
    sums: [Counters; 2],
    last: Option<Arc<Reading>>,
}

impl Totals {
    /// Adds what was counted since the reading before.
    pub fn add(&mut self, reading: &Arc<Reading>) {
        for (index, counters) in reading.counters.iter().enumerate() {
            let before = self.last.as_ref().and_then(|last| {
                let index = reading.index_in(last, index)?;
                Some(last.counters[index])
            });
            for (way, sum) in self.sums.iter_mut().enumerate() {
                let before = before.map_or(Counters::default(), |before| before[way]);
                *sum = plus(*sum, difference(counters[way], before));
            }
        }
        self.last = Some(Arc::clone(reading));
    }

    /// Down and up.
    pub fn get(&self) -> [Counters; 2] {
        self.sums
    }
}
