use std::time::Duration;

use tokio::time::Instant;

use super::Late;

/// 250 kB a second.
const RATE: u64 = 2_000_000;

/// A network of these rates in bit/s, for so many tenths of a second each, and a kernel that sends at what it is
/// asked for. Returns bytes behind the rate at the end, and the rate asked for then.
fn after(network: &[(u64, u64)]) -> (i64, u64) {
    let mut late = Late::default();
    let (mut now, mut acknowledged, mut due) = (Instant::now(), 0, 0);
    for &(rate, tenths) in network {
        for _ in 0..tenths {
            late.note(now, RATE, acknowledged);
            now += Duration::from_millis(100);
            acknowledged += rate.min(late.asked(RATE)) / 80;
            due += RATE / 80;
        }
    }
    late.note(now, RATE, acknowledged);
    (due as i64 - acknowledged as i64, late.asked(RATE))
}

#[test]
fn a_network_that_is_fast_enough_gets_the_rate() {
    assert_eq!(after(&[(10_000_000, 600)]), (0, RATE));
}

#[test]
fn what_an_outage_missed_is_made_up_for_and_no_more() {
    let outage = [(10_000_000, 50), (0, 20), (10_000_000, 1)];
    assert_eq!(after(&outage).1, RATE * 6 / 5);
    // A fifth more makes up for 2 s in 10 s.
    let made_up = [(10_000_000, 50), (0, 20), (10_000_000, 110)];
    let (behind, rate) = after(&made_up);
    assert!((-6_000..=0).contains(&behind), "{behind}");
    assert_eq!(rate, RATE);
}

/// Acknowledgements that come 200 ms late say nothing.
#[test]
fn a_short_delay_is_none() {
    assert_eq!(after(&[(10_000_000, 50), (0, 2), (10_000_000, 1)]).1, RATE);
}
