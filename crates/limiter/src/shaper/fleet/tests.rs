use std::sync::Arc;

use proptest::prelude::*;

use super::Fleet;
use crate::shaper::tests::{BYTE, Packet, arrivals, config, meta, onto, policies, released, run};
use crate::{FleetSettings, Nanos};
use crate::{PolicyTree, Program, Shaper, ShaperConfig};

fn settings(packets: usize, granularity: Nanos) -> FleetSettings {
    FleetSettings {
        packets,
        granularity,
    }
}

/// All that a fleet does with these packets for these aggregates, as (aggregate, packet with the
/// time it left); polled whenever it may have something.
fn drive(fleet: &mut Fleet<Packet>, arrivals: &[(u32, Packet)]) -> Vec<(u32, Packet)> {
    let (mut left, mut arrivals, mut now) = (Vec::new(), arrivals.iter().peekable(), 0);
    loop {
        let release = fleet.poll_timeout().map(|at| at.max(now));
        let arrival = arrivals.peek().map(|(_, packet)| packet.at);
        if let Some(at) = arrival.filter(|&at| release.is_none_or(|release| at <= release)) {
            now = at;
            let &(aggregate, packet) = arrivals.next().unwrap();
            fleet
                .offer(at, aggregate, &meta(packet.queue, packet.bytes), packet)
                .unwrap();
        } else if let Some(at) = release {
            now = at;
            fleet.advance(now, |aggregate, packet| {
                left.push((aggregate, Packet { at: now, ..packet }))
            });
        } else {
            return left;
        }
    }
}

#[test]
fn room_is_shared_and_comes_back() {
    let program = Arc::new(Program::new(&PolicyTree::fair(2).unwrap()));
    let shapers = vec![config(program, 8_000_000, 0); 3];
    let mut fleet = Fleet::new(shapers, settings(4, 1000), 0);
    for round in 0..10u64 {
        let now = round * 1_000_000_000;
        for (aggregate, name) in [(0, 'a'), (1, 'b'), (2, 'c'), (0, 'd')] {
            assert_eq!(fleet.offer(now, aggregate, &meta(1, 1000), name), Ok(()));
        }
        assert_eq!(fleet.offer(now, 1, &meta(0, 1000), 'e'), Err('e'));
        assert_eq!(fleet.total(0).packets, 2);
        assert_eq!(fleet.backlog(1, 1).bytes, 1000);
        let mut left = Vec::new();
        fleet.advance(now, |aggregate, name| left.push((aggregate, name)));
        assert_eq!(left, [(0, 'a'), (1, 'b'), (2, 'c')]);
        let next = fleet.poll_timeout().unwrap();
        assert!(next > now && next <= now + 1_000_000, "{next}");
        fleet.advance(now + 999_999, |_, _| panic!("too early"));
        fleet.advance(now + 1_000_000, |aggregate, name| {
            left.push((aggregate, name))
        });
        assert_eq!(left[3], (0, 'd'));
        assert_eq!(fleet.poll_timeout(), None);
    }
}

/// Time that goes back for some calls neither hangs nor releases anything early.
#[test]
fn steps_back_in_time_count_as_none() {
    let program = Arc::new(Program::new(&PolicyTree::queue()));
    let mut fleet = Fleet::new([config(program, 8_000_000, 0)], settings(4, 1), 0);
    let mut left = Vec::new();
    fleet.offer(0, 0, &meta(0, 10_000), 'a').unwrap();
    fleet.advance(0, |_, name| left.push(name));
    // By this time it is paid for; by that of the calls behind it would not be.
    fleet.advance(20_000_000, |_, name| left.push(name));
    fleet.advance(1_000_000, |_, name| left.push(name));
    fleet.offer(2_000_000, 0, &meta(0, 1000), 'b').unwrap();
    fleet.offer(2_000_000, 0, &meta(0, 1000), 'c').unwrap();
    for now in [3_000_000, 20_999_999, 6_000_000] {
        fleet.advance(now, |_, name| left.push(name));
        assert_eq!(left, ['a', 'b']);
    }
    fleet.advance(21_000_000, |_, name| left.push(name));
    assert_eq!(left, ['a', 'b', 'c']);
}

#[test]
fn rates_change_for_one_of_them() {
    let program = Arc::new(Program::new(&PolicyTree::queue()));
    let shapers = vec![config(program, 8_000_000, 0); 2];
    let mut fleet = Fleet::new(shapers, settings(10, 1), 0);
    for aggregate in [0, 1] {
        for name in ['a', 'b'] {
            fleet.offer(0, aggregate, &meta(0, 1000), name).unwrap();
        }
    }
    let mut left = Vec::new();
    fleet.advance(0, |_, _| {});
    fleet.set_rate(500_000, 1, crate::Rate::from_bits_per_second(40_000_000));
    fleet.advance(600_000, |aggregate, name| left.push((aggregate, name)));
    assert_eq!(left, [(1, 'b')]);
    fleet.advance(1_000_000, |aggregate, name| left.push((aggregate, name)));
    assert_eq!(left, [(1, 'b'), (0, 'b')]);
}

