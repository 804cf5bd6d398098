//! Tests outside of a machine's own address translation, where packets have its public address.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::{Duration, Instant};

use tidegate_testbed::namespace::Namespace;

use super::attach::attachment;
use super::*;
use crate::table::Hook;
use crate::testing::in_namespace;

/// Bytes of payload, and packets of this size that a bucket holds. Time stands still in these tests.
const PAYLOAD: usize = 100;
const DEPTH: u64 = 3;
const SENT: u64 = 10;

/// Subscribers: their addresses, and the network's host that they talk to. Limiters are numbered from there, down first.
const SUBSCRIBERS: [(&str, &str); 3] = [
    ("192.0.2.16", "198.51.100.1"),
    ("192.0.2.17", "198.51.100.1"),
    ("2001:db8:2::16", "2001:db8:1::1"),
];

/// A gate on the public side of a router (eth1) that gives all subscribers one address of each family.
struct Outside {
    gate: Gate,
    core: Namespace,
    home: Namespace,
}

fn outside(test: &str, run: impl FnOnce(Outside) + Send) {
    in_namespace(test, |router| {
        let [core, home] = [(); 2].map(|()| Namespace::new().expect("a network namespace"));
        router.veth("eth1", &core, "eth0").expect("a link");
        router.veth("eth2", &home, "eth0").expect("a link");
        for (space, device, addresses) in [
            (&core, "eth0", &["198.51.100.1/24", "2001:db8:1::1/64"][..]),
            (router, "eth1", &["198.51.100.2/24", "2001:db8:1::2/64"]),
            (router, "eth2", &["192.0.2.1/24", "2001:db8:2::1/64"]),
            (
                &home,
                "eth0",
                &["192.0.2.16/24", "192.0.2.17/24", "2001:db8:2::16/64"],
            ),
        ] {
            for address in addresses {
                let nodad = if address.contains("::") { " nodad" } else { "" };
                space
                    .ip(&format!("addr add {address} dev {device}{nodad}"))
                    .expect("an address");
            }
            space.ip(&format!("link set {device} up")).expect("up");
        }
        home.ip("route add default via 192.0.2.1").expect("a route");
        home.ip("-6 route add default via 2001:db8:2::1")
            .expect("a route");
        for forward in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            std::fs::write(format!("/proc/sys/net/{forward}"), "1").expect("forwarding");
        }
        let rules = "add table inet nat
            add chain inet nat out { type nat hook postrouting priority 100; }
            add rule inet nat out oifname eth1 masquerade
            add chain inet nat in { type nat hook prerouting priority -100; }
            add rule inet nat in iifname eth1 udp dport 7000 dnat ip to 192.0.2.17";
        let done = Command::new("nft").arg(rules).output().expect("nft");
        assert!(done.status.success(), "{done:?}");
        let Some(gate) = gate(test) else { return };
        let mut outside = Outside { gate, core, home };
        outside.limit();
        run(outside);
    });
}

/// Bytes of a datagram on layer 3.
fn bytes(address: &str) -> u64 {
    PAYLOAD as u64 + if address.contains(':') { 48 } else { 28 }
}

fn bound(space: &Namespace, address: &str, port: u16) -> UdpSocket {
    let socket = space.enter(|| UdpSocket::bind((address, port)));
    let socket = socket.expect("a namespace").expect("an address");
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a timeout");
    socket
}

impl Outside {
    fn limit(&mut self) {
        let kernel = self.gate.kernel();
        for (number, (address, _)) in SUBSCRIBERS.into_iter().enumerate() {
            let number = number as u32;
            let burst = DEPTH * bytes(address);
            let policed = draft(Means::Policer { burst }, &PolicyTree::queue());
            kernel.put_plan(number, &policed.plan()).unwrap();
            let seats = PerDirection::new(|direction| Seat {
                limiter: 2 * number + direction as u32,
                plan: number,
                version: 1,
                ..Seat::default()
            });
            let matched = Match::Prefix(address.parse().unwrap());
            kernel.seat_both(&[(matched, seats)]).unwrap();
        }
        for (hook, direction) in [
            (Hook::NatIngress, Direction::Down),
            (Hook::NatEgress, Direction::Up),
        ] {
            let place = attachment("eth1", hook, direction);
            kernel.attach(&place).unwrap();
            assert!(kernel.attachments().contains(&place));
        }
        self.time(1);
    }

