//! Burst control as in the paper, [BCPQP §4].

use super::super::{
    BurstControl, PaperControl, PhantomQueuesConfig, QueueFill, SizedPhantomQueues, Thresholds,
};
use crate::{ConfigError, Decision, Field, PacketMeta, PolicyTree, Rate};

const MS: u64 = 1_000_000;
const PAPER: BurstControl = BurstControl::Paper(PaperControl::DEFAULT);

type Flat = SizedPhantomQueues<16, 1>;

fn limiter(queues: u16, control: Option<BurstControl>) -> Flat {
    limiter_of(&PolicyTree::fair(queues).unwrap(), 8_000_000, control)
}

fn limiter_of(policy: &PolicyTree, bits: u64, control: Option<BurstControl>) -> Flat {
    let rate = Rate::from_bits_per_second(bits);
    let config = PhantomQueuesConfig::new(policy, rate, 1_000_000).unwrap();
    let config = match control {
        Some(control) => config.with_burst_control(control),
        None => config,
    };
    Flat::new(&config, 0).unwrap()
}

fn packet(queue: u16) -> PacketMeta {
    PacketMeta {
        bytes: 1000,
        queue,
        ..PacketMeta::default()
    }
}

/// Packets that pass of a burst.
fn burst(limiter: &mut Flat, now: u64, queue: u16, packets: usize) -> usize {
    (0..packets)
        .filter(|_| limiter.offer(now, &packet(queue)) == Decision::Pass)
        .count()
}

fn occupancy(limiter: &mut Flat, now: u64, queue: usize) -> (u64, u64) {
    let QueueFill { bytes, magic } = limiter.occupancy(now).nth(queue).unwrap();
    (bytes, magic)
}

#[test]
fn a_limiter_of_16_queues_is_at_most_24_cache_lines() {
    // Flat, and nested with up to as many nodes that share as the gate has room for.
    let sizes = [
        size_of::<Flat>(),
        size_of::<SizedPhantomQueues<16, 4>>(),
        size_of::<SizedPhantomQueues<16, 5>>(),
    ];
    assert!(sizes.iter().all(|&size| size <= 24 * 64), "{sizes:?}");
}

#[test]
fn what_most_packets_need_is_in_two_cache_lines() {
    let limiter = limiter(16, None);
    let line = |at: *const u8| (at as usize - (&raw const limiter) as usize) / 64;
    assert_eq!(line((&raw const limiter.ahead).cast()), 0);
    assert_eq!(size_of_val(&limiter.ahead), 64);
    for queue in &limiter.tree.queues {
        let first: *const u8 = (&raw const *queue).cast();
        let last = first.wrapping_add(size_of_val(queue) - 1);
        assert_eq!(line(first), line(last));
    }
}

/// A flow that sends less than its share, but too much to be taken for gone: its magic drains, and
/// then a burst finds as much room as packets and magic leave.
#[test]
fn magic_drains_when_no_packets_are_left() {
    let mut limiter = limiter(2, Some(PAPER));
    burst(&mut limiter, 0, 1, 2000);
    burst(&mut limiter, 0, 0, 2000);
    let (_, magic) = occupancy(&mut limiter, 0, 0);
    // 0.4 of 0.5 MB/s for four seconds; the other queue keeps its half. In the first period it is
    // filled still.
    let mut passed = 0;
    for ms in 1..=4000 {
        limiter.offer(ms * MS, &packet(1));
        passed += usize::from(ms % 5 < 2 && limiter.offer(ms * MS, &packet(0)) == Decision::Pass);
    }
    assert!(passed >= 1560, "{passed}");
    // It had 76 kB of packets, which were gone in 0.76 s; 0.1 MB/s from then on is magic's.
    let (length, left) = occupancy(&mut limiter, 4000 * MS, 0);
    assert!(
        length - left <= 1000 && left < magic - 300_000,
        "{length} {left}"
    );
}

#[test]
fn a_burst_ends_at_the_upper_threshold() {
    // X+ = 1.5 · 1 MB/s · 100 ms = 150 kB: the packet that exceeds it is the last.
    let mut with = limiter(16, Some(PAPER));
    assert_eq!(burst(&mut with, 0, 0, 2000), 151);
    assert_eq!(occupancy(&mut with, 0, 0), (1_000_000, 849_000));
    let mut without = limiter(16, None);
    assert_eq!(burst(&mut without, 0, 0, 2000), 1000);
}

#[test]
fn later_queues_burst_less() {
    // X+/n each: the harmonic series of [BCPQP §4].
    let mut limiter = limiter(16, Some(PAPER));
    let bursts: Vec<_> = (0..4)
        .map(|queue| burst(&mut limiter, 0, queue, 2000))
        .collect();
    assert_eq!(bursts, [151, 76, 51, 38]);
}

