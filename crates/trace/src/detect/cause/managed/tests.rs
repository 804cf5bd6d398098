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
    // The wait grows from 8 ms on in 26 of 200 packets, and then shrinks to 1 ms.
    let waits = |i: usize| match i % 200 {
        grown @ 0..26 => 0.008 + 0.001 * grown as f64,
        shrunk => (0.033 - 0.004 * (shrunk - 26) as f64).max(0.001),
    };
    assert_eq!(kind(&sent(waits, |i| i % 200 == 23)), Some(AqmKind::Codel));
    // Sooner than that it cannot be CoDel.
    assert_eq!(kind(&sent(waits, |i| i % 200 == 10)), None);
}

#[test]
fn drops_that_begin_late_and_do_not_let_a_queue_stand_are_pie() {
    // A start that fills the queue, and then drops at random around 20 ms.
    let waits = |i: usize| match i {
        0..30 => 0.01 * i as f64,
        _ => 0.02,
    };
    assert_eq!(
        kind(&sent(waits, |i| i == 20 || i % 150 == 149)),
        Some(AqmKind::Pie)
    );
    // CoDel would have dropped sooner.
    assert_eq!(kind(&sent(waits, |i| i == 9 || i % 150 == 149)), None);
}

#[test]
fn drops_from_a_queue_that_stands_are_red() {
    assert_eq!(
        kind(&sent(|_| 0.13, |i| i % 150 == 149)),
        Some(AqmKind::Red)
    );
    assert_eq!(kind(&sent(|_| 0.03, |i| i % 150 == 149)), None);
    assert_eq!(kind(&sent(|_| 0.13, |i| (800..900).contains(&i))), None);
}

#[test]
fn few_drops_tell_nothing() {
    assert_eq!(kind(&[]), None);
    assert_eq!(kind(&sent(|_| 0.1, |i| i == 300 || i == 900)), None);
    assert_eq!(kind(&sent(|_| 0.1, |_| true)), None);
}

/// The least wait before each drop is that of a search through all packets, in whatever order they leave.
#[test]
fn the_least_wait_is_that_of_the_interval_before_each_drop() {
    // Waits that jump by up to 300 ms, so that packets overtake each other by far.
    let waits = |i: usize| (i * i * 7919 % 301) as f64 / 1_000.0;
    let (passed, dropped) = leaving(&sent(waits, |i| i % 7 == 3), PATH);
    assert!(!passed.is_sorted_by_key(|packet| packet.at));
    let mut expected: Vec<(f64, f64)> = dropped
        .iter()
        .map(|drop| {
            let interval = drop.at - INTERVAL..drop.at;
            let within = passed.iter().filter(|packet| interval.contains(&packet.at));
            let least = within.map(|packet| packet.waited);
            (drop.at, least.fold(drop.waited, f64::min))
        })
        .collect();
    expected.sort_by(|one, other| one.0.total_cmp(&other.0));
    let expected: Vec<f64> = expected.into_iter().map(|(_, least)| least).collect();
    assert_eq!(least_before(&passed, &dropped), expected);
}
