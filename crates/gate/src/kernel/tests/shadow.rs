//! Tests that a gate in the shadow changes nothing and counts as if it did.

use super::*;

/// A frame of a sender that knows ECN.
fn capable(port: u16) -> Vec<u8> {
    let mut frame = frame([192, 0, 2, 1], port, 1_000);
    frame[15] = 2;
    frame
}

/// What 20 Mbit/s leave behind where 8 may pass: frames that came through as they were, and counters.
fn offered(test: &str, shadow: bool) -> Option<(u32, Counters, u64)> {
    let mut gate = gate(test)?;
    let fair = PolicyTree::fair(16).unwrap();
    let control = Some(BurstControl::default());
    let size = 1_000_000;
    let plan = draft(Means::PhantomQueues { size, control }, &fair);
    let kernel = gate.kernel();
    let settings = Settings {
        shadow,
        unknown: Unknown::Drop,
        ..settings()
    };
    kernel.set_settings(&settings).unwrap();
    kernel.put_plan(0, &plan.plan()).unwrap();
    let matched = Match::Prefix("192.0.2.1".parse().unwrap());
    let seat = Seat {
        limiter: 0,
        plan: 0,
        version: 1,
        ..Seat::default()
    };
    kernel.seat(Direction::Down, &[(matched, seat)]).unwrap();
    let mut same = 0;
    for number in 0..2_500u64 {
        use std::os::fd::AsRawFd;
        let now = 1_000_000 + number * 400_000;
        let key = 0u32.to_ne_bytes();
        gate.kernel()
            .update("test_time", &key, &now.to_ne_bytes())
            .unwrap();
        let program = ["tc_down", "xdp_down"][number as usize % 2];
        // One packet of ten belongs to no subscriber.
        let frame = match number % 10 {
            0 => frame([192, 0, 2, 9], 1, 1_000),
            _ => capable(number as u16 % 2),
        };
        let fd = gate.program(program);
        let (verdict, after) = sys::test_run(fd.as_raw_fd(), &frame, 1).unwrap();
        let passed = verdict != if program == "tc_down" { 2 } else { 1 };
        same += u32::from(passed && after == frame);
    }
    let unknown = gate.kernel().unknown().unwrap();
    let dropped = unknown.iter().find(|one| one.reason == "unknown_dropped");
    let counters = gate.kernel().read(0).unwrap().counters;
    Some((same, counters, dropped.unwrap().packets))
}

#[test]
fn the_shadow_counts_what_would_be_dropped_and_marked() {
    let test = "the_shadow_counts_what_would_be_dropped_and_marked";
    let Some((same, counters, strangers)) = offered(test, true) else {
        return;
    };
    assert_eq!(same, 2_500);
    let (_, limited, dropped) = offered(test, false).unwrap();
    assert_eq!((counters, strangers), (limited, dropped));
    assert!(
        counters.marked_packets > 0 && counters.excess_packets > 100,
        "{counters:?}"
    );
    assert_eq!(strangers, 250);
}
