//! Tests that packets are parsed, and that malformed ones do not avoid the limit.

use super::*;
use crate::table::Accounting;

/// A gate in which 192.0.2.1, 2001:db8::1 and some links have a limiter each, which passes one
/// packet.
struct Subject {
    gate: Gate,
    version: u32,
    others: OtherFrames,
}

const FRAME: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
/// TCP to the subscriber's port 443.
const TCP: [u8; 20] = [
    0x04, 0, 1, 187, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0,
];

fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + payload.len() as u16).to_be_bytes());
    packet.extend([
        0, 0, 0, 0, 64, protocol, 0, 0, 198, 51, 100, 1, 192, 0, 2, 1,
    ]);
    packet.extend(payload);
    packet
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    for last in [2, 1] {
        packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    packet.extend(payload);
    packet
}

fn framed(kind: &[u8], packet: &[u8]) -> Vec<u8> {
    [&FRAME, kind, packet].concat()
}

impl Subject {
    fn new(test: &str) -> Option<Self> {
        let mut gate = gate(test)?;
        // Packets to port 443 are of class 0, others of class 1: one passes, the next does not.
        let two = PolicyTree::priority(vec![PolicyTree::queue(), PolicyTree::queue()]).unwrap();
        let control = None;
        let mut plan = draft(Means::PhantomQueues { size: 1, control }, &two);
        plan.rules = vec![tidegate_limiter::Rule {
            destination_ports: 443..=443,
            ..Default::default()
        }];
        gate.kernel().put_plan(0, &plan.plan()).unwrap();
        plan.means = Means::PhantomQueues {
            size: 100_000,
            control,
        };
        gate.kernel().put_plan(1, &plan.plan()).unwrap();
        let mut subject = Self {
            gate,
            version: 0,
            others: OtherFrames::Pass,
        };
        subject.sit(1, Unknown::Pass);
        Some(subject)
    }

    fn sit(&mut self, plan: u32, unknown: Unknown) {
        self.version += 1;
        let version = self.version;
        let seat = |limiter| Seat {
            limiter,
            plan,
            version,
            ..Seat::default()
        };
        let prefix = |text: &str| Match::Prefix(text.parse().unwrap());
        let seats = [
            (prefix("192.0.2.1/32"), seat(1)),
            (prefix("2001:db8::1/128"), seat(2)),
            (Match::Vlan(7), seat(3)),
            (Match::QinQ { outer: 7, inner: 8 }, seat(4)),
            (Match::Pppoe(9), seat(5)),
        ];
        let kernel = self.gate.kernel();
        kernel.seat(Direction::Down, &seats).unwrap();
        let accounting = Accounting {
            layer: 3,
            overhead: 0,
        };
        kernel
            .set_settings(&Settings {
                unknown,
                accounting,
                other_frames: self.others,
                ..settings()
            })
            .unwrap();
    }

    /// Which limiter and queue a frame was charged to at tc and at XDP, and how many bytes.
    fn charged(&mut self, frame: &[u8]) -> Option<(u32, usize, u64)> {
        let all = ["tc_down", "xdp_down"].map(|program| self.charged_at(program, frame));
        assert_eq!(all[0], all[1]);
        all[0]
    }

    fn charged_at(&mut self, program: &str, frame: &[u8]) -> Option<(u32, usize, u64)> {
        for limiter in 1..6 {
            self.gate.kernel().forget(limiter).unwrap();
        }
        self.gate.offer(program, 1, frame);
        let mut found = None;
        for limiter in 1..6 {
            let state = self.gate.kernel().read(limiter).unwrap();
            for (queue, state) in state.queues.iter().enumerate() {
                if state.passed_bytes > 0 {
                    assert_eq!(found, None);
                    found = Some((limiter, queue, state.passed_bytes));
                }
            }
        }
        found
    }

    fn counted(&mut self, reason: &str) -> u64 {
        let all = self.gate.kernel().unknown().unwrap();
        all.iter()
            .find(|stranger| stranger.reason == reason)
            .unwrap()
            .packets
    }
}

