//! Marks in place of drops.

use proptest::prelude::*;

use super::super::{BurstControl, PhantomQueuesConfig, SizedPhantomQueues};
use crate::{Decision, Ecn, Nanos, PacketMeta, PolicyTree, Rate};

type Flat = SizedPhantomQueues<16, 1>;

const MS: Nanos = 1_000_000;

/// At 1 MB/s, with queues of 1 MB.
fn limiter(control: Option<BurstControl>) -> Flat {
    let policy = PolicyTree::fair(4).unwrap();
    let rate = Rate::from_bits_per_second(8_000_000);
    let config = PhantomQueuesConfig::new(&policy, rate, 1_000_000).unwrap();
    let config = match control {
        Some(control) => config.with_burst_control(control),
        None => config,
    };
    Flat::new(&config, 0).unwrap()
}

fn packet(queue: u16, ecn: Ecn) -> PacketMeta {
    PacketMeta {
        bytes: 1000,
        queue,
        ecn,
        ..PacketMeta::default()
    }
}

/// Of 1000 packets a second, or some other number each millisecond: how many were marked and how many dropped.
fn send(limiter: &mut Flat, ms: std::ops::Range<u64>, each: u64, ecn: Ecn) -> (usize, usize) {
    let times = ms.flat_map(|ms| (0..each).map(move |_| ms * MS));
    let fates: Vec<_> = times
        .map(|now| limiter.offer(now, &packet(0, ecn)))
        .collect();
    let count = |fate| fates.iter().filter(|&&other| other == fate).count();
    (count(Decision::Ce), count(Decision::Drop))
}

#[test]
fn packets_are_marked_before_they_are_dropped() {
    for control in [None, Some(BurstControl::Bucket)] {
        let mut limiter = limiter(control);
        let until_marked = (0..).find(|&ms| send(&mut limiter, ms..ms + 1, 2, Ecn::Ect0).0 > 0);
        let until_dropped = (0..).find(|&ms| {
            let ms = until_marked.unwrap() + 1 + ms;
            send(&mut limiter, ms..ms + 1, 2, Ecn::Ect0).1 > 0
        });
        // A millisecond exceeds the rate by one packet: 50 ms of the rate are 50 of them.
        assert!(
            until_dropped.unwrap() >= 49,
            "{control:?}: {until_dropped:?}"
        );
        // At the rate the room does not change, below it grows.
        let from = 10_000;
        send(&mut limiter, from..from + 100, 0, Ecn::Ect0);
        let below = (from + 100..from + 1100).filter(|ms| ms % 4 > 0);
        for ms in below {
            assert_eq!(
                limiter.offer(ms * MS, &packet(0, Ecn::Ect0)),
                Decision::Pass
            );
        }
    }
}

/// A queue that is filled and has room for 200 kB. Its sender had half of the rate for 400 ms.
fn roomy() -> Flat {
    let mut limiter = limiter(Some(BurstControl::Bucket));
    // Drops fill it, and leave no room.
    assert!(send(&mut limiter, 0..1000, 2, Ecn::NotEct).1 > 0);
    for ms in (1000..1400).step_by(2) {
        send(&mut limiter, ms..ms + 1, 1, Ecn::NotEct);
    }
    limiter
}

/// Marks come when the room will be small, and end when it will not be.
#[test]
fn the_trend_counts() {
    let mut above = roomy();
    let first = (1400..).find(|&ms| send(&mut above, ms..ms + 1, 2, Ecn::Ect0).0 > 0);
    // By the room alone it would be at 1550 ms.
    assert!((1440..1500).contains(&first.unwrap()), "{first:?}");

    let mut below = roomy();
    // It leaves room for 20 kB for a second, and then more each 20 ms.
    send(&mut below, 1400..1580, 2, Ecn::NotEct);
    send(&mut below, 1580..2580, 1, Ecn::NotEct);
    let slow: Vec<_> = (2580..4000).filter(|ms| ms % 20 > 0).collect();
    let marked: Vec<_> = (slow.iter())
        .map(|&ms| send(&mut below, ms..ms + 1, 1, Ecn::Ect0) == (1, 0))
        .collect();
    let room = |of: usize| 20 + of / 19;
    let last = marked.iter().rposition(|&marked| marked).unwrap();
    assert!(
        room(last) < 42,
        "marked until there was room for {} kB",
        room(last)
    );
}

