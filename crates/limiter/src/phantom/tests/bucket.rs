//! Burst control by buckets.

use super::super::{BurstControl, PhantomQueuesConfig, QueueFill, SizedPhantomQueues};
use crate::{Decision, Nanos, PacketMeta, PolicyTree, Rate};

type Flat = SizedPhantomQueues<16, 1>;

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000_000_000;

/// At 1 MB/s, with queues of 10 MB.
fn limiter(policy: &PolicyTree) -> Flat {
    Flat::new(&config(policy).with_burst_control(BurstControl::Bucket), 0).unwrap()
}

fn config(policy: &PolicyTree) -> PhantomQueuesConfig {
    let rate = Rate::from_bits_per_second(8_000_000);
    PhantomQueuesConfig::new(policy, rate, 10_000_000).unwrap()
}

fn fair() -> PolicyTree {
    PolicyTree::fair(16).unwrap()
}

fn offer(limiter: &mut Flat, now: Nanos, queue: u16) -> bool {
    let packet = PacketMeta {
        bytes: 1000,
        queue,
        ..PacketMeta::default()
    };
    limiter.offer(now, &packet) == Decision::Pass
}

/// Packets of 1000 bytes that pass of a burst.
fn burst(limiter: &mut Flat, now: Nanos, queue: u16, packets: usize) -> usize {
    (0..packets).filter(|_| offer(limiter, now, queue)).count()
}

/// Packets that pass from one time to another if each millisecond brings this number.
fn send(limiter: &mut Flat, from: Nanos, to: Nanos, queue: u16, each: usize) -> usize {
    (from / MS..to / MS)
        .map(|ms| burst(limiter, ms * MS, queue, each))
        .sum()
}

#[test]
fn first_bursts_are_what_the_surplus_leaves() {
    let mut limiter = limiter(&fair());
    // Twice what is left of 200 kB: the packet that exceeds 133 kB is the last that passes.
    assert_eq!(burst(&mut limiter, 0, 0, 2000), 134);
    let filled = limiter.occupancy(0).next();
    assert_eq!(
        filled,
        Some(QueueFill {
            bytes: 10_000_000,
            magic: 9_866_000
        })
    );
    // Later queues burst less: their shares are smaller, and so is what the surplus leaves.
    let bursts = [1, 2, 3].map(|queue| burst(&mut limiter, 0, queue, 2000));
    assert_eq!(bursts, [34, 13, 7]);
    // 0.2 s of the rate together, and an eighth of 0.2 s of a share for each that comes too late.
    let late: usize = (4..16)
        .map(|queue| burst(&mut limiter, 0, queue, 2000))
        .sum();
    assert!(late <= 12 + 12 * 25 / 10, "{late}");
}

/// A flow at the rate keeps its surplus; at half of the rate it loses it.
#[test]
fn a_surplus_is_worked_off_at_the_rate() {
    let mut limiter = limiter(&fair());
    burst(&mut limiter, 0, 0, 2000);
    send(&mut limiter, MS, SECOND, 0, 1);
    assert_eq!(burst(&mut limiter.clone(), SECOND, 1, 2000), 34);
    for ms in 1001..1400 {
        burst(&mut limiter, ms * MS, 0, (ms % 2) as usize);
    }
    // Nothing is left of it, and since the last look 50 kB were served that no packet used:
    // 2·(200 kB − (b − 50 kB)) / 2 = b.
    assert_eq!(burst(&mut limiter, 1400 * MS, 1, 2000), 125);
}

#[test]
fn a_filled_queue_passes_at_its_rate() {
    let mut limiter = limiter(&fair());
    burst(&mut limiter, 0, 0, 2000);
    assert_eq!(send(&mut limiter, MS, 10 * SECOND, 0, 2), 9_999);
}

