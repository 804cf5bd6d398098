use super::{TICK, at_tick};
use crate::MILLISECOND;

/// A kernel with CONFIG_HZ=250 armed the reordering timer at 4254.92 ms of a capture, for 12 ms,
/// and sent again at 4267.14 ms: between 12 and 16 ms later, depending on the phase of its ticks.
#[test]
fn short_timers_fire_at_ticks_and_never_early() {
    let millis = |time| time * MILLISECOND;
    assert_eq!(at_tick(0, millis(12)), millis(16));
    assert_eq!(at_tick(millis(3), millis(12)), millis(16));
    assert_eq!(at_tick(millis(4), millis(12)), millis(20));
    // Rounded up to two ticks.
    assert_eq!(at_tick(0, millis(4) + 1), millis(12));
    for now in (0..millis(9)).step_by(77_777) {
        for wait in (0..millis(9)).step_by(77_777) {
            let late = at_tick(now, wait) - (now + wait);
            assert!((1..=2 * TICK).contains(&late), "{now} {wait}");
        }
    }
}
