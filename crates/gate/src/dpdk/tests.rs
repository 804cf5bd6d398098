//! The data path without open ports: plans, seats and limiters, and decisions as the cores make them.

mod cores;

use std::path::Path;

use tidegate_limiter::{
    Decision, FairPolicer, FairPolicerConfig, HashKey, LimiterConfig, PacketMeta,
    PhantomQueuesConfig, PolicerConfig, PolicyTree, Rate,
};

use super::*;
use crate::table::{
    Accounting, Direction, Excess, Hook, LinkFrames, OtherFrames, Sources, Unknown,
};

/// Verdicts of `bpf/types.h`.
const PASS: i32 = 0;
const EXCESS: i32 = 1;

/// The data path of the test process, and what keeps other tests from it.
pub(crate) struct Alone {
    pub(crate) path: Dpdk,
    _one: MutexGuard<'static, ()>,
}

/// A data path with these settings whose ports stay closed.
pub(crate) fn alone(settings: &Settings) -> Alone {
    static ONE: Mutex<()> = Mutex::new(());
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let device = |name: &str| format!("{name}=net_null_{name},no-rx=1").parse().unwrap();
    // The cores for packets only run where a test opens the ports.
    let eal = "--no-huge -m 512 --lcores 0@(0-1),1@(0-1),2@(0-1) --log-level=error";
    let devices = Devices::new(&[device("wan"), device("lan")], eal);
    devices.unwrap().choose();
    let path = Dpdk::create(Path::new("/test"), settings).unwrap();
    Alone { path, _one: one }
}

/// Decides about frames to subscribers at a time. Frames are marked in place.
pub(crate) fn decide(now: u64, frames: &mut [Vec<u8>]) -> Vec<i32> {
    decide_in(Direction::Down, now, frames)
}

/// The same about frames in a direction.
pub(crate) fn decide_in(direction: Direction, now: u64, frames: &mut [Vec<u8>]) -> Vec<i32> {
    sys::decide(now, direction as u32, frames)
}

fn settings(unknown: Unknown) -> Settings {
    Settings {
        accounting: Accounting {
            layer: 3,
            overhead: 0,
        },
        unknown,
        other_frames: OtherFrames::Pass,
        link_frames: LinkFrames::default(),
        sources: Sources::Bound,
        beside: false,
        shadow: false,
        flows: 0,
        hash: HashKey::from_bytes(*b"a 16 byte secret"),
    }
}

/// UDP of 100 bytes to this address.
fn frame(to: u32) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 100];
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 198, 51, 100, 1]);
    frame.extend(to.to_be_bytes());
    frame.resize(114, 0);
    frame
}

fn matched(address: u32) -> Match {
    let address = std::net::Ipv4Addr::from_bits(address).to_string();
    Match::Prefix(address.parse().unwrap())
}

#[test]
fn many_seats_come_and_go() {
    const MANY: u32 = 20_000;
    const FIRST: u32 = 10 << 24;
    let mut alone = alone(&settings(Unknown::Drop));
    let path = &mut alone.path;
    let config = PolicerConfig::new(Rate::from_bits_per_second(8_000_000), 150).unwrap();
    let plan = Plan::new(LimiterConfig::from(config), Vec::new(), None, Excess::Drop).unwrap();
    path.put_plan(1, &plan).unwrap();
    let seat = |limiter| Seat {
        limiter,
        plan: 1,
        version: 1,
        ..Seat::default()
    };
    let seats: Vec<_> = (0..MANY)
        .map(|n| (matched(FIRST + n), PerDirection::new(|_| seat(n))))
        .collect();
    let error = path.seat(&seats).unwrap_err().to_string();
    assert!(error.contains("limiters are needed"), "{error}");
    path.reserve(MANY).unwrap();
    path.seat(&seats).unwrap();
    // Every second one goes, in an order that leaves holes everywhere.
    let gone: Vec<_> = (0..MANY).step_by(2).map(|n| matched(FIRST + n)).collect();
    path.unseat(&gone).unwrap();
    for first in (0..MANY).step_by(32) {
        let mut frames: Vec<_> = (first..first + 32).map(|n| frame(FIRST + n)).collect();
        for (at, verdict) in decide(1, &mut frames).into_iter().enumerate() {
            // Unmatched packets are dropped.
            let expected = if at % 2 == 0 { EXCESS } else { PASS };
            assert_eq!(verdict, expected, "subscriber {}", first + at as u32);
        }
        // The bucket holds one packet and a half.
        assert!(
            decide(1, &mut frames)
                .into_iter()
                .all(|verdict| verdict == EXCESS)
        );
    }
    let all = path.counters(0..MANY).unwrap();
    assert_eq!(all.len(), MANY as usize);
    for (number, counters) in all.iter().enumerate() {
        let one = u64::from(number % 2 == 1);
        assert_eq!(
            (counters.passed_packets, counters.excess_bytes),
            (one, 100 * one)
        );
    }
    let dropped = path.unknown().unwrap();
    let dropped = dropped.iter().find(|(name, _)| *name == "unknown_dropped");
    assert_eq!(dropped.unwrap().1, u64::from(MANY));
    path.forget(1).unwrap();
    assert_eq!(path.read(1).unwrap(), LimiterState::default());
    assert_eq!(path.read(3).unwrap().counters.passed_packets, 1);
}

