//! Flows and lines as the programs of the gate count them, see `bpf/watch.h`.

use std::net::{IpAddr, Ipv6Addr};

use crate::flow::{Flow, Way};
use crate::line::{Counted, Line, Lines, Segments, Trips};
use crate::maps::layout::{self, Field, flow, flow_key, lately, line, way};
use crate::table::PerDirection;

// The groups of round trips are those of the programs.
const _: () = {
    assert!(layout::TRIPS == crate::line::GROUPS);
    assert!(layout::STEPS_SHIFT == crate::line::STEPS_SHIFT as usize);
    assert!(layout::LEAST_TRIP == crate::line::LEAST as usize);
};

/// What the lines of all subscribers feel, by their numbers, until this number of a time.
pub(crate) fn lines(values: impl Iterator<Item = (u32, Vec<u8>)>, window: u64) -> Lines {
    let (mut lines, mut all) = (Lines::default(), Counted::default());
    for (number, value) in values {
        let counted = counted(&value, window);
        all.add(&counted);
        lines.by_subscriber.insert(number, counted.summary());
    }
    lines.all = all.summary();
    lines
}

/// What one line feels.
pub(crate) fn line(value: &[u8], window: u64) -> Line {
    counted(value, window).summary()
}

/// A line as it was counted, until this number of a time.
fn counted(value: &[u8], window: u64) -> Counted {
    let mut counted = Counted::default();
    let two = |field: Field<[u64; 2]>| field.of(value);
    let ([all_down, all_up], [again_down, again_up]) = (two(line::SEGMENTS), two(line::AGAIN));
    let segments = |all, again| Segments { all, again };
    counted.segments = PerDirection {
        down: segments(all_down, again_down),
        up: segments(all_up, again_up),
    };
    let [down, up] = two(line::TRIPS);
    counted.measured = PerDirection { down, up };
    // The programs count in the low half of the number.
    let present = line::WINDOW.of(value);
    let behind = (window as u32).wrapping_sub(present);
    for generation in 0..2 {
        let is_present = (present & 1) as usize == generation;
        // An older one is over. A packet may have begun another since the time was asked.
        let counts = behind == 0 || behind == u32::MAX || (behind == 1 && is_present);
        if !counts {
            continue;
        }
        let at = |field: Field<[u32; 2]>| field.within(line::LATELY, generation).of(value);
        let (all, again) = (at(lately::SEGMENTS), at(lately::AGAIN));
        let trips = lately::TRIPS.within(line::LATELY, generation).of(value);
        let [down, up] = trips;
        add(&mut counted.trips.down, down);
        add(&mut counted.trips.up, up);
        counted.lately = PerDirection {
            down: counted
                .lately
                .down
                .plus(segments(all[0].into(), again[0].into())),
            up: counted
                .lately
                .up
                .plus(segments(all[1].into(), again[1].into())),
        };
    }
    counted
}

fn add(to: &mut Trips, counts: [u16; layout::TRIPS]) {
    to.add(counts.map(u32::from));
}

/// A flow at a time of its clock.
pub(crate) fn flow(key: &[u8], value: &[u8], now: u64) -> Flow {
    let address = |field: Field<[u32; 4]>| -> IpAddr {
        let mut bytes = [0; 16];
        for (to, word) in bytes.chunks_exact_mut(4).zip(field.of(key)) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        Ipv6Addr::from(bytes).to_canonical()
    };
    let ports = flow_key::PORTS.of(key);
    let way = |direction: usize| {
        let small = |field: Field<u32>| field.within(flow::WAYS, direction).of(value);
        let large = |field: Field<u64>| field.within(flow::WAYS, direction).of(value);
        Way {
            passed_packets: small(way::PACKETS).into(),
            passed_bytes: large(way::BYTES),
            excess_packets: small(way::EXCESS_PACKETS).into(),
            excess_bytes: large(way::EXCESS_BYTES),
            marked_packets: small(way::MARKED_PACKETS).into(),
            segments: Segments {
                all: small(way::SEGMENTS).into(),
                again: small(way::AGAIN).into(),
            },
            trip: u64::from(small(way::TRIP)) << 10,
            queue: way::QUEUE.within(flow::WAYS, direction).of(value),
        }
    };
    Flow {
        local: address(flow_key::LOCAL),
        remote: address(flow_key::REMOTE),
        ports: (
            u16::from_be(ports as u16),
            u16::from_be((ports >> 16) as u16),
        ),
        protocol: flow_key::PROTOCOL.of(key) as u8,
        age: now.saturating_sub(flow::BEGAN.of(value)),
        idle: now.saturating_sub(flow::LATEST.of(value)),
        ways: PerDirection {
            down: way(0),
            up: way(1),
        },
    }
}
