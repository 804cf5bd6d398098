//! Tests that packets with a subscriber's source address pass only from where the subscriber is bound to.

use super::attach::{attachment, on_links, passed, send};
use super::*;
use crate::binding::{Binding, Mac};
use crate::table::{Hook, Origin};

fn counted(gate: &mut Gate, reason: &str) -> u64 {
    let all = gate.kernel().unknown().unwrap();
    all.iter().find(|one| one.reason == reason).unwrap().packets
}

/// Binds the sender of the tests to a place.
fn bind(gate: &mut Gate, from: Origin) {
    let seat = Seat {
        limiter: 1,
        plan: 0,
        version: 1,
        from,
    };
    let matched = Match::Prefix("198.51.100.0/24".parse().unwrap());
    gate.kernel()
        .seat(Direction::Up, &[(matched, seat)])
        .unwrap();
}

#[test]
fn a_bound_subscriber_sends_only_from_its_place() {
    let test = "a_bound_subscriber_sends_only_from_its_place";
    on_links(test, |mut gate, space| {
        space
            .ip("link set near.1 address 02:00:00:00:01:02")
            .unwrap();
        // With the address, the kernel forgot its neighbours.
        let neighbour = "neigh replace 192.0.2.1 lladdr 02:00:00:00:00:09 dev near.1 nud permanent";
        space.ip(neighbour).unwrap();
        let port = |name: &str| Binding {
            port: Some(name.into()),
            ..Binding::default()
        };
        let mac = |text: &str| Binding {
            mac: Some(Mac::read(text).unwrap()),
            ..Binding::default()
        };
        let tags = |outer, inner| Binding {
            tags: Some((outer, inner)),
            ..Binding::default()
        };
        let (own, other) = ("02:00:00:00:01:02", "02:00:00:00:01:03");
        let both = Binding {
            mac: Some(Mac::read(other).unwrap()),
            ..port("far")
        };
        for (hook, direction) in [
            (Hook::TcIngress, Direction::Up),
            (Hook::XdpGeneric, Direction::Up),
            (Hook::TcEgress, Direction::Up),
        ] {
            let comes_in = hook != Hook::TcEgress;
            let place = attachment(if comes_in { "far" } else { "near.1" }, hook, direction);
            gate.kernel().attach(&place).unwrap();
            for (from, passes) in [
                (Binding::default(), true),
                (port("far"), true),
                (port("near.1"), false),
                (mac(own), true),
                (mac(other), false),
                (tags(7, 0), false),
                (tags(7, 8), false),
                (both.clone(), false),
                (Binding::default(), true),
            ] {
                // Where packets from subscribers go out, nobody knows where they came in.
                let passes = passes || !comes_in;
                bind(&mut gate, from.origin());
                // Another process takes over.
                gate.kernel = Some(Kernel::open(&gate.pins).unwrap());
                let before = (
                    passed(&mut gate, 1).0,
                    counted(&mut gate, "spoofed_dropped"),
                );
                send("192.0.2.1");
                let after = (
                    passed(&mut gate, 1).0,
                    counted(&mut gate, "spoofed_dropped"),
                );
                let seen = (after.0 - before.0, after.1 - before.1);
                let expected = if passes { (5, 0) } else { (0, 5) };
                assert_eq!(seen, expected, "{place:?} {from:?}");
            }
            gate.kernel().detach(&place).unwrap();
        }
        // Nothing is left of bindings that are gone.
        assert_eq!(gate.kernel().map("bindings").keys().count(), 0);
    });
}

/// The interfaces where packets from subscribers come in, by their numbers.
fn ports(gate: &mut Gate) -> Vec<u32> {
    let keys = gate.kernel().map("ports").keys();
    let mut ports: Vec<u32> = keys
        .map(|key| u32::from_ne_bytes(key.try_into().unwrap()))
        .collect();
    ports.sort_unstable();
    ports
}

#[test]
fn interfaces_where_nothing_comes_in_any_more_are_forgotten() {
    let test = "interfaces_where_nothing_comes_in_any_more_are_forgotten";
    on_links(test, |mut gate, space| {
        let number = |name: &str| if_nametoindex(name).unwrap();
        let up = |name| attachment(name, Hook::TcIngress, Direction::Up);
        // Left by a process that was killed.
        let left = 77u32.to_ne_bytes();
        gate.kernel().update("ports", &left, &left).unwrap();
        gate.kernel().attach(&up("far")).unwrap();
        assert_eq!(ports(&mut gate), [number("far")]);
        gate.kernel().attach(&up("tun")).unwrap();
        let mut both = vec![number("far"), number("tun")];
        both.sort_unstable();
        assert_eq!(ports(&mut gate), both);
        // It is on the other side from now on.
        gate.kernel().detach(&up("far")).unwrap();
        let down = attachment("far", Hook::TcIngress, Direction::Down);
        gate.kernel().attach(&down).unwrap();
        assert_eq!(ports(&mut gate), [number("tun")]);
        // It disappears, and the gate looks for it.
        space.ip("link del tun").expect("a network");
        assert!(gate.kernel().attach(&up("tun")).is_err());
        assert!(ports(&mut gate).is_empty());
    });
}

