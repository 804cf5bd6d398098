//! What an aggregate saves of the rate that it leaves unused.

use proptest::prelude::*;

use super::super::{BurstControl, PhantomQueuesConfig, SizedPhantomQueues};
use crate::{Decision, Ecn, Nanos, PacketMeta, PolicerConfig, PolicyTree, Rate, TokenBucket};

type Flat = SizedPhantomQueues<16, 1>;

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000_000_000;
const BOOST: u64 = 3_000_000;

/// At 1 MB/s, with queues of 10 MB.
fn limiter(boost: u64) -> Flat {
    let policy = PolicyTree::fair(16).unwrap();
    let rate = Rate::from_bits_per_second(8_000_000);
    let config = PhantomQueuesConfig::new(&policy, rate, 10_000_000).unwrap();
    let config = config.with_burst_control(BurstControl::Bucket);
    Flat::new(&config.with_boost(boost), 0).unwrap()
}

fn packet(queue: u16) -> PacketMeta {
    PacketMeta {
        bytes: 1000,
        queue,
        ecn: Ecn::Ect0,
        ..PacketMeta::default()
    }
}

/// Packets of 1000 bytes that pass of a burst, and those of them that are marked.
fn burst(limiter: &mut Flat, now: Nanos, packets: u64) -> (u64, u64) {
    let (mut passed, mut marked) = (0, 0);
    for _ in 0..packets {
        let decision = limiter.offer(now, &packet(0));
        passed += u64::from(decision != Decision::Drop);
        marked += u64::from(decision == Decision::Ce);
    }
    (passed, marked)
}

#[test]
fn what_is_saved_passes_at_once_and_unmarked() {
    let mut with = limiter(BOOST);
    assert_eq!(burst(&mut with, 0, BOOST / 1000), (BOOST / 1000, 0));
    assert_eq!(with.saved(), 0);
    // Then it is the limiter that it is without.
    let mut without = limiter(0);
    for ms in 0..5_000 {
        let (of, one) = (
            with.offer(ms * MS, &packet(0)),
            without.offer(ms * MS, &packet(0)),
        );
        assert_eq!(
            (of, with.offer(ms * MS, &packet(1))),
            (one, without.offer(ms * MS, &packet(1)))
        );
    }
}

#[test]
fn only_rate_that_is_left_unused_is_saved() {
    let mut limiter = limiter(BOOST);
    burst(&mut limiter, 0, BOOST / 1000);
    // Twice the rate: nothing is left of it.
    for ms in 1..10_000 {
        burst(&mut limiter, ms * MS, 2);
    }
    assert_eq!(limiter.saved(), 0);
    // The queue that was filled would run empty in 10 s. After half a second of silence its flow counts as ended: a
    // rest of two seconds saves the rate of what follows.
    assert!(limiter.backlog() > 9_000_000);
    limiter.offer(12_000 * MS, &packet(0));
    assert!(
        (1_500_000..=1_600_000).contains(&limiter.saved()),
        "{}",
        limiter.saved()
    );
}

/// A flow at 0.6 of the rate for minutes saves what it leaves, and no more than the boost.
#[test]
fn minutes_below_the_rate_save_no_more_than_the_boost() {
    let mut limiter = limiter(BOOST);
    for ms in 0..300_000 {
        if ms % 5 < 3 {
            assert_eq!(limiter.offer(ms * MS, &packet(0)), Decision::Pass);
        }
        assert!(limiter.saved() <= BOOST);
    }
    let (passed, _) = burst(&mut limiter, 300 * SECOND, 100_000);
    // The first burst of a flow without a boost is 134 kB.
    assert!(
        (BOOST / 1000..=BOOST / 1000 + 135).contains(&passed),
        "{passed}"
    );
}

#[test]
fn below_a_full_node_nothing_saved_is_used() {
    let mut limiter = limiter(BOOST);
    let mut network = crate::Hierarchy::new(&[crate::NetworkNode {
        capacity: Rate::from_bits_per_second(4_000_000),
        above: None,
    }])
    .unwrap();
    let mut passed = 0;
    for ms in 0..20_000 {
        limiter.set_share(network.share(0, ms * MS));
        let (packets, _) = burst(&mut limiter, ms * MS, 3);
        network.count(0, packets * 1000);
        passed += packets;
    }
    // 10 MB at the node's capacity, and what passes until the node finds that it is full.
    assert!((9_500..10_700).contains(&passed), "{passed}");
    assert!(limiter.saved() > 2_000_000, "{}", limiter.saved());
}

proptest! {
    /// A phantom queue is a bucket seen from the other side. One that saves is a bucket of both sizes.
    #[test]
    fn one_queue_that_saves_is_a_larger_bucket(
        packets in prop::collection::vec((0..40_000u64, 1..9_000u32), 1..400),
        size in 9_000..60_000u64,
        boost in 1..200_000u64,
    ) {
        // A byte a nanosecond, so that no part of a byte is ever lost.
        let rate = Rate::from_bits_per_second(8_000_000_000);
        let config = PhantomQueuesConfig::new(&PolicyTree::queue(), rate, size).unwrap();
        let mut queue = SizedPhantomQueues::<1, 1>::new(&config.with_boost(boost), 0).unwrap();
        let mut bucket = TokenBucket::new(&PolicerConfig::new(rate, size + boost).unwrap(), 0);
        let mut now = 0;
        for (gap, bytes) in packets {
            // Half of the packets come at once.
            now += gap.saturating_sub(20_000);
            let packet = PacketMeta { bytes, ..PacketMeta::default() };
            prop_assert_eq!(queue.offer(now, &packet), bucket.offer(now, &packet));
            prop_assert_eq!(queue.saved() + size - queue.backlog(), bucket.tokens());
        }
    }

    /// Whatever comes: in any interval the bytes of the rate, of the boost, and of all queues.
    #[test]
    fn every_interval_is_bounded(
        packets in prop::collection::vec((0..30_000_000u64, 0..3u16, 40..1_500u32), 1..300),
        boost in 1..200_000u64,
        size in 3_000..30_000u64,
    ) {
        let rate = Rate::from_bits_per_second(8_000_000);
        let policy = PolicyTree::fair(3).unwrap();
        let config = PhantomQueuesConfig::new(&policy, rate, size).unwrap();
        let config = config.with_burst_control(BurstControl::Bucket).with_boost(boost);
        let mut limiter = SizedPhantomQueues::<16, 1>::new(&config, 0).unwrap();
        let (mut now, mut passed) = (0, vec![]);
        for (gap, queue, bytes) in packets {
            now += gap.saturating_sub(20_000_000);
            let packet = PacketMeta { bytes, queue, ..PacketMeta::default() };
            if limiter.offer(now, &packet) == Decision::Pass {
                passed.push((now, u64::from(bytes)));
            }
        }
        for (first, &(from, _)) in passed.iter().enumerate() {
            let mut sum = 0;
            for &(at, bytes) in &passed[first..] {
                sum += bytes;
                prop_assert!(sum <= (at - from).div_ceil(1000) + boost + 3 * size);
            }
        }
    }
}
