use std::sync::Arc;

use proptest::prelude::*;

use super::pool::{List, Pool};
use super::{Backlog, Shaper, ShaperConfig};
use crate::{Nanos, PacketMeta, PolicyTree, Program, Rate};

mod rates;

/// Bit-nanoseconds of a byte.
pub(super) const BYTE: u128 = 8_000_000_000;

pub(super) fn config(program: impl Into<Arc<Program>>, bits: u64, burst: u64) -> ShaperConfig {
    ShaperConfig {
        program: program.into(),
        rate: Rate::from_bits_per_second(bits),
        burst,
        queue_bytes: None,
        queue_packets: Some(100_000),
    }
}

pub(super) fn meta(queue: u16, bytes: u32) -> PacketMeta {
    PacketMeta {
        bytes,
        queue,
        ..PacketMeta::default()
    }
}

/// A packet that comes, or leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packet {
    pub at: Nanos,
    pub queue: u16,
    pub bytes: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Accepted(Packet),
    Dropped(Packet),
    /// The packet, with the time at which it left.
    Released(Packet),
}

/// Everything that happens to packets that come in this order, with polls late by what is given.
pub(super) fn run(
    shaper: &mut Shaper<Packet>,
    arrivals: &[Packet],
    mut late: impl FnMut() -> Nanos,
) -> Vec<Event> {
    let (mut events, mut arrivals, mut now) = (Vec::new(), arrivals.iter().peekable(), 0);
    let mut lateness = late();
    loop {
        let release = shaper.poll_timeout().map(|at| now.max(at + lateness));
        let arrival = arrivals.peek().map(|packet| packet.at);
        if let Some(at) = arrival.filter(|&at| release.is_none_or(|release| at <= release)) {
            now = at;
            let packet = *arrivals.next().unwrap();
            events.push(
                match shaper.offer(now, &meta(packet.queue, packet.bytes), packet) {
                    Ok(()) => Event::Accepted(packet),
                    Err(packet) => Event::Dropped(packet),
                },
            );
        } else if let Some(at) = release {
            now = at;
            lateness = late();
            while let Some(packet) = shaper.poll_release(now) {
                events.push(Event::Released(Packet { at: now, ..packet }));
            }
        } else {
            return events;
        }
    }
}

pub(super) fn released(events: &[Event]) -> Vec<Packet> {
    let released = events.iter().filter_map(|event| match event {
        Event::Released(packet) => Some(*packet),
        _ => None,
    });
    released.collect()
}

/// Policies of every shape, up to 3 levels below the root.
pub(super) fn policies() -> impl Strategy<Value = PolicyTree> {
    let leaf = prop_oneof![
        2 => Just(PolicyTree::queue()),
        1 => (1u16..6).prop_map(|queues| PolicyTree::fair(queues).unwrap()),
    ];
    leaf.prop_recursive(3, 24, 4, |part| {
        prop_oneof![
            2 => prop::collection::vec((1u32..12, part.clone()), 1..5)
                .prop_map(|parts| PolicyTree::weighted(parts).unwrap()),
            1 => prop::collection::vec(part, 1..4)
                .prop_map(|parts| PolicyTree::priority(parts).unwrap()),
        ]
    })
}

/// Packets of bursts and pauses for the queues of a program; those above it go round.
pub(super) fn arrivals() -> impl Strategy<Value = Vec<Packet>> {
    let gap = prop_oneof![3 => Just(0), 2 => 0u64..2_000_000, 1 => 0u64..60_000_000];
    prop::collection::vec((gap, any::<u16>(), 40u32..=1500), 1..400).prop_map(|packets| {
        let mut now = 0;
        let packets = packets.into_iter().map(|(gap, queue, bytes)| {
            now += gap;
            Packet {
                at: now,
                queue,
                bytes,
            }
        });
        packets.collect()
    })
}

pub(super) fn onto(program: &Program, mut arrivals: Vec<Packet>) -> Vec<Packet> {
    for packet in &mut arrivals {
        packet.queue %= program.queues() as u16;
    }
    arrivals
}

#[test]
fn queues_drop_at_their_tail_by_packets_and_by_bytes() {
    let program = Arc::new(Program::new(&PolicyTree::fair(2).unwrap()));
    let limits = ShaperConfig {
        queue_packets: Some(3),
        queue_bytes: Some(2500),
        ..config(program, 8_000_000, 0)
    };
    let mut shaper = Shaper::new(&limits, 0);
    let mut offer = |queue, bytes, name| shaper.offer(0, &meta(queue, bytes), name);
    assert_eq!(offer(0, 1500, 'a'), Ok(()));
    assert_eq!(offer(0, 1001, 'b'), Err('b'), "2501 bytes");
    assert_eq!(offer(0, 900, 'c'), Ok(()));
    assert_eq!(offer(0, 100, 'd'), Ok(()), "2500 bytes fit");
    assert_eq!(offer(0, 0, 'e'), Err('e'), "a fourth packet");
    assert_eq!(offer(1, 2501, 'f'), Err('f'));
    assert_eq!(
        offer(1, 64, 'g'),
        Ok(()),
        "the other queue has its own limits"
    );
    let (two, one) = (shaper.backlog(0), shaper.backlog(1));
    assert_eq!((two.bytes, two.packets, one.bytes), (2500, 3, 64));
    assert_eq!(
        shaper.total(),
        Backlog {
            bytes: 2564,
            packets: 4
        }
    );
    assert_eq!(shaper.poll_release(0), Some('a'));
    assert_eq!(
        shaper.offer(0, &meta(0, 1500), 'h'),
        Ok(()),
        "there is space again"
    );
}

