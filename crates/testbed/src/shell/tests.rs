use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use tidegate_lab::MILLISECOND;
use tidegate_lab::plan::{ElementKind, QueueKind};
use tidegate_limiter::{PolicerConfig, Rate};

use super::Shell;
use crate::TestbedError;
use crate::link::LinkPlan;
use crate::namespace::Namespace;
use crate::testing::{alone, permitted};

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const SERVER6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

/// A machine on which shells are opened, and a server beside it.
struct Place {
    outside: Namespace,
    server: Namespace,
}

fn place(test: &str) -> Option<Place> {
    let make = || {
        let (outside, server) = (Namespace::new()?, Namespace::new()?);
        outside.veth("wan", &server, "eth0")?;
        server.address("eth0", SERVER, 24)?;
        server.address("eth0", SERVER6, 64)?;
        outside.address("wan", [192, 0, 2, 2].into(), 24)?;
        outside.address("wan", "2001:db8::2".parse().unwrap(), 64)?;
        Ok(Place { outside, server })
    };
    permitted(test, make()).map(Result::unwrap)
}

impl Place {
    fn open(&self, plan: &LinkPlan) -> Shell {
        self.outside.enter(|| Shell::open(plan)).unwrap().unwrap()
    }

    /// Devices and tables of shells that are there.
    fn left(&self) -> String {
        let devices = self.outside.run("ip", "-brief link").unwrap();
        let devices: String = devices
            .lines()
            .filter(|line| line.starts_with("tg"))
            .collect();
        devices + &self.outside.run("nft", "list tables").unwrap()
    }
}

fn delayed(delay: u64) -> LinkPlan {
    let delay = ElementKind::Delay { delay, jitter: 0 };
    LinkPlan {
        forward: vec![delay.clone()],
        back: vec![delay],
        ..LinkPlan::default()
    }
}

/// The fastest of some exchanges with a server outside.
fn fastest(shell: &Shell, server: &Namespace, address: IpAddr) -> Duration {
    let there = SocketAddr::new(address, 7);
    let far = server.enter(|| UdpSocket::bind(there)).unwrap().unwrap();
    let any: SocketAddr = match address {
        IpAddr::V4(_) => "0.0.0.0:0".parse().unwrap(),
        IpAddr::V6(_) => "[::]:0".parse().unwrap(),
    };
    let near = shell.enter(|| UdpSocket::bind(any)).unwrap().unwrap();
    near.connect(there).unwrap();
    let wait = Some(Duration::from_secs(5));
    near.set_read_timeout(wait).unwrap();
    far.set_read_timeout(wait).unwrap();
    let exchange = || {
        let began = Instant::now();
        near.send(&[0]).unwrap();
        let from = far.recv_from(&mut [0]).unwrap().1;
        // The server sees the machine, not the shell.
        assert!(
            ["192.0.2.2", "2001:db8::2"]
                .map(|own| own.parse().unwrap())
                .contains(&from.ip())
        );
        far.send_to(&[0], from).unwrap();
        near.recv(&mut [0]).unwrap();
        began.elapsed()
    };
    (0..5).map(|_| exchange()).min().unwrap()
}

#[test]
fn round_trips_are_as_set_and_nothing_stays() {
    let _alone = alone();
    let Some(place) = place("round_trips_are_as_set_and_nothing_stays") else {
        return;
    };
    let shell = place.open(&delayed(10 * MILLISECOND));
    assert!(place.left().contains("tg0") && place.left().contains("table ip6 tidegate-tg0"));
    for address in [SERVER, SERVER6] {
        let fastest = fastest(&shell, &place.server, address);
        // The bound above is wide, because the machine may be busy.
        let range = Duration::from_millis(20)..Duration::from_millis(60);
        assert!(range.contains(&fastest), "{address}: {fastest:?}");
    }
    // Forwarding is off, and was never on.
    let forwarding = || std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward");
    assert_eq!(place.outside.enter(forwarding).unwrap().unwrap(), "0\n");
    let report = shell.finish().unwrap();
    assert_eq!((report.strays, report.dropped), (0, [0, 0]));
    assert_eq!(place.left(), "");
}

