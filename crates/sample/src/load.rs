//! When more is sampled than can be written.

use tidegate_trace::read::Nanos;

use crate::fraction::Fraction;

/// After a step, the next one down waits this long, unless the ring was nearly empty in between.
const PATIENCE: Nanos = 1_000_000_000;
/// The share rises again after this time without any sign of too much.
const CALM: Nanos = 600_000_000_000;

/// How full the ring is, and what was lost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fill {
    /// Blocks, or bytes, that wait to be written.
    pub waiting: usize,
    /// How many there are.
    pub whole: usize,
    /// Packets that were lost since the last look.
    pub lost: u64,
}

/// Lowers the share of flows when the ring fills, and raises it again to the one that was asked for.
#[derive(Debug)]
pub(crate) struct Load {
    asked: Fraction,
    /// When the share was changed, or the ring was too full.
    last: Nanos,
    /// The ring was nearly empty since then.
    drained: bool,
}

impl Load {
    pub fn new(asked: Fraction, now: Nanos) -> Self {
        Self {
            asked,
            last: now,
            drained: true,
        }
    }

    /// The share from now on, if it is to change.
    pub fn change(&mut self, present: Fraction, fill: Fill, now: Nanos) -> Option<Fraction> {
        let since = now.saturating_sub(self.last);
        // A clock that was set back must not stop this for long.
        if now < self.last {
            self.last = now;
        }
        if fill.waiting * 2 > fill.whole || fill.lost > 0 {
            if !self.drained && since < PATIENCE {
                return None;
            }
            (self.last, self.drained) = (now, false);
            let half = present.halved();
            return (half < present).then_some(half);
        }
        if fill.waiting * 4 <= fill.whole {
            self.drained = true;
            if since >= CALM && present < self.asked {
                self.last = now;
                return Some(present.doubled(self.asked));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    fn fill(waiting: usize, lost: u64) -> Fill {
        Fill {
            waiting,
            whole: 64,
            lost,
        }
    }

    #[test]
    fn the_share_is_halved_once_for_each_time_the_ring_fills_and_comes_back() {
        let asked = Fraction::new(0.1).unwrap();
        let mut load = Load::new(asked, 0);
        assert_eq!(load.change(asked, fill(32, 0), SECOND), None);
        let half = load.change(asked, fill(33, 0), SECOND).unwrap();
        assert_eq!(half, asked.halved());
        // What still waits was sampled before.
        assert_eq!(load.change(half, fill(60, 0), SECOND + 1), None);
        // After a while without relief, again.
        let quarter = load.change(half, fill(60, 0), 2 * SECOND).unwrap();
        assert_eq!(quarter, half.halved());
        // It was drained, so a new loss counts at once.
        assert_eq!(load.change(quarter, fill(1, 0), 2 * SECOND + 1), None);
        let eighth = load.change(quarter, fill(1, 3), 2 * SECOND + 2).unwrap();
        assert_eq!(eighth, quarter.halved());
        let calm = 2 * SECOND + 2 + CALM;
        assert_eq!(load.change(eighth, fill(0, 0), calm - 1), None);
        assert_eq!(load.change(eighth, fill(0, 0), calm), Some(quarter));
        assert_eq!(load.change(quarter, fill(0, 0), calm + 1), None);
        assert_eq!(load.change(quarter, fill(0, 0), calm + CALM), Some(half));
        assert_eq!(load.change(half, fill(0, 0), calm + 2 * CALM), Some(asked));
        assert_eq!(load.change(asked, fill(0, 0), calm + 3 * CALM), None);
    }

    #[test]
    fn a_clock_that_is_set_back_stops_nothing() {
        let asked = Fraction::new(0.1).unwrap();
        let mut load = Load::new(asked, 100 * SECOND);
        let half = load.change(asked, fill(0, 1), 100 * SECOND).unwrap();
        assert_eq!(load.change(half, fill(64, 1), SECOND), None);
        assert!(load.change(half, fill(64, 1), 3 * SECOND).is_some());
    }
}