#[test]
fn limits_by_bytes_reserve_for_the_smallest_frames() {
    let limits = ShaperConfig {
        queue_packets: None,
        queue_bytes: Some(64_000),
        ..config(&PolicyTree::queue(), 8_000_000, 0)
    };
    let mut shaper = Shaper::new(&limits, 0);
    let accepted = (0..1200).filter(|&n| shaper.offer(0, &meta(0, 64), n).is_ok());
    assert_eq!(accepted.count(), 1000);
    assert!(shaper.poll_release(0).is_some());
    assert_eq!(shaper.offer(0, &meta(0, 64), 0), Ok(()));
}

#[test]
fn slots_are_used_again_and_reserved_only_once() {
    let mut pool = Pool::new(3);
    let (mut a, mut b) = (List::EMPTY, List::EMPTY);
    for round in 0..100u32 {
        assert_eq!(pool.push(&mut a, 10, round), Ok(()));
        assert_eq!(pool.push(&mut b, 20, round + 1), Ok(()));
        assert_eq!(pool.push(&mut a, 30, round + 2), Ok(()));
        assert_eq!(pool.push(&mut b, 40, 7), Err(7), "all are in use");
        assert_eq!(pool.pop(&mut a), Some((round, 10)));
        assert_eq!(pool.pop(&mut b), Some((round + 1, 20)));
        assert_eq!(pool.pop(&mut b), None);
        assert_eq!(pool.pop(&mut a), Some((round + 2, 30)));
    }
}

#[test]
fn limits_of_any_size_are_taken() {
    for (bytes, packets) in [
        (None, None),
        (Some(u64::MAX), None),
        (Some(0), Some(u64::MAX)),
    ] {
        let limits = ShaperConfig {
            program: (&PolicyTree::fair(1000).unwrap()).into(),
            rate: Rate::from_bits_per_second(u64::MAX),
            burst: u64::MAX,
            queue_bytes: bytes,
            queue_packets: packets,
        };
        let mut shaper = Shaper::new(&limits, 0);
        let fits = bytes != Some(0);
        assert_eq!(shaper.offer(0, &meta(999, u32::MAX), 1).is_ok(), fits);
        assert_eq!(shaper.poll_release(u64::MAX).is_some(), fits);
    }
}

proptest! {
    /// Packets are neither lost nor made; queues keep their order; getters return what is held.
    #[test]
    fn what_is_accepted_leaves_in_the_order_of_its_queue(
        policy in policies(),
        arrivals in arrivals(),
        packets in prop::option::of(1u64..20),
        bytes in prop::option::of(1500u64..20_000),
    ) {
        let program = Arc::new(Program::new(&policy));
        let arrivals = onto(&program, arrivals);
        let limits = ShaperConfig { queue_packets: packets, queue_bytes: bytes, ..config(program.clone(), 8_000_000, 3000) };
        let mut shaper = Shaper::new(&limits, 0);
        let events = run(&mut shaper, &arrivals, || 0);
        let again = run(&mut Shaper::new(&limits, 0), &arrivals, || 0);
        prop_assert_eq!(&events, &again, "the same each time");
        prop_assert_eq!(shaper.total(), Backlog::default());
        let mut held = vec![std::collections::VecDeque::new(); program.queues()];
        for event in events {
            match event {
                Event::Accepted(packet) => {
                    let queue = &mut held[usize::from(packet.queue)];
                    queue.push_back(packet.bytes);
                    let sum: u64 = queue.iter().copied().map(u64::from).sum();
                    prop_assert!(bytes.is_none_or(|most| sum <= most));
                    prop_assert!(packets.is_none_or(|most| queue.len() as u64 <= most));
                }
                Event::Dropped(packet) => {
                    let queue = &held[usize::from(packet.queue)];
                    let sum: u64 = queue.iter().copied().map(u64::from).sum();
                    let full = bytes.is_some_and(|most| sum + u64::from(packet.bytes) > most)
                        || packets.is_some_and(|most| queue.len() as u64 == most)
                        // Only bytes were limited: room is reserved for 64 bytes and more.
                        || packets.is_none() && packet.bytes < 64;
                    prop_assert!(full, "dropped with {} bytes held", sum);
                }
                Event::Released(packet) => {
                    let first = held[usize::from(packet.queue)].pop_front();
                    prop_assert_eq!(first, Some(packet.bytes));
                }
            }
        }
        prop_assert!(held.iter().all(|queue| queue.is_empty()));
    }

    #[test]
    fn backlogs_are_what_is_held(policy in policies(), arrivals in arrivals()) {
        let program = Arc::new(Program::new(&policy));
        let mut shaper = Shaper::new(&config(program.clone(), 3_000_000, 0), 0);
        let mut held = vec![Backlog::default(); program.queues()];
        for packet in onto(&program, arrivals) {
            shaper.offer(packet.at, &meta(packet.queue, packet.bytes), packet).unwrap();
            let queue = &mut held[usize::from(packet.queue)];
            (queue.bytes, queue.packets) = (queue.bytes + u64::from(packet.bytes), queue.packets + 1);
            if let Some(packet) = shaper.poll_release(packet.at) {
                let queue = &mut held[usize::from(packet.queue)];
                (queue.bytes, queue.packets) = (queue.bytes - u64::from(packet.bytes), queue.packets - 1);
            }
            for (queue, backlog) in held.iter().enumerate() {
                prop_assert_eq!(shaper.backlog(queue as u16), *backlog);
            }
            let bytes = held.iter().map(|queue| queue.bytes).sum();
            let packets = held.iter().map(|queue| queue.packets).sum();
            prop_assert_eq!(shaper.total(), Backlog { bytes, packets });
        }
    }
}
