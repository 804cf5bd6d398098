//! Queues whose waiting times and drops are written down.

use super::*;

const PATH: f64 = 0.04;

/// A packet every 5 ms for ten seconds that waits as `waits` says, in seconds, and is dropped where `drops` says so.
fn sent(waits: impl Fn(usize) -> f64, drops: impl Fn(usize) -> bool) -> Vec<Arrival> {
    (0..2_000)
        .map(|i| Arrival {
            at: i as u64 * 5_000_000,
            rtt: Arrival::rtt_steps(((PATH + waits(i)) * 1e9) as u64),
            transfer: 0,
            weight: 1_518.0,
            lost: drops(i),
        })
        .collect()
}

fn kind(arrivals: &[Arrival]) -> Option<AqmKind> {
    Managed::of(arrivals, PATH).map(|managed| managed.kind)
}

/// A drop 100 ms after packets have begun to wait for more than 5 ms, and an empty queue after it.
#[test]
fn a_drop_after_100_ms_above_5_ms_is_codel() {
    let waits = |i: usize| if i % 200 < 26 { 0.008 } else { 0.001 };
    assert_eq!(kind(&sent(waits, |i| i % 200 == 23)), Some(AqmKind::Codel));
    // Sooner than that it cannot be CoDel.
    assert_eq!(kind(&sent(waits, |i| i % 200 == 15)), None);
    // Nor does CoDel drop two packets in a row.
    assert_eq!(kind(&sent(waits, |i| (22..24).contains(&(i % 200)))), None);
}

#[test]
fn drops_from_a_queue_that_stands_are_red() {
    assert_eq!(kind(&sent(|_| 0.1, |i| i % 150 == 149)), Some(AqmKind::Red));
    assert_eq!(kind(&sent(|_| 0.03, |i| i % 150 == 149)), None);
    assert_eq!(kind(&sent(|_| 0.1, |i| (800..900).contains(&i))), None);
}

#[test]
fn few_drops_tell_nothing() {
    assert_eq!(kind(&[]), None);
    assert_eq!(kind(&sent(|_| 0.1, |i| i == 300 || i == 900)), None);
    assert_eq!(kind(&sent(|_| 0.1, |_| true)), None);
}
