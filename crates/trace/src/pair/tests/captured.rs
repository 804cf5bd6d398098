//! Captures that hold packets twice, or in one piece and in parts, or not at all.

use super::*;

/// Headers and framing of a packet of [`nth`].
const AROUND: u32 = 58;

/// The same with an identification.
fn numbered(n: u32) -> TcpFrame {
    TcpFrame {
        ip_id: 100 + n as u16,
        ..nth(n)
    }
}

/// Puts a frame into a capture of all interfaces.
fn put_on(capture: &mut Gathered, interface: u32, at: Nanos, frame: &TcpFrame) {
    let mut bytes = Vec::new();
    let wire_len = frame.encode(&mut bytes);
    let [a, b, c, d] = interface.to_be_bytes();
    let head = [&bytes[12..14], &[0, 0, a, b, c, d], &[0; 12]].concat();
    let data = [&head[..], &bytes[14..]].concat();
    capture.frame(&Frame {
        outbound: None,
        at,
        link: LinkType::LINUX_SLL2,
        data: &data,
        wire_len: wire_len + 6,
    });
}

#[test]
fn pieces_of_super_packets_are_not_packets_of_their_own() {
    const PARTS: u32 = 4;
    for ip_id in [0, 100] {
        let mut both = Both::new();
        let times = |n: u32| {
            Some(Timestamps {
                value: 1 + n,
                echo: 1,
            })
        };
        for n in 0..20u32 {
            let at = Nanos::from(n) * 30 * MS;
            let first = n * PARTS;
            let part = |i: u32| TcpFrame {
                ip_id: if ip_id == 0 {
                    0
                } else {
                    (ip_id + first + i) as u16
                },
                timestamps: times(n),
                ..nth(first + i)
            };
            let whole = TcpFrame {
                payload: PARTS * LEN,
                ..part(0)
            };
            put_on(&mut both.a, 2, START + at, &whole);
            for i in 0..PARTS {
                let later = Nanos::from(10 + i) * 1000;
                put_on(&mut both.a, 3, START + at + later, &part(i));
                // Each eighth is lost, and comes again.
                if (first + i) % 8 != 5 {
                    both.at_b(at + later + WAY, &part(i));
                }
            }
            if n % 2 == 1 {
                let again = TcpFrame {
                    ip_id: if ip_id == 0 { 0 } else { (9_000 + n) as u16 },
                    timestamps: times(1000 + n),
                    ..nth(first + 1)
                };
                put_on(&mut both.a, 2, START + at + 22 * MS, &again);
                both.at_b(at + 22 * MS + WAY, &again);
            }
        }
        for n in 0..20 {
            let frame = TcpFrame {
                seq: 1 + n * 10,
                payload: 10,
                ..TcpFrame::new(Ends {
                    src: client(),
                    dst: server(),
                })
            };
            let at = Nanos::from(n) * 30 * MS + 25 * MS;
            both.at_b(at - WAY, &frame);
            put_on(&mut both.a, 2, START + at, &frame);
        }
        let found = both.diagnose();
        let stream = found.ways[0].streams[0];
        assert_eq!((stream.data_packets, stream.lost), (90, 10), "{stream:?}");
    }
}

/// One connection among many is captured twice, such as the one that a bridge forwards.
#[test]
fn copies_are_no_losses_however_few_streams_have_them() {
    let mut both = Both::new();
    for n in 0..100u32 {
        let at = Nanos::from(n) * 10 * MS;
        for port in 0..12u16 {
            let frame = TcpFrame {
                dst: ([10, 0, 0, 1], 50_000 + port).into(),
                seq: 1 + u32::from(port) * 10_000_000 + n * LEN,
                ..numbered(n)
            };
            let at = at + Nanos::from(port) * MS / 2;
            both.at_a(at, &frame);
            if port == 3 {
                both.at_a(at + 20_000, &frame);
            }
            if n % 10 != 5 {
                both.at_b(at + WAY, &frame);
            }
        }
    }
    both.passes(1_010 * MS, &numbered(101));
    let found = both.diagnose();
    for stream in &found.ways[0].streams {
        let others = u64::from(stream.at_a[1] == client().into());
        assert_eq!((stream.data_packets, stream.lost), (100 + others, 10));
    }
}

#[test]
fn a_few_copies_are_no_losses() {
    let mut both = Both::new();
    for n in 0..100 {
        let at = Nanos::from(n) * 10 * MS;
        both.at_a(at, &numbered(n));
        // One that passes, and one that is lost.
        if n == 30 || n == 55 {
            both.at_a(at + 20_000, &numbered(n));
        }
        if n % 10 != 5 {
            both.at_b(at + WAY, &numbered(n));
        }
    }
    let stream = both.data();
    assert_eq!((stream.data_packets, stream.lost), (100, 10), "{stream:?}");
    assert_eq!(stream.elsewhere.retransmitted, 0);
}

/// The first capture misses each tenth packet. What the second one holds of these took tokens of the bucket.
#[test]
fn packets_that_the_first_capture_missed_are_in_the_bucket_too() {
    const RATE: f64 = 400e3;
    const DEPTH: f64 = 8e3;
    let mut both = Both::new();
    let (mut at, mut tokens, mut last) = (0, DEPTH, 0);
    let (mut lost, mut missed) = (0, 0);
    for n in 0..3000u32 {
        let random = n.wrapping_mul(0x9e37_79b1) >> 8;
        // Bursts, with pauses of any length.
        at += match random % 40 {
            0 => Nanos::from(random % 97) * MS,
            _ => MS + Nanos::from(random % 1000) * 1000,
        };
        tokens = (tokens + (at - last) as f64 / 1e9 * RATE).min(DEPTH);
        last = at;
        let passes = tokens >= f64::from(LEN + AROUND);
        if passes {
            tokens -= f64::from(LEN + AROUND);
            both.at_b(at + WAY, &numbered(n));
        }
        let seen = n == 0 || random / 97 % 10 != 0;
        if seen {
            both.at_a(at, &numbered(n));
        }
        lost += u64::from(seen && !passes);
        missed += u64::from(passes && !seen);
        if n % 100 == 0 {
            let frame = TcpFrame {
                seq: 1 + n,
                payload: 100,
                ..TcpFrame::new(Ends {
                    src: client(),
                    dst: server(),
                })
            };
            both.at_b(at, &frame);
            both.at_a(at + WAY, &frame);
        }
    }
    both.passes(at + 500 * MS, &numbered(3000));
    let found = both.diagnose();
    let way = &found.ways[0];
    let stream = way.streams[0];
    assert!(missed > 200 && lost > 200);
    assert_eq!((stream.lost, stream.unseen), (lost, missed));
    let estimated = way.passages.iter().filter(|p| !p.seen);
    assert_eq!(estimated.count() as u64, missed);
    assert_eq!(way.verdict, Between::Policer);
    let fit = way.fits.bucket.expect("losses");
    let rate = fit.bucket.rate / RATE;
    assert!((0.99..1.01).contains(&rate), "{rate}");
    assert!(fit.rate.low <= RATE && RATE <= fit.rate.high, "{fit:?}");
}