/// An aggregate that is added or changed later does what one of that configuration does; what waited goes on waiting.
#[test]
fn aggregates_are_added_and_changed() {
    let program = |queues| Arc::new(Program::new(&PolicyTree::fair(queues).unwrap()));
    let (two, one) = (program(2), program(1));
    let mut fleet = Fleet::new([], settings(10, 1), 0);
    for number in [0, 1] {
        assert_eq!(fleet.add(0, &config(two.clone(), 8_000_000, 0)), number);
    }
    for (queue, name) in [(0, 'a'), (0, 'b'), (1, 'c'), (1, 'd')] {
        fleet.offer(0, 1, &meta(queue, 1000), name).unwrap();
    }
    let mut left = Vec::new();
    fleet.advance(0, |aggregate, name| left.push((aggregate, name)));
    assert_eq!(left, [(1, 'a')]);
    // The same policy at twice the rate: the next packet waits for the rest of its time.
    fleet.change(500_000, 1, &config(two, 16_000_000, 0));
    fleet.advance(749_999, |_, name| panic!("{name} is too early"));
    fleet.advance(750_000, |aggregate, name| left.push((aggregate, name)));
    assert_eq!(left[1..], [(1, 'c')]);
    // Another policy, with one queue that may hold one packet, and keeps both. It begins with a packet, as after a rest.
    let small = ShaperConfig {
        queue_packets: Some(1),
        ..config(one, 8_000_000, 0)
    };
    fleet.change(800_000, 1, &small);
    assert_eq!(fleet.offer(800_000, 1, &meta(0, 1000), 'e'), Err('e'));
    fleet.advance(800_000, |aggregate, name| left.push((aggregate, name)));
    assert_eq!(left[2..], [(1, 'b')]);
    fleet.empty(1, |name| left.push((1, name)));
    assert_eq!(left[3..], [(1, 'd')]);
    assert_eq!((fleet.total(1).packets, fleet.poll_timeout()), (0, None));
    fleet.offer(800_000, 1, &meta(0, 1000), 'f').unwrap();
    assert_eq!(fleet.into_packets().collect::<Vec<_>>(), ['f']);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// With ticks of a nanosecond, each shaper does what it would do alone.
    #[test]
    fn shapers_do_together_what_they_do_alone(
        shapers in prop::collection::vec((policies(), arrivals(), 10_000u64..1_000_000_000, 0u64..5000), 1..5),
    ) {
        let (mut alone, mut all, mut fleet) = (Vec::new(), Vec::new(), Vec::new());
        for (number, (policy, arrivals, bits, burst)) in shapers.into_iter().enumerate() {
            let program = Arc::new(Program::new(&policy));
            let arrivals = onto(&program, arrivals);
            let mut shaper = Shaper::new(&config(program.clone(), bits, burst), 0);
            alone.push(released(&run(&mut shaper, &arrivals, || 0)));
            all.extend(arrivals.into_iter().map(|packet| (number as u32, packet)));
            fleet.push(config(program, bits, burst));
        }
        all.sort_by_key(|(_, packet)| packet.at);
        let left = drive(&mut Fleet::new(fleet, settings(2000, 1), 0), &all);
        prop_assert!(left.is_sorted_by_key(|(_, packet)| packet.at));
        for (number, alone) in alone.into_iter().enumerate() {
            let packets = left.iter().filter(|(aggregate, _)| *aggregate == number as u32);
            prop_assert_eq!(packets.map(|(_, packet)| *packet).collect::<Vec<_>>(), alone);
        }
    }

    /// With coarser ticks, packets leave at ticks only, and yet exactly at the rate in the long run.
    #[test]
    fn coarse_ticks_cost_no_rate(
        bits in 100_000u64..1_000_000_000,
        granularity in 1u64..5_000_000,
        bytes in 40u32..9000,
    ) {
        let program = Arc::new(Program::new(&PolicyTree::fair(4).unwrap()));
        let mut fleet = Fleet::new([config(program, bits, 0)], settings(2000, granularity), 0);
        let packets = (0..2000).map(|number| (0, Packet { at: 0, queue: number % 4, bytes }));
        let left = drive(&mut fleet, &packets.collect::<Vec<_>>());
        prop_assert_eq!(left.len(), 2000);
        for (number, (_, packet)) in left.into_iter().enumerate() {
            let exact = (number as u128 * u128::from(bytes) * BYTE).div_ceil(u128::from(bits));
            let tick = exact.div_ceil(u128::from(granularity)) * u128::from(granularity);
            prop_assert_eq!(u128::from(packet.at), tick);
        }
    }
}
