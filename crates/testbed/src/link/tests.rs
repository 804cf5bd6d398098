use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_limiter::Rate;
use tidegate_trace::read::Capture;

use super::{Ends, Link, LinkPlan, TestbedError};
use crate::namespace::Namespace;
use crate::testing::{alone, permitted};
use tidegate_lab::plan::{ElementKind, QueueKind};
use tidegate_lab::{MILLISECOND, SECOND};

/// A server (192.0.2.1), a client of two addresses (.17 and .33), and a link between.
fn street(test: &str, plan: &LinkPlan) -> Option<(Namespace, Namespace, Link)> {
    let make = || {
        let (server, client) = (Namespace::new()?, Namespace::new()?);
        let link = Link::new(
            Ends {
                near: server.port("eth0")?,
                far: client.port("eth0")?,
            },
            plan,
        )?;
        server.address("eth0", [192, 0, 2, 1].into(), 24)?;
        client.address("eth0", [192, 0, 2, 17].into(), 24)?;
        client.address("eth0", [192, 0, 2, 33].into(), 24)?;
        Ok((server, client, link))
    };
    permitted(test, make()).map(Result::unwrap)
}

fn round_trip(far: &str, delay: u64) -> LinkPlan {
    LinkPlan {
        round_trips: vec![(far.parse().unwrap(), delay)],
        ..LinkPlan::default()
    }
}

/// The fastest of some exchanges between the server and this address of the client.
fn fastest(server: &Namespace, client: &Namespace, address: &str) -> Duration {
    let there = format!("{address}:7");
    let far = client.enter(|| UdpSocket::bind(&there)).unwrap().unwrap();
    let near = server.enter(|| UdpSocket::bind("192.0.2.1:0")).unwrap();
    let near = near.unwrap();
    near.connect(there).unwrap();
    let exchange = || {
        let began = Instant::now();
        near.send(&[0]).unwrap();
        let from = far.recv_from(&mut [0]).unwrap().1;
        far.send_to(&[0], from).unwrap();
        near.recv(&mut [0]).unwrap();
        began.elapsed()
    };
    (0..5).map(|_| exchange()).min().unwrap()
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn round_trips_differ_by_address_and_change_when_told() {
    let _alone = alone();
    let test = "round_trips_differ_by_address_and_change_when_told";
    let delay = 30 * MILLISECOND;
    let Some((server, client, link)) = street(test, &round_trip("192.0.2.33", delay)) else {
        return;
    };
    let ms = Duration::from_millis;
    let slow = fastest(&server, &client, "192.0.2.33");
    assert!((ms(30)..ms(34)).contains(&slow), "{slow:?}");
    assert!(fastest(&server, &client, "192.0.2.17") < ms(4));
    link.set(&round_trip("192.0.2.17", 3 * delay)).unwrap();
    let slower = fastest(&server, &client, "192.0.2.17");
    assert!((ms(90)..ms(94)).contains(&slower), "{slower:?}");
    let report = link.finish().unwrap();
    assert_eq!((report.strays, report.dropped), (0, [0, 0]));
    assert_eq!(report.packets, report.passed);
    assert!(report.packets[0] >= 15, "{report:?}");
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn tcp_gets_the_rate_of_the_link_and_a_tap_sees_it() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("server.pcap");
    let mut plan = round_trip("192.0.2.0/24", 20 * MILLISECOND);
    plan.forward = vec![
        ElementKind::Tap { snaplen: 96 },
        ElementKind::Link {
            rate: Rate::from_bits_per_second(20_000_000),
            queue: QueueKind::DropTail {
                bytes: None,
                packets: Some(40),
            },
        },
    ];
    plan.captures = vec![file.clone()];
    let test = "tcp_gets_the_rate_of_the_link_and_a_tap_sees_it";
    let Some((server, client, link)) = street(test, &plan) else {
        return;
    };
    let listener = server.enter(|| TcpListener::bind("192.0.2.1:80")).unwrap();
    let listener = listener.unwrap();
    let stop = Instant::now() + Duration::from_secs(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            // The client goes first.
            while stream.write_all(&[0; 1 << 14]).is_ok() {}
        });
        let mut stream = client
            .enter(|| TcpStream::connect("192.0.2.1:80"))
            .unwrap()
            .unwrap();
        let (mut received, mut buffer) = (0, [0; 1 << 14]);
        while Instant::now() < stop {
            received += stream.read(&mut buffer).unwrap();
        }
        // 2 s of 20 Mbit/s are 4.78 MB of data.
        assert!((4_000_000..4_800_000).contains(&received), "{received}");
    });
    let report = link.finish().unwrap();
    assert_eq!(report.strays, 0);
    let [tap, rate] = &report.elements[..] else {
        panic!("{report:?}");
    };
    assert!(rate.dropped > 0, "{report:?}");
    assert!(report.passed[0] + rate.dropped <= report.packets[0]);
    let mut capture = Capture::new(File::open(file).unwrap()).unwrap();
    let (mut frames, mut last) = (0, 0);
    while let Some(frame) = capture.frame().unwrap() {
        frames += 1;
        last = frame.at;
    }
    assert_eq!(frames, tap.packets);
    // Of this century, and no later than now.
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    assert!((now - 10 * SECOND..=now).contains(&last), "{last} at {now}");
}

#[test]
#[ignore = "takes seconds of real time: make test-realtime"]
fn a_plan_that_contradicts_itself_is_refused() {
    let _alone = alone();
    let test = "a_plan_that_contradicts_itself_is_refused";
    let loss = |probability| LinkPlan {
        back: vec![ElementKind::Loss {
            probability,
            burst: 1.0,
        }],
        ..LinkPlan::default()
    };
    let Some((.., link)) = street(test, &loss(0.5)) else {
        return;
    };
    assert!(matches!(link.set(&loss(1.5)), Err(TestbedError::Plan(_))));
    let tap = LinkPlan {
        forward: vec![ElementKind::Tap { snaplen: 96 }],
        ..LinkPlan::default()
    };
    assert!(matches!(link.set(&tap), Err(TestbedError::Unsupported(_))));
}
