//! Tests that the gate on DPDK watches flows as the kernel's programs do.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::Dpdk;
use crate::dpdk::tests::{alone, decide, decide_in};
use crate::line::Lines;
use crate::path::DataPath;

fn watching(flows: u32) -> Settings {
    Settings {
        flows,
        ..settings()
    }
}

/// Gives the path the subscriber of [`Watched`].
fn follow(path: &mut Dpdk, plan: &Draft) {
    path.put_plan(0, &plan.plan()).unwrap();
    let seats = [HOME, "2001:db8::/64"].map(|prefix| {
        let both = PerDirection::new(|direction| Seat {
            limiter: direction as u32,
            plan: 0,
            version: 1,
            ..Seat::default()
        });
        (Match::Prefix(prefix.parse().unwrap()), both)
    });
    path.seat(&seats).unwrap();
}

/// The flows, in an order, without what goes on while they are read.
fn still(mut flows: Vec<Flow>) -> Vec<Flow> {
    for flow in &mut flows {
        (flow.age, flow.idle) = (0, 0);
    }
    flows.sort_by_key(|flow| (flow.local, flow.remote, flow.ports, flow.protocol));
    flows
}

fn lines(path: &Dpdk) -> Lines {
    path.lines().unwrap().unwrap()
}

/// A connection's next segment in one direction, and the answer to the other one.
#[derive(Debug, Clone, Copy, Default)]
struct End {
    next: u32,
    stamp: u32,
}

#[test]
fn the_gate_on_dpdk_watches_the_same() {
    let policer = draft(Means::Policer { burst: 2_500 }, &PolicyTree::queue());
    let mut alone = alone(&watching(1_024));
    let (mut repeated, mut measured, mut dropped) = (0, 0, 0);
    for seed in 0..12 {
        let mut random = Pcg64::seed_from_u64(seed);
        let Some(mut w) = Watched::new("the_gate_on_dpdk_watches_the_same", &policer) else {
            return;
        };
        let path = &mut alone.path;
        path.forget(0).unwrap();
        path.forget(1).unwrap();
        path.set_settings(&watching(0)).unwrap();
        path.set_settings(&watching(1_024)).unwrap();
        follow(path, &policer);
        let stamped = seed % 3 > 0;
        w.six = seed % 2 == 1;
        // From two times ago on, with a step from one to the next.
        let window = 1 << layout::LATELY;
        let mut now = w.began - 2 * window;
        // By direction.
        let mut ends = [End::default(); 2];
        for number in 0..600 {
            if random.random() {
                now += random.random_range(0..40 * MS);
            }
            if number % 200 == 199 {
                now += window - 8 * 1_000 * MS;
            }
            let down: bool = random.random();
            let (from, to) = if down { (0, 1) } else { (1, 0) };
            let payload = if random.random_ratio(2, 3) { 1_000 } else { 0 };
            let mut segment = Segment {
                sequence: ends[from].next,
                acknowledged: ends[to].next,
                flags: ACK,
                stamps: None,
                payload,
            };
            if random.random_ratio(1, 6) {
                segment.sequence = segment.sequence.wrapping_sub(1_000);
            }
            ends[from].next = segment.sequence.wrapping_add(payload.into());
            ends[from].stamp = (now / MS) as u32;
            if stamped {
                segment.stamps = Some((ends[from].stamp, ends[to].stamp));
            }
            let frame = match random.random_ratio(1, 10) {
                true if down => super::frame([192, 0, 2, 1], random.random_range(0..5), 100),
                _ => segment.frame(down, w.six),
            };
            let (program, drop) = if down { ("tc_down", 2) } else { ("xdp_up", 1) };
            let drops = w.gate.offer(program, now, &frame) == drop;
            let direction = if down { Direction::Down } else { Direction::Up };
            let verdict = decide_in(direction, now, &mut [frame])[0];
            assert_eq!(verdict == 1, drops, "seed {seed}, packet {number}");
        }
        let (kernel, found) = (w.line(), path.line(0).unwrap().unwrap());
        assert_eq!(found, kernel, "seed {seed}");
        assert_eq!(lines(path).by_subscriber[&0], kernel, "seed {seed}");
        let flows = still(path.flows(0).unwrap().unwrap());
        assert_eq!(flows, still(w.flows()), "seed {seed}");
        assert_eq!(path.flows(1).unwrap().unwrap(), []);
        repeated += kernel.segments.down.again;
        measured += kernel.access.measured + kernel.core.measured;
        dropped += flows
            .iter()
            .map(|flow| flow.ways.down.excess_packets)
            .sum::<u64>();
    }
    assert!(
        repeated > 100 && measured > 100 && dropped > 100,
        "{repeated} sent again, {measured} round trips, {dropped} dropped"
    );
}

#[test]
fn flows_on_dpdk_replace_those_that_are_silent_for_longest() {
    let free = draft(Means::Unlimited, &PolicyTree::queue());
    let mut alone = alone(&watching(1_024));
    let path = &mut alone.path;
    follow(path, &free);
    let now = path.now();
    let ports = |path: &Dpdk| -> Vec<u16> {
        let flows = path.flows(0).unwrap().unwrap();
        let mut ports: Vec<u16> = flows.iter().map(|flow| flow.ports.1).collect();
        ports.sort_unstable();
        ports
    };
    let to = |port| super::frame([192, 0, 2, 1], port, 100);
    decide(now, &mut [to(1)]);
    assert_eq!(ports(path), [1]);
    // Flow 1 goes on while 5,000 others pass, each once.
    for port in 2..5_002 {
        decide(now + u64::from(port), &mut [to(port), to(1)]);
    }
    let found = ports(path);
    assert!((900..=1_035).contains(&found.len()), "{}", found.len());
    assert_eq!(found[0], 1);
    let recent = found.iter().filter(|port| **port > 4_500).count();
    assert!(recent > 480, "{recent} of the last 501 flows are known");
    // Another number of them begins empty, and none are watched without.
    path.set_settings(&watching(1_024)).unwrap();
    assert!(!ports(path).is_empty());
    path.set_settings(&watching(4_096)).unwrap();
    assert!(ports(path).is_empty());
    path.reserve(10_000).unwrap();
    path.set_settings(&watching(0)).unwrap();
    decide(now, &mut [to(1)]);
    assert_eq!(path.flows(0).unwrap(), None);
    assert!(path.lines().unwrap().is_none());
    // What no memory suffices for leaves the gate as it was.
    let error = path.set_settings(&watching(16_777_216)).unwrap_err();
    assert!(
        error.to_string().contains("reserve more hugepages"),
        "{error}"
    );
    assert_eq!(path.flows(0).unwrap(), None);
    path.set_settings(&watching(1_024)).unwrap();
    decide(now, &mut [to(7)]);
    assert_eq!(ports(path), [7]);
}