#[test]
fn an_unreachable_address_is_reported_at_once_and_the_machine_itself_is_reached() {
    let _alone = alone();
    let test = "an_unreachable_address_is_reported_at_once_and_the_machine_itself_is_reached";
    let Some(place) = place(test) else {
        return;
    };
    let shell = place.open(&delayed(MILLISECOND));
    for away in ["203.0.113.1:9", "[2001:db9::1]:9"] {
        let connect = || TcpStream::connect(away);
        let error = shell.enter(connect).unwrap().unwrap_err();
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::NetworkUnreachable,
            "{away}"
        );
    }
    // A server on this machine sees the shell's address.
    let listen = || TcpListener::bind("0.0.0.0:8080");
    let listener = place.outside.enter(listen).unwrap().unwrap();
    for address in [shell.gateway(), "192.0.2.2".parse().unwrap()] {
        let connect = || TcpStream::connect((address, 8080));
        let mut stream = shell.enter(connect).unwrap().unwrap();
        stream.write_all(b"hello").unwrap();
        drop(stream);
        let (mut accepted, from) = listener.accept().unwrap();
        let mut text = String::new();
        accepted.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), from.ip()), ("hello", shell.address()));
    }
}

#[test]
fn shells_stand_side_by_side_and_within_each_other() {
    let _alone = alone();
    let Some(place) = place("shells_stand_side_by_side_and_within_each_other") else {
        return;
    };
    let first = place.open(&delayed(5 * MILLISECOND));
    let second = place.open(&delayed(10 * MILLISECOND));
    let within = first.enter(|| Shell::open(&delayed(10 * MILLISECOND)));
    let within = within.unwrap().unwrap();
    let addresses = [&first, &second, &within].map(Shell::address);
    assert!(
        addresses[0] != addresses[1] && addresses[0] != addresses[2],
        "{addresses:?}"
    );
    let times = [&first, &second, &within].map(|shell| fastest(shell, &place.server, SERVER));
    for (time, least) in times.into_iter().zip([10, 20, 30]) {
        assert!(time >= Duration::from_millis(least), "{times:?}");
    }
    assert!(times[0] < times[2], "{times:?}");
    drop(within);
    drop(first);
    drop(second);
    assert_eq!(place.left(), "");
}

/// RFC 6724 §6, rule 5: the source's label is to match the destination's. That of unique local addresses matches no server's.
#[test]
fn packets_have_a_global_address_where_the_machine_has_one() {
    let _alone = alone();
    let Some(place) = place("packets_have_a_global_address_where_the_machine_has_one") else {
        return;
    };
    let source = |to: &str| {
        let shell = place.open(&LinkPlan::default());
        let own = || {
            let socket = UdpSocket::bind("[::]:0").unwrap();
            socket.connect((to, 7)).unwrap();
            socket.local_addr().unwrap().ip().to_string()
        };
        shell.enter(own).unwrap()
    };
    assert_eq!(source("2001:db8::1"), "2001:2::2");
    place
        .outside
        .run("ip", "-6 address flush dev wan scope global")
        .unwrap();
    assert_eq!(source("2001:db8::1"), "fd74:6964:6567::2");
}

#[test]
fn rules_for_output_that_drop_replies_are_seen() {
    let _alone = alone();
    let Some(place) = place("rules_for_output_that_drop_replies_are_seen") else {
        return;
    };
    let nft = |command: &str| place.outside.run("nft", command).unwrap();
    let is_filtered = || place.open(&LinkPlan::default()).is_filtered();
    assert!(!is_filtered());
    nft("add table inet filter");
    nft("add chain inet filter output { type filter hook output priority 0; policy drop; }");
    nft("add rule inet filter output ct state established,related accept");
    assert!(is_filtered());
    nft("insert rule inet filter output oifname \"tg*\" accept");
    let shell = place.open(&LinkPlan::default());
    assert!(!shell.is_filtered());
    // The packet that asked is not one of the shell's.
    assert_eq!(shell.finish().unwrap().packets[0], 0);
}

