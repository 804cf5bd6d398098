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
        let path = gate.pins.join("programs").join(program);
        let fd = Program::fd_from_pinned_path(path).unwrap();
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