#[test]
fn what_is_not_capable_is_not_marked_and_early_marks_come_early() {
    for control in [None, Some(BurstControl::Bucket)] {
        assert_eq!(send(&mut limiter(control), 0..3000, 2, Ecn::NotEct).0, 0);
    }
    let first = |ecn| {
        let mut limiter = limiter(None);
        (0..).find(|&ms| send(&mut limiter, ms..ms + 1, 2, ecn).0 > 0)
    };
    // The packet after 950 kB of 1 MB, or after 900 kB.
    assert_eq!(
        [Ecn::Ect0, Ecn::Ect1, Ecn::Ce].map(first),
        [949, 899, 949].map(Some)
    );
    let policy = PolicyTree::fair(4).unwrap();
    let rate = Rate::from_bits_per_second(8_000_000);
    let without = PhantomQueuesConfig::new(&policy, rate, 1_000_000)
        .unwrap()
        .with_ecn(false);
    assert_eq!(
        send(&mut Flat::new(&without, 0).unwrap(), 0..3000, 2, Ecn::Ect0).0,
        0
    );
}

/// A sender that ignores marks, in turn with others.
#[derive(Debug, Clone)]
struct Turn {
    queue: u16,
    gap: Nanos,
    packets: u8,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let turn = (0..4u16, prop_oneof![0..2 * MS, 0..300 * MS], 1..40u8);
    let turn = turn.prop_map(|(queue, gap, packets)| Turn {
        queue,
        gap,
        packets,
    });
    proptest::collection::vec(turn, 1..300)
}

proptest! {
    /// Without burst control, marks change nothing of what passes.
    #[test]
    fn marks_alone_change_no_decision(turns in turns()) {
        let (mut plain, mut marked) = (limiter(None), limiter(None));
        let mut now = 0;
        for Turn { queue, gap, packets } in turns {
            now += gap;
            for _ in 0..packets {
                let expected = plain.offer(now, &packet(queue, Ecn::NotEct));
                let found = marked.offer(now, &packet(queue, Ecn::Ect0));
                prop_assert_eq!(expected == Decision::Drop, found == Decision::Drop);
            }
        }
    }

    /// With burst control, who ignores marks gets no more than who is not marked: up to any time, but for the burst
    /// that is allowed in any case.
    #[test]
    fn who_ignores_marks_gains_nothing(turns in turns()) {
        let control = Some(BurstControl::Bucket);
        let (mut plain, mut ignores) = (limiter(control), limiter(control));
        let (mut now, mut passed) = (0, [0i64; 2]);
        for Turn { queue, gap, packets } in turns {
            now += gap;
            for _ in 0..packets {
                let ecn = if queue == 0 { Ecn::Ect0 } else { Ecn::NotEct };
                let fates = [
                    plain.offer(now, &packet(queue, Ecn::NotEct)),
                    ignores.offer(now, &packet(queue, ecn)),
                ];
                if queue == 0 {
                    for (passed, fate) in passed.iter_mut().zip(fates) {
                        *passed += i64::from(fate != Decision::Drop);
                    }
                }
                // 0.267 s of the rate.
                prop_assert!(passed[1] - passed[0] <= 267, "{passed:?} at {now}");
            }
        }
    }
}

/// The share of a queue that is always backlogged is the same, whether its sender ignores marks or is not marked.
#[test]
fn a_backlogged_sender_that_ignores_marks_gets_its_share() {
    let share = |ecn| {
        let mut limiter = limiter(Some(BurstControl::Bucket));
        let mut passed = [0; 2];
        for ms in 0..60_000 {
            for queue in [0, 1, 0, 1] {
                let ecn = if queue == 0 { ecn } else { Ecn::NotEct };
                let fate = limiter.offer(ms * MS, &packet(queue, ecn));
                passed[usize::from(queue)] += i64::from(fate != Decision::Drop);
            }
        }
        passed
    };
    let (plain, ignores) = (share(Ecn::NotEct), share(Ecn::Ect0));
    assert!(
        ignores[0] <= plain[0] + 20,
        "{ignores:?} instead of {plain:?}"
    );
    assert!((29_900..30_300).contains(&ignores[0]), "{ignores:?}");
}
