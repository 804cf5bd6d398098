//! Tests that packets beyond the limit pass with another code point, and are valid then.

use std::os::fd::AsRawFd;

use super::*;

/// The Internet checksum of a header that contains its checksum: 0 if this is right.
fn checksum(header: &[u8]) -> u16 {
    let words = header
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum = words.sum::<u32>();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[test]
fn packets_beyond_the_limit_are_marked() {
    let Some(mut gate) = gate("packets_beyond_the_limit_are_marked") else {
        return;
    };
    let mut marking = draft(Means::Policer { burst: 1_000 }, &PolicyTree::queue());
    marking.excess = Excess::Mark(8);
    let seat = Seat {
        limiter: 0,
        plan: 0,
        version: 1,
        ..Seat::default()
    };
    let matched = |text: &str| Match::Prefix(text.parse().unwrap());
    let kernel = gate.kernel();
    kernel.put_plan(0, &marking.plan()).unwrap();
    let seats = [
        (matched("192.0.2.1"), seat),
        (matched("2001:db8::/32"), seat),
    ];
    // After one byte of protocol, the header is at an odd address.
    let pppoe = [0x88, 0x64, 0x11, 0, 0, 9, 2, 89, 0x21];
    kernel.seat(Direction::Down, &seats).unwrap();
    let mut four = frame([192, 0, 2, 1], 1, 600);
    // EF, and a congestion mark, which stays.
    four[15] = 46 << 2 | 3;
    let sum = checksum(&four[14..34]);
    four[24..26].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(checksum(&four[14..34]), 0);
    let mut six = four[..12].to_vec();
    six.extend([0x86, 0xdd, 0x6b, 0xb3, 0x45, 0x67, 0x02, 0x30, 59, 64]);
    for _ in 0..2 {
        six.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
    six.resize(14 + 600, 0);
    let odd = [&four[..12], &pppoe, &four[14..]].concat();
    for (program, pass) in [("tc_down", u32::MAX), ("xdp_down", 2)] {
        let fd = gate.program(program);
        for frame in [&four, &six, &odd] {
            let ip = if frame == &odd { 21 } else { 14 };
            gate.kernel().forget(0).unwrap();
            let run = || sys::test_run(fd.as_raw_fd(), frame, 1).unwrap();
            assert_eq!(run(), (pass, frame.clone()), "{program}");
            let (verdict, after) = run();
            let mut expected = frame.clone();
            if frame != &six {
                expected[ip + 1] = 8 << 2 | 3;
                expected[ip + 10..ip + 12].fill(0);
                let sum = checksum(&expected[ip..ip + 20]);
                expected[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
            } else {
                expected[14] = 0x62;
                expected[15] = 0x33;
            }
            assert_eq!((verdict, after), (pass, expected), "{program}");
            let counters = gate.kernel().read(0).unwrap().counters;
            assert_eq!((counters.passed_packets, counters.excess_packets), (1, 1));
        }
    }
}

#[test]
fn packets_beyond_the_limit_can_be_counted_only() {
    let Some(mut gate) = gate("packets_beyond_the_limit_can_be_counted_only") else {
        return;
    };
    let means = Means::PhantomQueues {
        size: 10_000,
        control: Some(BurstControl::Bucket),
    };
    let mut counting = draft(means, &PolicyTree::fair(4).unwrap());
    let mut counters = Vec::new();
    for (number, excess) in [Excess::Drop, Excess::Count].into_iter().enumerate() {
        counting.excess = excess;
        let number = number as u32;
        let kernel = gate.kernel();
        kernel.put_plan(number, &counting.plan()).unwrap();
        kernel.forget(0).unwrap();
        let seat = Seat {
            plan: number,
            version: number + 1,
            ..Seat::default()
        };
        let matched = Match::Prefix("192.0.2.1".parse().unwrap());
        kernel.seat(Direction::Down, &[(matched, seat)]).unwrap();
        let dropped = (0..100u64)
            .filter(|at| gate.offer("tc_down", at * 1_000, &frame([192, 0, 2, 1], 1, 1_000)) == 2)
            .count();
        let state = gate.kernel().read(0).unwrap();
        assert_eq!(dropped > 0, excess == Excess::Drop);
        counters.push(state.counters);
    }
    // As many are counted as would be dropped.
    assert_eq!(counters[0], counters[1]);
    assert!(counters[0].excess_packets > 10, "{counters:?}");
}

/// A queue that is nearly full marks ECN-capable packets, and no others.
#[test]
fn packets_of_full_queues_are_marked_as_congested() {
    let Some(mut gate) = gate("packets_of_full_queues_are_marked_as_congested") else {
        return;
    };
    let means = Means::PhantomQueues {
        size: 10_000,
        control: None,
    };
    let kernel = gate.kernel();
    let plan = draft(means, &PolicyTree::queue()).plan();
    kernel.put_plan(0, &plan).unwrap();
    let seat = Seat {
        limiter: 0,
        plan: 0,
        version: 1,
        ..Seat::default()
    };
    let matched = |text: &str| Match::Prefix(text.parse().unwrap());
    let seats = [
        (matched("192.0.2.1"), seat),
        (matched("2001:db8::/32"), seat),
    ];
    kernel.seat(Direction::Down, &seats).unwrap();
    let mut four = frame([192, 0, 2, 1], 1, 1_000);
    four[15] = 46 << 2;
    let mut six = four[..12].to_vec();
    six.extend([0x86, 0xdd, 0x6b, 0x83, 0x45, 0x67, 0x03, 0xc0, 59, 64]);
    for _ in 0..2 {
        six.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
    six.resize(14 + 1_000, 0);
    let pppoe = [0x88, 0x64, 0x11, 0, 0, 9, 3, 233, 0x21];
    // A tag, and a header at an odd address behind PPP.
    let tagged = [&four[..12], &[0x81, 0, 0, 7], &four[12..]].concat();
    let odd = [&four[..12], &pppoe, &four[14..]].concat();
    for (program, pass) in [("tc_down", u32::MAX), ("xdp_down", 2)] {
        let fd = gate.program(program);
        for (frame, ip) in [(&four, 14), (&tagged, 18), (&odd, 21), (&six, 14)] {
            for ecn in 0..4u8 {
                gate.kernel().forget(0).unwrap();
                let mut frame = frame.clone();
                let mut expected = frame.clone();
                if ip == 14 && frame == six {
                    frame[15] = frame[15] & 0xcf | ecn << 4;
                    expected = frame.clone();
                    expected[15] |= if ecn > 0 { 0x30 } else { 0 };
                } else {
                    for (frame, ecn) in [
                        (&mut frame, ecn),
                        (&mut expected, if ecn > 0 { 3 } else { 0 }),
                    ] {
                        frame[ip + 1] = 46 << 2 | ecn;
                        frame[ip + 10..ip + 12].fill(0);
                        let sum = checksum(&frame[ip..ip + 20]);
                        frame[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
                    }
                }
                let run = || sys::test_run(fd.as_raw_fd(), &frame, 1).unwrap();
                // Less than a quarter is left after the eighth packet, or less than half after the sixth.
                let unmarked = if ecn == 1 { 5 } else { 7 };
                for _ in 0..unmarked {
                    assert_eq!(run(), (pass, frame.clone()), "{program}, {ecn}");
                }
                assert_eq!(run(), (pass, expected), "{program}, {ecn}");
                // A packet that came marked is not counted.
                let marked = gate.kernel().read(0).unwrap().counters.marked_packets;
                assert_eq!(marked, u64::from(ecn == 1 || ecn == 2), "{program}, {ecn}");
            }
        }
    }
}
