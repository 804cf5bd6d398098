//! The share of all flows that a capture holds, which may change while it is taken.

use tidegate_trace::read::Nanos;

/// Changes that are remembered. A sampler under load changes its share at most once a second.
const REMEMBERED: usize = 1 << 12;

/// Which share of all flows was sampled, and from which time on.
#[derive(Debug)]
pub struct Shares {
    /// In the order of their times.
    changes: Vec<(Nanos, f64)>,
    /// The share before the first change.
    first: f64,
}

impl Shares {
    /// The same share from the beginning on.
    pub fn new(share: f64) -> Self {
        Self {
            changes: Vec::new(),
            first: share,
        }
    }

    /// From this time on, the share is another one.
    pub fn change(&mut self, from: Nanos, share: f64) {
        if self.changes.len() == REMEMBERED {
            (_, self.first) = self.changes.remove(0);
        }
        // Hostile captures may go back in time.
        let last = self.changes.last().map_or(0, |(at, _)| *at);
        self.changes.push((from.max(last), share));
    }

    /// The share of the flows that were sampled in all of this time. It is the smallest one: the flows of a smaller share are
    /// among those of a larger one.
    pub fn during(&self, from: Nanos, to: Nanos) -> f64 {
        let begun = self.changes.partition_point(|(at, _)| *at <= from);
        let before = match begun.checked_sub(1) {
            Some(last) => self.changes[last].1,
            None => self.first,
        };
        let later = self.changes[begun..]
            .iter()
            .take_while(|(at, _)| *at <= to)
            .map(|(_, share)| *share);
        later.fold(before, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_has_the_smallest_share_of_its_time() {
        let mut shares = Shares::new(1.0);
        assert_eq!(shares.during(0, u64::MAX), 1.0);
        for (from, share) in [(10, 0.01), (20, 0.005), (30, 0.01)] {
            shares.change(from, share);
        }
        assert_eq!(shares.during(5, 9), 1.0);
        assert_eq!(shares.during(10, 19), 0.01);
        assert_eq!(shares.during(10, 20), 0.005);
        assert_eq!(shares.during(15, 35), 0.005);
        assert_eq!(shares.during(25, 35), 0.005);
        assert_eq!(shares.during(30, 35), 0.01);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut shares = Shares::new(1.0);
        for at in 0..3 * REMEMBERED as u64 {
            shares.change(at, 0.5);
        }
        assert_eq!(shares.changes.len(), REMEMBERED);
        assert_eq!(shares.during(0, 0), 0.5);
    }
}
