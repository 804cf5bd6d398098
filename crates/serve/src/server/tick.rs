//! Times at which waits end together, so that a thread wakes once for many blocks.

use std::sync::LazyLock;
use std::time::Duration;

use tokio::time::Instant;

/// A wait becomes longer by less than this part of it.
const PART: u32 = 8;
/// And by less than this.
const MOST: Duration = Duration::from_millis(16);

/// All times are counted from here.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The time when a wait of this length ends: `until`, or a little later together with others. The token bucket counts the time
/// that passed, so the rate stays the same.
pub(super) fn at(until: Instant, wait: Duration) -> Instant {
    let most = (wait / PART).min(MOST).as_millis();
    // Powers of two, so that waits of different lengths meet.
    let Some(power) = most.checked_ilog2() else {
        return until;
    };
    let tick = 1_000_000 << power;
    let over = until.saturating_duration_since(*BEGAN).as_nanos() % tick;
    match u64::try_from(tick - over) {
        Ok(rest) if over > 0 => until + Duration::from_nanos(rest),
        _ => until,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_end_together_but_little_later() {
        let now = *BEGAN + Duration::from_secs(100);
        let waits = [0, 1, 15_999, 16_000, 46_336, 210_000, 419_430, 5_000_000];
        for micros in (0..1_000).chain(waits) {
            let wait = Duration::from_micros(micros);
            for offset in (0..40_000).step_by(777) {
                let until = now + Duration::from_micros(offset) + wait;
                let late = at(until, wait) - until;
                assert!(late < MOST && late <= wait / PART, "{wait:?}: {late:?}");
            }
        }
        // Between 208 and 224 ms: one time.
        let wait = Duration::from_millis(208);
        let ends = (1..=16).map(|ms| at(now + Duration::from_millis(ms), wait));
        assert!(
            ends.clone().all(|end| end == now + MOST),
            "{:?}",
            ends.collect::<Vec<_>>()
        );
    }
}