/// A request for a report fails at once, and not after the time for an answer.
#[test]
fn a_link_that_fails_says_so_at_once() {
    let _alone = alone();
    let Some(place) = place("a_link_that_fails_says_so_at_once") else {
        return;
    };
    let shell = place.open(&LinkPlan::default());
    let began = Instant::now();
    place.outside.run("ip", "link delete tg0").unwrap();
    while shell.report().is_ok() {
        assert!(began.elapsed() < Duration::from_secs(3));
    }
    shell.finish().unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(3));
}

#[test]
fn fifty_shells_leave_nothing() {
    let _alone = alone();
    let Some(place) = place("fifty_shells_leave_nothing") else {
        return;
    };
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    for _ in 0..50 {
        drop(place.open(&LinkPlan::default()));
    }
    assert_eq!(place.left(), "");
    // Other tests open files meanwhile. One for each shell would be 50.
    let after = descriptors();
    assert!(after < before + 40, "{before} descriptors became {after}");
}

#[test]
fn what_contradicts_itself_leaves_nothing() {
    let _alone = alone();
    let Some(place) = place("what_contradicts_itself_leaves_nothing") else {
        return;
    };
    let plan = LinkPlan {
        forward: vec![ElementKind::Loss {
            probability: 1.5,
            burst: 1.0,
        }],
        ..LinkPlan::default()
    };
    let error = place.outside.enter(|| Shell::open(&plan)).unwrap();
    assert!(matches!(error, Err(TestbedError::Plan(_))));
    assert_eq!(place.left(), "");
}

/// Downloads for some seconds, and returns the rate of IP packets that passed to the shell, in bit/s.
fn rate(place: &Place, limiter: ElementKind, address: IpAddr) -> f64 {
    let mut plan = delayed(5 * MILLISECOND);
    plan.forward.push(limiter);
    let shell = place.open(&plan);
    let there = SocketAddr::new(address, 80);
    let listener = place
        .server
        .enter(|| TcpListener::bind(there))
        .unwrap()
        .unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(&[0; 1 << 14]).is_ok() {}
        });
        let mut stream = shell.enter(|| TcpStream::connect(there)).unwrap().unwrap();
        let mut buffer = [0; 1 << 14];
        let mut until = |time: u64, received: &mut u64| {
            let end = Instant::now() + Duration::from_secs(time);
            while Instant::now() < end {
                *received += stream.read(&mut buffer).unwrap() as u64;
            }
        };
        // Slow start is over.
        until(2, &mut 0);
        let passed = |report: crate::link::LinkReport| {
            let element = &report.elements[1];
            element.bytes - element.dropped_bytes
        };
        let (began, before) = (Instant::now(), passed(shell.report().unwrap()));
        until(5, &mut 0);
        let bytes = passed(shell.report().unwrap()) - before;
        bytes as f64 * 8.0 / began.elapsed().as_secs_f64()
    })
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn downloads_have_the_rate_of_the_limiter() {
    let _alone = alone();
    let Some(place) = place("downloads_have_the_rate_of_the_limiter") else {
        return;
    };
    let mbit = |rate: u64| Rate::from_bits_per_second(rate * 1_000_000);
    let policer = PolicerConfig::new(mbit(10), 100_000).unwrap();
    let policer = ElementKind::Limiter {
        config: policer.into(),
        classes: None,
        overhead: 0,
    };
    let link = ElementKind::Link {
        rate: mbit(20),
        queue: QueueKind::DropTail {
            bytes: None,
            packets: Some(50),
        },
    };
    for (limiter, address, wanted) in [(policer, SERVER, 10e6), (link, SERVER6, 20e6)] {
        let measured = rate(&place, limiter, address);
        assert!(
            (measured / wanted - 1.0).abs() < 0.01,
            "{measured} of {wanted}"
        );
    }
}