#[test]
fn frames_of_all_kinds_find_their_limiter() {
    let Some(mut subject) = Subject::new("frames_of_all_kinds_find_their_limiter") else {
        return;
    };
    let (four, six) = (ipv4(6, &TCP), ipv6(6, &TCP));
    let pppoe = |protocol: u8, packet: &[u8]| {
        let mut frame = vec![0x88, 0x64, 0x11, 0, 0, 9, 0, 42, 0, protocol];
        frame.extend(packet);
        frame
    };
    // The length behind the addresses does not count.
    let snap = |kind: [u8; 2]| [&[0, 48, 0xaa, 0xaa, 3, 0, 0, 0][..], &kind].concat();
    for (frame, charged) in [
        (framed(&[8, 0], &four), (1, 0, 40)),
        (framed(&[0x86, 0xdd], &six), (2, 0, 60)),
        // No subscriber has these tags, so addresses count.
        (framed(&[0x81, 0, 0, 6, 8, 0], &four), (1, 0, 40)),
        (
            framed(&[0x88, 0xa8, 0, 6, 0x81, 0, 0, 6, 0x86, 0xdd], &six),
            (2, 0, 60),
        ),
        // A tag that only has a priority does not count.
        (framed(&[0x81, 0, 0xe0, 0, 8, 0], &four), (1, 0, 40)),
        (framed(&[0x81, 0, 0, 7, 8, 0], &four), (3, 0, 40)),
        (
            framed(&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8, 8, 0], &four),
            (4, 0, 40),
        ),
        (framed(&pppoe(0x21, &four), &[]), (5, 0, 40)),
        (framed(&pppoe(0x57, &six), &[]), (5, 0, 60)),
        (
            framed(&[&[0x81, 0, 0, 7], &pppoe(0x21, &four)[..]].concat(), &[]),
            (5, 0, 40),
        ),
        // Tags of older types, and SNAP before or behind a tag (RFC 1042).
        (framed(&[0x91, 0, 0, 7, 8, 0], &four), (3, 0, 40)),
        (
            framed(&[0x92, 0, 0, 7, 0x91, 0, 0, 8, 8, 0], &four),
            (4, 0, 40),
        ),
        (framed(&snap([8, 0]), &four), (1, 0, 40)),
        (
            framed(&[&[0x81, 0, 0, 6], &snap([0x86, 0xdd])[..]].concat(), &six),
            (2, 0, 60),
        ),
        (
            framed(&[&snap([0x81, 0])[..], &[0, 7, 8, 0]].concat(), &four),
            (3, 0, 40),
        ),
        // One label or several, of both types (RFC 3032 §2.1). The last one has the bit 0x100.
        (framed(&[0x88, 0x47, 0, 1, 1, 64], &four), (1, 0, 40)),
        (
            framed(&[0x88, 0x48, 0, 1, 0, 64, 0, 2, 0, 64, 0, 3, 1, 64], &six),
            (2, 0, 60),
        ),
        (
            framed(&[0x81, 0, 0, 7, 0x88, 0x47, 0, 1, 1, 64], &four),
            (3, 0, 40),
        ),
        // Not IP, but on the subscriber's link.
        (framed(&[0x81, 0, 0, 7, 8, 6], &[0; 46]), (3, 1, 46)),
        // The padding of a short frame is not part of the packet.
        (framed(&[8, 0], &[&four[..], &[0; 6]].concat()), (1, 0, 40)),
    ] {
        assert_eq!(subject.charged(&frame), Some(charged), "{frame:02x?}");
    }
    // It belongs to no subscriber.
    let mut other = framed(&[8, 0], &four);
    other[33] = 9;
    assert_eq!(subject.charged(&other), None);
    assert_eq!(subject.charged(&framed(&[8, 6], &[0; 46])), None);
    assert_eq!(
        (subject.counted("unknown_ipv4"), subject.counted("not_ip")),
        (2, 2)
    );
}