#[test]
fn a_filled_queue_passes_at_its_rate() {
    let mut limiter = limiter(16, Some(PAPER));
    burst(&mut limiter, 0, 0, 2000);
    // A packet each 0.5 ms is twice the rate, for ten seconds.
    let passed = (1..=20_000)
        .filter(|&n| limiter.offer(n * MS / 2, &packet(0)) == Decision::Pass)
        .count();
    assert_eq!(passed, 10_000);
}

#[test]
fn magic_goes_when_the_flow_does() {
    let mut limiter = limiter(16, Some(PAPER));
    burst(&mut limiter, 0, 0, 2000);
    // Queue 1 sends; at the end of the first full period without a packet, queue 0 is given back
    // what no packet is there for.
    for ms in 1..=199 {
        limiter.offer(ms * MS, &packet(1));
    }
    let (length, magic) = occupancy(&mut limiter, 199 * MS, 0);
    assert_eq!(magic, 849_000.min(length));
    limiter.offer(200 * MS, &packet(1));
    let (length, magic) = occupancy(&mut limiter, 200 * MS, 0);
    assert_eq!((magic, length < 151_000), (0, true), "{length}");
    // And soon queue 1 has the whole rate: nothing is left of queue 0.
    for ms in 201..=700 {
        limiter.offer(ms * MS, &packet(1));
    }
    assert_eq!(occupancy(&mut limiter, 700 * MS, 0), (0, 0));
}

#[test]
fn magic_stays_while_the_flow_sends_at_its_rate() {
    let mut limiter = limiter(16, Some(PAPER));
    burst(&mut limiter, 0, 0, 2000);
    for ms in 1..=3000 {
        assert_eq!(limiter.offer(ms * MS, &packet(0)), Decision::Pass);
    }
    assert_eq!(occupancy(&mut limiter, 3000 * MS, 0), (1_000_000, 849_000));
}

#[test]
fn what_is_behind_others_is_filled_at_once() {
    // r* = 0 for a queue behind a busy one of higher priority [BCPQP §4].
    let policy = PolicyTree::priority(vec![PolicyTree::queue(), PolicyTree::queue()]).unwrap();
    let mut limiter = limiter_of(&policy, 8_000_000, Some(PAPER));
    assert_eq!(burst(&mut limiter, 0, 0, 10), 10);
    assert_eq!(burst(&mut limiter, 0, 1, 10), 1);
}

#[test]
fn another_rate_holds_at_once() {
    let mut limiter = limiter(1, Some(PAPER));
    burst(&mut limiter, 0, 0, 2000);
    let half = Rate::from_bits_per_second(4_000_000);
    limiter.set(0, half, Some(PAPER)).unwrap();
    let passed = (1..=10_000)
        .filter(|&n| limiter.offer(n * MS, &packet(0)) == Decision::Pass)
        .count();
    assert_eq!(passed, 5_000);
}

#[test]
fn years_of_silence_and_time_that_goes_back() {
    let mut limiter = limiter(16, Some(PAPER));
    burst(&mut limiter, 5 * MS, 0, 2000);
    assert_eq!(burst(&mut limiter, 0, 0, 10), 0);
    let decade = 10 * 365 * 86_400_000 * MS;
    assert_eq!(burst(&mut limiter, decade, 0, 2000), 151);
}

#[test]
fn what_cannot_be_is_rejected_with_the_field_that_is_wrong() {
    let rate = Rate::from_bits_per_second(8_000_000);
    let config = PhantomQueuesConfig::new(&PolicyTree::fair(17).unwrap(), rate, 1).unwrap();
    let room = ConfigError::Room {
        what: "queues",
        found: 17,
        room: 16,
    };
    assert_eq!(Flat::new(&config, 0).unwrap_err(), room);
    let field = |rate, size| {
        let config = PhantomQueuesConfig::new(&PolicyTree::queue(), rate, size);
        config.err().map(|error| error.field())
    };
    assert_eq!(field(rate, 1), None);
    assert_eq!(field(rate, 0), Some(Field::Queue));
    assert_eq!(field(rate, (1 << 60) + 1), Some(Field::Queue));
    for bits in [7_999, 400_000_000_001] {
        let rate = Rate::from_bits_per_second(bits);
        assert_eq!(field(rate, 1), Some(Field::Rate));
    }
    let field = |upper, lower| {
        let control = PaperControl::DEFAULT.with_thresholds(Thresholds { upper, lower });
        control.err().map(|error| error.field())
    };
    assert_eq!(field(1_000_000, 999_999), None);
    assert_eq!(field(1_000_001, 500), Some(Field::Upper));
    assert_eq!(field(1500, 1500), Some(Field::Lower));
    for period in [0, 60_000_000_001] {
        let control = PaperControl::DEFAULT.with_period(period);
        assert_eq!(control.unwrap_err().field(), Field::Period);
    }
}