    fn time(&mut self, seconds: u64) {
        let now = (seconds * 1_000_000_000).to_ne_bytes();
        let kernel = self.gate.kernel();
        kernel.update("test_time", &[0; 4], &now).unwrap();
    }

    /// What passed of a limiter, once it has seen this many packets.
    fn passed(&mut self, limiter: u32, seen: u64) -> u64 {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let counters = self.gate.kernel().read(limiter).unwrap().counters;
            if counters.passed_packets + counters.excess_packets >= seen {
                assert_eq!(counters.passed_packets + counters.excess_packets, seen);
                return counters.passed_packets;
            }
            assert!(Instant::now() < end, "{limiter}: {counters:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn subscribers_behind_one_address_are_told_apart_outside() {
    outside(
        "subscribers_behind_one_address_are_told_apart_outside",
        |mut outside| {
            let mut public = Vec::new();
            for (number, (address, there)) in SUBSCRIBERS.into_iter().enumerate() {
                // All of them use the same ports.
                let inside = bound(&outside.home, address, 5000);
                let host = bound(&outside.core, there, 9000 + number as u16);
                let to = (there, 9000 + number as u16);
                for _ in 0..SENT {
                    inside.send_to(&[0; PAYLOAD], to).unwrap();
                }
                let (_, seen) = host.recv_from(&mut [0; PAYLOAD]).unwrap();
                assert_ne!(seen.ip().to_string(), address);
                public.push(seen.ip());
                for _ in 0..SENT {
                    host.send_to(&[0; PAYLOAD], seen).unwrap();
                }
                for way in [0, 1] {
                    let limiter = 2 * number as u32 + way;
                    assert_eq!(outside.passed(limiter, SENT), DEPTH, "{address}, way {way}");
                }
            }
            assert_eq!(public[0], public[1]);

            // A port of the public address that leads to the second subscriber, who answers. The kernel knows the
            // connection from the second packet on.
            outside.time(20);
            let inside = bound(&outside.home, "192.0.2.17", 7000);
            let host = bound(&outside.core, "198.51.100.1", 9010);
            let forwarded = ("198.51.100.2", 7000);
            host.send_to(&[0; PAYLOAD], forwarded).unwrap();
            let (_, seen) = inside.recv_from(&mut [0; PAYLOAD]).unwrap();
            for _ in 0..SENT {
                host.send_to(&[0; PAYLOAD], forwarded).unwrap();
                inside.send_to(&[0; PAYLOAD], seen).unwrap();
            }
            for limiter in [2, 3] {
                assert_eq!(outside.passed(limiter, 2 * SENT), 2 * DEPTH, "{limiter}");
            }
            // Nobody else's was used.
            assert_eq!(outside.passed(0, SENT), DEPTH);
        },
    );
}

#[test]
#[ignore = "measures"]
fn the_cost_of_a_translated_packet() {
    outside("the_cost_of_a_translated_packet", |mut outside| {
        let inside = bound(&outside.home, "192.0.2.16", 5000);
        let host = bound(&outside.core, "198.51.100.1", 9000);
        inside.send_to(&[0; 1], ("198.51.100.1", 9000)).unwrap();
        let (_, seen) = host.recv_from(&mut [0; PAYLOAD]).unwrap();
        let to = |address: [u8; 4], port: u16| {
            let mut frame = frame(address, 9000, 128);
            frame[36..38].copy_from_slice(&port.to_be_bytes());
            frame
        };
        let frames = [
            ("tc_down", "not translated", to([192, 0, 2, 16], 5000)),
            (
                "tc_down",
                "of no subscriber",
                to([198, 51, 100, 2], seen.port()),
            ),
            (
                "nat_down",
                "of a connection",
                to([198, 51, 100, 2], seen.port()),
            ),
            ("nat_down", "of none", to([198, 51, 100, 2], 9)),
        ];
        for (program, what, frame) in frames {
            let program = outside.gate.program(program);
            let turns = (0..20).map(|_| {
                let before = Instant::now();
                sys::test_run(program.as_raw_fd(), &frame, 100_000).unwrap();
                before.elapsed().as_nanos() as f64 / 1e5
            });
            let least = turns.fold(f64::MAX, f64::min);
            println!("{what} {least:.1} ns");
        }
        outside.time(1);
    });
}
