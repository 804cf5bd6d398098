//! Micro-bursts: packets that a server sends at once, as [Trickle §3.2] counts them.

use crate::read::Nanos;

/// Packets at most so far apart belong together: a millisecond.
pub const GAP: Nanos = 1_000_000;
/// Fewer packets are no burst: slow start alone sends three at a time.
pub const LEAST: u32 = 4;

/// The sizes in packets of the bursts among packets that were sent at these times: runs of at least
/// [`LEAST`] with no more than [`GAP`] from each to the next. A capture's clock that goes back does
/// not end a run.
pub fn bursts(times: impl IntoIterator<Item = Nanos>) -> Vec<u32> {
    let mut sizes = Vec::new();
    let mut run: Option<(Nanos, u32)> = None;
    for at in times {
        run = match run {
            Some((last, length)) if at <= last.saturating_add(GAP) => {
                Some((at.max(last), length.saturating_add(1)))
            }
            ended => {
                sizes.extend(ended.map(|(_, length)| length));
                Some((at, 1))
            }
        };
    }
    sizes.extend(run.map(|(_, length)| length));
    sizes.retain(|&length| length >= LEAST);
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of these lengths, with this far from packet to packet and 2 ms between runs.
    fn runs(lengths: &[u64], gap: Nanos) -> Vec<Nanos> {
        let mut at = 0;
        let mut times = Vec::new();
        for &length in lengths {
            at += 2 * GAP;
            for _ in 0..length {
                times.push(at);
                at += gap;
            }
        }
        times
    }

    #[test]
    fn runs_of_four_and_more_are_bursts() {
        assert_eq!(bursts(runs(&[45, 3, 4, 10], 0)), [45, 4, 10]);
        assert_eq!(bursts(runs(&[45, 3, 4, 10], GAP)), [45, 4, 10]);
        assert!(bursts(runs(&[45], GAP + 1)).is_empty());
        assert!(bursts([]).is_empty());
    }

    #[test]
    fn a_clock_that_goes_back_joins_and_does_not_overflow() {
        let back = [10 * GAP, 10 * GAP + 5, 9 * GAP, 11 * GAP, 13 * GAP];
        assert_eq!(bursts(back), [4]);
        assert_eq!(bursts([Nanos::MAX; 5]), [5]);
    }
}