/// A subscriber that rests saves its boost, also while no packet comes.
#[test]
fn what_is_saved_is_that_of_now() {
    let mut alone = alone(&settings(Unknown::Drop));
    let path = &mut alone.path;
    let rate = Rate::from_bits_per_second(8_000_000);
    let queues = PhantomQueuesConfig::new(&PolicyTree::default(), rate, 300_000).unwrap();
    let config = LimiterConfig::from(queues.with_boost(50_000));
    let plan = Plan::new(config, Vec::new(), None, Excess::Drop).unwrap();
    path.put_plan(1, &plan).unwrap();
    path.reserve(1).unwrap();
    let seat = Seat {
        limiter: 0,
        plan: 1,
        version: 1,
        ..Seat::default()
    };
    let to = 10 << 24;
    path.seat(&[(matched(to), PerDirection::new(|_| seat))])
        .unwrap();
    // A minute ago.
    let ago = path.now() - 60_000_000_000;
    assert_eq!(decide(ago, &mut [frame(to)]), [PASS]);
    assert_eq!(path.read(0).unwrap().saved, Some(50_000));
}

/// A FairPolicer decides as that of the limiter crate, and the counters are those of its decisions. While seats change, one address of
/// a subscriber may be under another plan than the other.
#[test]
fn fair_policers_decide_beside_the_c_code() {
    let mut alone = alone(&settings(Unknown::Drop));
    let path = &mut alone.path;
    let rate = Rate::from_bits_per_second(8_000_000);
    let config = FairPolicerConfig::new(rate, 3_000).unwrap();
    for (number, config) in [
        (1, config.clone()),
        (2, FairPolicerConfig::new(rate, 150).unwrap()),
    ] {
        let plan = Plan::new(config.into(), Vec::new(), None, Excess::Drop).unwrap();
        path.put_plan(number, &plan).unwrap();
    }
    path.reserve(1).unwrap();
    let seat = |plan| Seat {
        limiter: 0,
        plan,
        version: plan,
        ..Seat::default()
    };
    let (one, other) = (10 << 24, (10 << 24) + 1);
    let at = |address, plan| (matched(address), PerDirection::new(|_| seat(plan)));
    path.seat(&[at(one, 1), at(other, 1)]).unwrap();
    // 100 packets of two flows, at twice the rate.
    let mut expected = FairPolicer::new(&config, 0);
    let mut passed = 0;
    for burst in 0..10u64 {
        let mut frames: Vec<_> = (0..10).map(|n| frame([one, other][n % 2])).collect();
        let verdicts = decide(1 + burst * 500_000, &mut frames);
        for (n, verdict) in verdicts.into_iter().enumerate() {
            let packet = PacketMeta {
                bytes: 100,
                flow: n as u32 % 2,
                ..PacketMeta::default()
            };
            let fate = expected.offer(1 + burst * 500_000, &packet);
            assert_eq!(verdict == PASS, fate != Decision::Drop, "{burst}: {n}");
            passed += u64::from(verdict == PASS);
        }
    }
    let state = path.read(0).unwrap();
    let counters = state.counters;
    assert_eq!(
        (counters.passed_packets, counters.excess_bytes),
        (passed, 100 * (100 - passed))
    );
    assert!((60..100).contains(&passed), "{passed}");
    // The second plan would drop the second packet, which is still under the first one: it passes uncounted.
    path.seat(&[at(one, 2)]).unwrap();
    let later = 10_000_000_000;
    let mut frames = [frame(one), frame(other)];
    assert_eq!(decide(later, &mut frames), [PASS, PASS]);
    let raced = path.unknown().unwrap();
    let raced = raced.iter().find(|(name, _)| *name == "raced");
    assert_eq!(raced.unwrap().1, 1);
    // With a new limiter, the first packet finds a full bucket again, and the plan decides about both.
    path.seat(&[at(other, 2)]).unwrap();
    path.forget(0).unwrap();
    assert_eq!(decide(later, &mut frames), [PASS, EXCESS]);
}