#[test]
fn ports_are_read_where_they_are() {
    let Some(mut subject) = Subject::new("ports_are_read_where_they_are") else {
        return;
    };
    let mut optional = ipv4(6, &[&[1; 8][..], &TCP].concat());
    optional[0] = 0x47;
    assert_eq!(
        subject.charged(&framed(&[8, 0], &optional)),
        Some((1, 0, 48))
    );
    for protocol in [17, 33, 132, 136] {
        assert_eq!(
            subject.charged(&framed(&[8, 0], &ipv4(protocol, &TCP))),
            Some((1, 0, 40))
        );
    }
    // These have no ports.
    assert_eq!(
        subject.charged(&framed(&[8, 0], &ipv4(47, &TCP))),
        Some((1, 1, 40))
    );
    for fragment in [[0x20, 0], [0, 1]] {
        let mut packet = ipv4(6, &TCP);
        packet[6..8].copy_from_slice(&fragment);
        assert_eq!(subject.charged(&framed(&[8, 0], &packet)), Some((1, 1, 40)));
    }
    let chain = |headers: &[&[u8]]| [&headers.concat()[..], &TCP].concat();
    let (hop, destination) = ([60u8, 0, 0, 0, 0, 0, 0, 0], [6u8, 0, 0, 0, 0, 0, 0, 0]);
    let authentication = [6u8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for (next, headers, queue) in [
        (0, chain(&[&hop, &destination]), 0),
        (51, chain(&[&authentication]), 0),
        (44, chain(&[&[6, 0, 0, 0, 0, 0, 0, 1]]), 0),
        (44, chain(&[&[6, 0, 0, 1, 0, 0, 0, 1]]), 1),
        (44, chain(&[&[6, 0, 1, 0, 0, 0, 0, 1]]), 1),
    ] {
        let packet = ipv6(next, &headers);
        let length = packet.len() as u64;
        let charged = subject.charged(&framed(&[0x86, 0xdd], &packet));
        assert_eq!(charged, Some((2, queue, length)), "{next} {headers:02x?}");
    }
}

#[test]
fn what_is_wrong_is_charged_or_counted() {
    let Some(mut subject) = Subject::new("what_is_wrong_is_charged_or_counted") else {
        return;
    };
    let four = ipv4(6, &TCP);
    let changed = |at: usize, byte: u8| {
        let mut packet = four.clone();
        packet[at] = byte;
        framed(&[8, 0], &packet)
    };
    let bomb = {
        let mut headers = [60u8, 0, 0, 0, 0, 0, 0, 0].repeat(20);
        headers.extend(TCP);
        framed(&[0x86, 0xdd], &ipv6(60, &headers))
    };
    // Its ports cannot be read, so it is not in the class that is served first.
    for (frame, limiter, queue, reason) in [
        (changed(0, 0x55), 1, 1, "bad_version"),
        (changed(0, 0x44), 1, 1, "bad_header_length"),
        (changed(0, 0x4f), 1, 1, "bad_header_length"),
        (changed(2, 0xff), 1, 0, "bad_total_length"),
        (changed(3, 3), 1, 0, "bad_total_length"),
        (
            framed(&[8, 0], &ipv4(17, &[0; 2])),
            1,
            1,
            "bad_total_length",
        ),
        (bomb, 2, 1, "many_extensions"),
    ] {
        let before = subject.counted(reason);
        let charged = subject
            .charged(&frame)
            .unwrap_or_else(|| panic!("{reason}"));
        assert_eq!((charged.0, charged.1), (limiter, queue), "{reason}");
        assert_eq!(subject.counted(reason), before, "a limiter saw it");
        // The same for a packet of no subscriber.
        let mut other = frame.clone();
        other[if limiter == 1 { 33 } else { 53 }] = 9;
        assert_eq!(subject.charged(&other), None, "{reason}");
        assert_eq!(subject.counted(reason), before + 2);
    }
    // No address can be read. At tc, the kernel does not test such short packets.
    for (frame, reason) in [
        (framed(&[8, 0], &four[..19]), "short_ip"),
        (framed(&[0x86, 0xdd], &four[..39]), "short_ip"),
        (framed(&[0x81, 0], &[0]), "short_frame"),
        (framed(&[0x88, 0x64, 0x11, 0, 0], &[]), "bad_pppoe"),
    ] {
        let before = subject.counted(reason);
        assert_eq!(subject.charged_at("xdp_down", &frame), None, "{reason}");
        assert_eq!(subject.counted(reason), before + 1, "{reason}");
    }
}

#[test]
fn tags_are_no_way_past_the_limit() {
    let Some(mut subject) = Subject::new("tags_are_no_way_past_the_limit") else {
        return;
    };
    let four = ipv4(6, &TCP);
    let tagged = |ids: &[u8]| {
        let tags = ids.iter().flat_map(|&id| [0x81, 0, 0, id]);
        framed(&[&tags.collect::<Vec<u8>>()[..], &[8, 0]].concat(), &four)
    };
    for (ids, limiter) in [
        (&[0; 3][..], 1),
        (&[0; 8], 1),
        (&[0, 0, 7], 3),
        (&[0, 7, 0, 0, 0, 8, 0, 0], 4),
    ] {
        let charged = subject.charged(&tagged(ids));
        assert_eq!(charged, Some((limiter, 0, 40)), "{ids:?}");
    }
    // Any packet on a subscriber's link counts; it does not get the first class.
    for (ids, limiter) in [(&[7, 8, 9][..], 4), (&[7, 0, 0, 0, 0, 0, 0, 0, 0], 3)] {
        let charged = subject.charged(&tagged(ids)).unwrap();
        assert_eq!((charged.0, charged.1), (limiter, 1), "{ids:?}");
    }
    for ids in [&[0; 9][..], &[0; 12], &[1, 1, 1], &[0, 1, 0, 1, 0, 1]] {
        let before = subject.counted("many_tags");
        for (program, dropped) in [("tc_down", 2), ("xdp_down", 1)] {
            assert_eq!(subject.gate.offer(program, 1, &tagged(ids)), dropped);
        }
        assert_eq!(subject.counted("many_tags"), before + 2, "{ids:?}");
    }
}

#[test]
fn pppoe_is_no_way_past_the_limit() {
    let Some(mut subject) = Subject::new("pppoe_is_no_way_past_the_limit") else {
        return;
    };
    let (four, six) = (ipv4(6, &TCP), ipv6(6, &TCP));
    // Protocols of one byte, and headers that are not in order, of a subscriber's session
    // and of one that is not.
    for (session, owners) in [(9, [5, 5]), (10, [1, 2])] {
        for header in [[0x11, 0], [0x21, 0], [0x11, 7]] {
            for (protocol, packet, owner) in [
                (&[0, 0x21][..], &four, owners[0]),
                (&[0x21], &four, owners[0]),
                (&[0, 0x57], &six, owners[1]),
                (&[0x57], &six, owners[1]),
            ] {
                let pppoe = [&[0x88, 0x64], &header[..], &[0, session, 0, 42], protocol];
                let frame = framed(&pppoe.concat(), packet);
                let charged = subject.charged(&frame);
                let length = packet.len() as u64;
                assert_eq!(charged, Some((owner, 0, length)), "{frame:02x?}");
            }
        }
    }
    // No known protocol, but a session.
    let cut = framed(&[0x88, 0x64, 0x11, 0, 0, 9, 0, 42], &[]);
    let charged = subject.charged_at("xdp_down", &cut).unwrap();
    assert_eq!((charged.0, charged.1), (5, 1));
}

#[test]
fn any_bytes_are_charged_to_whom_they_name() {
    use rand::{Rng, SeedableRng};
    let Some(mut subject) = Subject::new("any_bytes_are_charged_to_whom_they_name") else {
        return;
    };
    subject.sit(0, Unknown::Pass);
    let mut random = rand_pcg::Pcg64::seed_from_u64(7);
    let (mut passed, mut sent) = (0, 0);
    for _ in 0..10_000 {
        let mut frame = framed(&[8, 0], &ipv4(6, &TCP));
        for _ in 0..random.random_range(1..6) {
            // Any change except one of the addresses.
            let at = random.random_range(14..frame.len());
            if !(30..34).contains(&at) {
                frame[at] = random.random();
            }
        }
        frame.truncate(random.random_range(34..=frame.len()));
        let (program, drop) = if random.random() {
            ("tc_down", 2)
        } else {
            ("xdp_down", 1)
        };
        sent += 1;
        passed += u32::from(subject.gate.offer(program, 1, &frame) != drop);
    }
    // The queues have room for one byte each, and a packet has more: nothing passes.
    assert_eq!((passed, sent), (0, 10_000));
}

#[test]
fn unmatched_packets_are_dropped_if_the_file_says_so() {
    let Some(mut subject) = Subject::new("unmatched_packets_are_dropped_if_the_file_says_so")
    else {
        return;
    };
    let mut four = framed(&[8, 0], &ipv4(6, &TCP));
    four[33] = 9;
    let discovery = framed(&[0x86, 0xdd], &{
        let mut packet = ipv6(58, &[135, 0, 0, 0, 0, 0, 0, 0]);
        (packet[7], packet[39]) = (255, 9);
        packet
    });
    // Many hops away, and with a protocol that IPv4 does not have.
    let mut forwarded = discovery.clone();
    forwarded[14 + 7] = 254;
    let mut other = framed(&[8, 0], &ipv4(58, &[135, 0, 0, 0, 0, 0, 0, 0]));
    (other[14 + 8], other[33]) = (255, 9);
    let resolution = framed(&[8, 6], &[0; 46]);
    for (unknown, verdicts) in [
        (Unknown::Pass, [false; 5]),
        (Unknown::Drop, [true, false, false, true, true]),
    ] {
        subject.sit(1, unknown);
        let frames = [&four, &discovery, &resolution, &forwarded, &other];
        for (frame, dropped) in frames.into_iter().zip(verdicts) {
            assert_eq!(subject.gate.offer("tc_down", 1, frame) == 2, dropped);
            assert_eq!(subject.gate.offer("xdp_down", 1, frame) == 1, dropped);
        }
    }
}

#[test]
fn frames_without_ip_pass_only_as_far_as_a_network_needs_them() {
    let test = "frames_without_ip_pass_only_as_far_as_a_network_needs_them";
    let Some(mut subject) = Subject::new(test) else {
        return;
    };
    let bridge = |kind: &[u8]| {
        let mut frame = framed(kind, &[0; 50]);
        frame[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 0]);
        frame
    };
    let session = |protocol: [u8; 2]| {
        let header = [0x88, 0x64, 0x11, 0, 0, 77, 0, 42];
        framed(&[&header[..], &protocol].concat(), &[0; 40])
    };
    let needed = [
        framed(&[8, 6], &[0; 46]),
        framed(&[0x81, 0, 0, 6, 8, 6], &[0; 46]),
        framed(&[0x88, 0x63], &[0x11, 9, 0, 0, 0, 0]),
        session([0xc0, 0x21]),
        // A spanning tree: 802.2, not SNAP.
        bridge(&[0, 38, 0x42, 0x42, 3]),
    ];
    let lldp = bridge(&[0x88, 0xcc]);
    let rest = [
        framed(&[0x88, 0xb5], &[0; 46]),
        framed(&[0, 46, 0xe0, 0xe0, 3], &[0; 43]),
        framed(&[0, 46, 0xaa, 0xaa, 3, 0, 0, 0x0c, 8, 0], &ipv4(6, &TCP)),
        // A label with an Ethernet frame behind it, and labels that do not end.
        framed(&[0x88, 0x47, 0, 1, 1, 64, 0, 0, 0, 0], &[2; 60]),
        framed(&[0x88, 0x47, 0, 1, 0, 64], &[0; 6]),
        session([0x00, 0x2d]),
    ];
    let passes = |subject: &mut Subject, way: &str, now, frame: &[u8]| {
        let tc = subject.gate.offer(&format!("tc_{way}"), now, frame) != 2;
        let xdp = subject.gate.offer(&format!("xdp_{way}"), now, frame) != 1;
        assert_eq!(tc, xdp, "{frame:02x?}");
        tc
    };
    use OtherFrames::{Auto, Drop, Pass};
    for (others, unknown, way, dropped) in [
        (Pass, Unknown::Drop, "up", false),
        (Auto, Unknown::Pass, "up", true),
        (Auto, Unknown::Pass, "down", false),
        (Auto, Unknown::Drop, "down", true),
        (Drop, Unknown::Pass, "down", true),
    ] {
        subject.others = others;
        subject.sit(1, unknown);
        for frame in &needed {
            assert!(passes(&mut subject, way, 1, frame), "{way} {frame:02x?}");
        }
        for frame in rest.iter().chain([&lldp]) {
            let before = subject.counted("other_dropped");
            assert_eq!(
                passes(&mut subject, way, 1, frame),
                !dropped,
                "{frame:02x?}"
            );
            let counted = subject.counted("other_dropped") - before;
            assert_eq!(counted, if dropped { 2 } else { 0 });
        }
    }
    // A flood of ARP passes at 64 kbit/s (60 bytes as charged take 5.75 ms) after two seconds' worth.
    // Another sender's passes all the while, and so does neighbour discovery.
    subject.others = Auto;
    subject.sit(1, Unknown::Drop);
    let mut flood = framed(&[8, 6], &[0; 46]);
    flood[11] = 77;
    let mut honest = flood.clone();
    honest[11] = 78;
    let second = 1_000_000_000;
    let mut passed = 0;
    for number in 0..10_000u64 {
        let now = 100 * second + number * second / 1_000;
        passed += u64::from(subject.gate.offer("tc_up", now, &flood) != 2);
        if number % 500 == 0 {
            assert!(subject.gate.offer("xdp_up", now, &honest) != 1, "{number}");
        }
    }
    let most = 12 * 64_000 / 8 / 46;
    assert!(
        (most - 5..=most + 1).contains(&passed),
        "{passed} of {most}"
    );
    assert_eq!(subject.counted("link_frames_dropped"), 10_000 - passed);
    let discovery = framed(&[0x86, 0xdd], &{
        let mut packet = ipv6(58, &[135, 0, 0, 0, 0, 0, 0, 0]);
        (packet[7], packet[23]) = (255, 9);
        packet
    });
    let now = 110 * second;
    let of = |count: usize, subject: &mut Subject| {
        (0..count)
            .filter(|_| subject.gate.offer("tc_up", now, &discovery) != 2)
            .count()
    };
    let passed = of(1_000, &mut subject);
    assert!((200..500).contains(&passed), "{passed}");
}
