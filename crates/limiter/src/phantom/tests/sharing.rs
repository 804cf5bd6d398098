//! What backlogged flows get: the policy's shares, as in [BCPQP §3.3] and theorem 1.

use super::super::{BurstControl, PhantomQueuesConfig, SizedPhantomQueues};
use crate::{Decision, PacketMeta, PolicyTree, Rate};

/// Bytes accepted of each queue from the second half of ten seconds in which every queue of
/// `offered` sends at its rate in Mbit/s, at 10 Mbit/s together.
fn shares(policy: &PolicyTree, offered: &[u64], control: Option<BurstControl>) -> Vec<f64> {
    let rate = Rate::from_bits_per_second(10_000_000);
    let mut config = PhantomQueuesConfig::new(policy, rate, 100_000).unwrap();
    if let Some(control) = control {
        config = config.with_burst_control(control);
    }
    let mut limiter = SizedPhantomQueues::<16, 8>::new(&config, 0).unwrap();
    let mut next: Vec<u64> = (0..offered.len() as u64).collect();
    let mut accepted = vec![0u64; offered.len()];
    loop {
        let queue = (0..next.len())
            .filter(|&queue| offered[queue] > 0)
            .min_by_key(|&queue| next[queue])
            .unwrap();
        let now = next[queue];
        if now >= 10_000_000_000 {
            break;
        }
        next[queue] += 1500 * 8 * 1000 / offered[queue];
        let packet = PacketMeta {
            bytes: 1500,
            queue: queue as u16,
            ..PacketMeta::default()
        };
        if limiter.offer(now, &packet) == Decision::Pass && now >= 5_000_000_000 {
            accepted[queue] += 1500;
        }
    }
    // In Mbit/s.
    accepted
        .iter()
        .map(|&bytes| bytes as f64 * 8.0 / 5e6)
        .collect()
}

#[track_caller]
fn assert_shares(policy: &PolicyTree, offered: &[u64], expected: &[f64]) {
    for control in [None, Some(BurstControl::default())] {
        let found = shares(policy, offered, control);
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found - expected).abs() <= 0.02,
                "{found:.3} instead of {expected} Mbit/s, {control:?}"
            );
        }
    }
}

#[test]
fn backlogged_queues_share_evenly() {
    let fair = PolicyTree::fair(4).unwrap();
    assert_shares(&fair, &[20, 40, 11, 5], &[2.5; 4]);
}

#[test]
fn what_one_does_not_use_the_others_get() {
    // Max-min fairness: 1 Mbit/s is all that the first wants.
    let fair = PolicyTree::fair(4).unwrap();
    assert_shares(&fair, &[1, 40, 20, 30], &[1.0, 3.0, 3.0, 3.0]);
}

#[test]
fn weights_are_kept() {
    let queue = PolicyTree::queue;
    let policy = PolicyTree::weighted(vec![(1, queue()), (2, queue()), (7, queue())]).unwrap();
    assert_shares(&policy, &[30, 30, 30], &[1.0, 2.0, 7.0]);
    assert_shares(&policy, &[30, 30, 1], &[3.0, 6.0, 1.0]);
}

#[test]
fn priority_comes_first() {
    let policy = PolicyTree::priority(vec![PolicyTree::queue(), PolicyTree::queue()]).unwrap();
    assert_shares(&policy, &[30, 30], &[10.0, 0.0]);
    assert_shares(&policy, &[0, 30], &[0.0, 10.0]);
    assert_shares(&policy, &[4, 30], &[4.0, 6.0]);
}

#[test]
fn nesting_multiplies_shares() {
    // [BCPQP §6.3.3] and one level more.
    let inner = PolicyTree::weighted(vec![
        (3, PolicyTree::queue()),
        (1, PolicyTree::fair(2).unwrap()),
    ])
    .unwrap();
    let policy = PolicyTree::weighted(vec![(4, inner), (1, PolicyTree::queue())]).unwrap();
    assert_shares(&policy, &[20, 20, 20, 20], &[6.0, 1.0, 1.0, 2.0]);
    assert_shares(&policy, &[0, 20, 20, 20], &[0.0, 4.0, 4.0, 2.0]);
}