/// As a sender that waits for a timeout does: what it misses in 200 ms it may send afterwards, so it gets
/// all of the rate.
#[test]
fn what_is_missed_in_a_timeout_is_made_up_for() {
    let mut limiter = limiter(&fair());
    burst(&mut limiter, 0, 0, 2000);
    let mut passed = 0;
    for number in 1..50 {
        passed += burst(&mut limiter, number * 210 * MS, 0, 400);
    }
    // 1000 packets a second, but for one.
    let due = 49 * 210;
    assert!((due - 1..=due).contains(&passed), "{passed} of {due}");
}

/// A flow at 0.6 of its rate for minutes gains no burst beyond 0.267 s.
#[test]
fn room_is_not_hoarded_for_a_burst() {
    let mut limiter = limiter(&PolicyTree::fair(2).unwrap());
    burst(&mut limiter, 0, 0, 2000);
    burst(&mut limiter, 0, 1, 2000);
    // Both share: 0.5 MB/s each. One sends 0.3, the other all it can.
    for ms in 1..=120_000 {
        burst(&mut limiter, ms * MS, 1, 2);
        if ms % 10 < 3 {
            offer(&mut limiter, ms * MS, 0);
        }
    }
    let passed = burst(&mut limiter, 120_000 * MS, 0, 2000);
    // 0.2 s of 0.5 MB/s, of which three quarters count; or of all, if it is alone for a moment.
    assert!(passed <= 136, "{passed}");
}

/// A flow that ends leaves the rate to the other one, and what it made no use of meanwhile.
#[test]
fn the_rate_of_a_flow_that_ends_is_not_lost() {
    let mut limiter = limiter(&PolicyTree::fair(2).unwrap());
    for ms in 1..2000 {
        burst(&mut limiter, ms * MS, 0, 2);
        burst(&mut limiter, ms * MS, 1, 2);
    }
    let passed = send(&mut limiter, 2 * SECOND, 4 * SECOND, 1, 3);
    // Without the refund at least a tenth would be missing: half of the rate for 0.2 s.
    assert!((1_980..=2_120).contains(&passed), "{passed}");
    let magic = limiter.occupancy(4 * SECOND).next();
    assert_eq!(magic, Some(QueueFill { bytes: 0, magic: 0 }));
}

#[test]
fn small_shares_pass_a_packet_at_least() {
    let rate = Rate::from_bits_per_second(8_000);
    let config = PhantomQueuesConfig::new(&fair(), rate, 15_000).unwrap();
    let config = config.with_burst_control(BurstControl::Bucket);
    let mut limiter = Flat::new(&config, 0).unwrap();
    for queue in 0..16 {
        assert_eq!(burst(&mut limiter, 0, queue, 10), 1);
    }
}

#[test]
fn a_queue_behind_others_passes_at_what_they_leave() {
    let policy = PolicyTree::priority(vec![PolicyTree::queue(), PolicyTree::queue()]).unwrap();
    let mut limiter = limiter(&policy);
    let mut passed = [0; 2];
    for ms in 1..=10_000 {
        // 0.4 MB/s go first.
        passed[0] += usize::from(ms % 5 < 2 && offer(&mut limiter, ms * MS, 0));
        passed[1] += burst(&mut limiter, ms * MS, 1, 2);
    }
    assert_eq!(passed[0], 4_000);
    assert!((5_950..=6_134).contains(&passed[1]), "{}", passed[1]);
}

#[test]
fn years_of_silence_and_time_that_goes_back() {
    let mut limiter = limiter(&fair());
    burst(&mut limiter, 5 * MS, 0, 2000);
    assert_eq!(burst(&mut limiter, 0, 0, 10), 0);
    let decade = 10 * 365 * 86_400 * SECOND;
    assert_eq!(burst(&mut limiter, decade, 0, 2000), 134);
}

/// Without burst control no look is due, not even at the last instant.
#[test]
fn time_ends_quietly() {
    let controlled = config(&fair()).with_burst_control(BurstControl::Bucket);
    for config in [config(&fair()), controlled] {
        let mut limiter = Flat::new(&config, 0).unwrap();
        assert!(burst(&mut limiter, Nanos::MAX, 0, 10) > 0, "{config:?}");
    }
}