#[test]
fn no_packet_passes_before_it_is_known_where_it_came_in() {
    let test = "no_packet_passes_before_it_is_known_where_it_came_in";
    on_links(test, |mut gate, _| {
        gate.kernel().map("ports").freeze().unwrap();
        let up = attachment("far", Hook::TcIngress, Direction::Up);
        assert!(gate.kernel().attach(&up).is_err());
        assert_eq!(gate.kernel().attachments(), []);
    });
}

/// A frame from this address, with these tags.
fn from(source: [u8; 4], tags: &[u16]) -> Vec<u8> {
    let plain = frame([203, 0, 113, 1], 1, 100);
    let mut tagged = plain[..12].to_vec();
    for tag in tags {
        tagged.extend([0x81, 0]);
        tagged.extend(tag.to_be_bytes());
    }
    let ip = tagged.len() + 2;
    tagged.extend(&plain[12..]);
    tagged[ip + 12..ip + 16].copy_from_slice(&source);
    tagged
}

/// The interface of frames in tests of programs is the loopback.
fn comes_in_at_loopback(gate: &mut Gate) {
    let one = 1u32.to_ne_bytes();
    gate.kernel().update("ports", &one, &one).unwrap();
}

#[test]
fn tags_of_a_bound_subscriber_are_compared_as_a_whole() {
    let Some(mut gate) = gate("tags_of_a_bound_subscriber_are_compared_as_a_whole") else {
        return;
    };
    let unlimited = draft(Means::Unlimited, &PolicyTree::queue());
    gate.kernel().put_plan(0, &unlimited.plan()).unwrap();
    comes_in_at_loopback(&mut gate);
    let all: [&[u16]; 4] = [&[], &[7], &[7, 8], &[8, 7]];
    for (bound, passes) in [((7, 0), 1), ((7, 8), 2), ((8, 7), 3)] {
        let binding = Binding {
            tags: Some(bound),
            ..Binding::default()
        };
        bind(&mut gate, binding.origin());
        for (number, tags) in all.iter().enumerate() {
            let frame = from([198, 51, 100, 1], tags);
            for (program, drop) in [("tc_up", 2), ("xdp_up", 1)] {
                let dropped = gate.offer(program, 1, &frame) == drop;
                assert_eq!(dropped, number != passes, "{program} {bound:?} {tags:?}");
            }
        }
    }
}

#[test]
fn only_known_sources_come_in_if_the_file_says_so() {
    let Some(mut gate) = gate("only_known_sources_come_in_if_the_file_says_so") else {
        return;
    };
    let unlimited = draft(Means::Unlimited, &PolicyTree::queue());
    gate.kernel().put_plan(0, &unlimited.plan()).unwrap();
    bind(&mut gate, Origin::default());
    let unknown = from([203, 0, 113, 9], &[]);
    let known = from([198, 51, 100, 1], &[]);
    let asks = from([0, 0, 0, 0], &[]);
    let mut link_local = unknown[..12].to_vec();
    link_local.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 40, 17, 64, 0xfe, 0x80]);
    link_local.resize(14 + 80, 1);
    let drops = |gate: &mut Gate, frame: &[u8]| {
        let tc = gate.offer("tc_up", 1, frame) == 2;
        assert_eq!(gate.offer("xdp_up", 1, frame) == 1, tc);
        assert_ne!(gate.offer("tc_down", 1, frame), 2);
        tc
    };
    for (sources, port) in [
        (Sources::Bound, true),
        (Sources::Known, false),
        (Sources::Known, true),
    ] {
        if port {
            comes_in_at_loopback(&mut gate);
        }
        gate.kernel()
            .set_settings(&Settings {
                sources,
                ..settings()
            })
            .unwrap();
        let strict = sources == Sources::Known && port;
        assert_eq!(drops(&mut gate, &unknown), strict);
        for frame in [&known, &asks, &link_local] {
            assert!(!drops(&mut gate, frame), "{frame:?}");
        }
        gate.kernel().map("ports").delete(&1u32.to_ne_bytes()).ok();
    }
    assert_eq!(counted(&mut gate, "unknown_source_dropped"), 2);
    // Hosts without an address have a low rate: two seconds' worth of 64 kbit/s at once.
    comes_in_at_loopback(&mut gate);
    let passed = (0..1_000)
        .filter(|_| gate.offer("tc_up", 1, &asks) != 2)
        .count();
    assert!((100..200).contains(&passed), "{passed}");
    assert_eq!(
        counted(&mut gate, "link_frames_dropped"),
        1_000 - passed as u64
    );
}
