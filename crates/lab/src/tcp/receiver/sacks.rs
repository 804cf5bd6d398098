//! The ranges a receiver reports, RFC 2018 §4: the latest changed first, so that each is reported
//! several times (Linux `selective_acks`).

/// The most ranges that can fit into a segment.
const MOST: usize = 4;

/// Up to four ranges, the latest first. Mostly there are none, so their number is apart from them.
#[derive(Debug, Clone, Default)]
#[repr(C)]
pub(super) struct SackList {
    ranges: [(u64, u64); MOST],
    count: usize,
}

impl SackList {
    pub(super) fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges[..self.count]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The index of a range that this one covers; the length of the list if there is none.
    pub(super) fn position(&self, range: (u64, u64)) -> usize {
        let covered = |&(from, to): &(u64, u64)| range.0 <= from && to <= range.1;
        self.ranges().iter().position(covered).unwrap_or(self.count)
    }

    /// Puts a range first, and removes the ranges that it covers.
    pub(super) fn add(&mut self, range: (u64, u64)) {
        self.retain(|&(from, to)| to < range.0 || from > range.1);
        self.count = (self.count + 1).min(MOST);
        self.ranges[..self.count].rotate_right(1);
        self.ranges[0] = range;
    }

    /// Removes bytes that are acknowledged cumulatively.
    pub(super) fn remove_below(&mut self, next: u64) {
        self.retain(|&(_, to)| to > next);
    }

    fn retain(&mut self, keep: impl Fn(&(u64, u64)) -> bool) {
        let mut kept = 0;
        for index in 0..self.count {
            if keep(&self.ranges[index]) {
                self.ranges[kept] = self.ranges[index];
                kept += 1;
            }
        }
        self.count = kept;
    }
}