#[test]
fn there_is_one_data_path_in_a_process() {
    let alone = alone(&settings(Unknown::Pass));
    assert!(Dpdk::exists(Path::new("/test")) && !Dpdk::exists(Path::new("/other")));
    let second = Dpdk::create(Path::new("/other"), &settings(Unknown::Pass));
    assert!(matches!(second, Err(DpdkError::Taken)));
    let place = |interface: &str| Attachment {
        interface: interface.to_owned(),
        hook: Hook::TcIngress,
        direction: Direction::Down,
    };
    assert!(Dpdk::check(&place("wan")).is_ok());
    let error = Dpdk::check(&place("dmz")).unwrap_err().to_string();
    assert!(error.contains("give one with --dpdk dmz=DEVICE"), "{error}");
    let nat = Attachment {
        hook: Hook::NatIngress,
        ..place("wan")
    };
    let error = Dpdk::check(&nat).unwrap_err().to_string();
    assert!(
        error.contains("remove `nat` from the interface wan"),
        "{error}"
    );
    // No other test may begin before this has looked.
    let Alone { path, _one } = alone;
    drop(path);
    assert!(!Dpdk::exists(Path::new("/test")));
}

#[test]
fn a_port_where_nothing_comes_in_any_more_is_forgotten() {
    let mut alone = alone(&settings(Unknown::Pass));
    let path = &mut alone.path;
    let place = Attachment {
        interface: "lan".to_owned(),
        hook: Hook::TcIngress,
        direction: Direction::Up,
    };
    // As after attaching, without ports and cores.
    let (port, number) = (2u32.to_ne_bytes(), port_number("lan").to_ne_bytes());
    DpdkMaps.update("ports", &port, &number).unwrap();
    path.attached.push(place.clone());
    path.runs = true;
    path.detach(&place).unwrap();
    path.runs = false;
    assert_eq!(DpdkMaps.keys("ports").count(), 0);
}

/// Packets are spread by the subscriber's address: that is the destination of what comes from the network.
#[test]
fn the_port_towards_the_network_is_known_by_its_packets() {
    let (down, up) = (1 << Direction::Down as u32, 1 << Direction::Up as u32);
    for (directions, expected) in [
        ([down, up], 0),
        ([up, down], 1),
        ([down, 0], 0),
        ([0, down], 1),
        ([up, 0], 1),
        ([0, up], 0),
    ] {
        assert_eq!(network(directions), expected, "{directions:?}");
    }
}

/// The limiters have the clock of the kernel: the time stamp counter, whose frequency is only known roughly, ran 0.15 % too fast or
/// slow.
#[test]
fn the_clock_is_the_kernels() {
    let alone = alone(&settings(Unknown::Pass));
    let kernel = || {
        let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
        time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
    };
    let (before, now, after) = (kernel(), alone.path.now(), kernel());
    assert!((before..=after).contains(&now), "{before} {now} {after}");
}
