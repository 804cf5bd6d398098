use tidegate_trace::wire::Timestamps;

use super::*;
use crate::testing::*;

#[test]
fn connections_are_distinct() {
    let plan = plan(vec![], (0..300).map(|_| bulk(None)).collect());
    let mut clients = std::collections::BTreeSet::new();
    for flow in 0..300 {
        let wire = Wire::new(&plan, flow);
        for number in 0..20 {
            let connection = wire.connection(number);
            assert_eq!(connection, wire.connection(number));
            assert!(clients.insert(connection.client));
            assert_eq!(connection.server, ([10, 0, 0, 1], 443).into());
        }
    }
    let first = Wire::new(&plan, 0).connection(0);
    assert_eq!(first.client.ip(), std::net::Ipv4Addr::new(10, 128, 0, 1));
    let mut other = plan.clone();
    other.seed = 2;
    assert_ne!(
        first.server_isn,
        Wire::new(&other, 0).connection(0).server_isn
    );
    assert_ne!(first.hash, Wire::new(&other, 0).connection(0).hash);
}

#[test]
fn windows_are_scaled_to_fit() {
    for (window, scale) in [(65_535, 0), (65_536, 1), (6 << 20, 7), (u32::MAX, 14)] {
        assert_eq!(window_scale(window), scale, "{window}");
    }
}

/// The frame's length is the one that the packet was charged for, with every set of options.
#[test]
fn frames_are_as_long_as_their_packets() {
    for (sack, timestamps) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut flow = bulk(None);
        (flow.tcp.sack, flow.tcp.timestamps) = (sack, timestamps);
        let config = flow.tcp.clone();
        let wire = Wire::new(&plan(vec![], vec![flow]), 0);
        for (syn, ranges, payload) in [(true, 0, 0), (false, 0, 1448), (false, 3, 0), (false, 1, 9)]
        {
            let mut segment = Segment {
                syn,
                payload,
                timestamps: timestamps.then_some(Timestamps { value: 1, echo: 2 }),
                ..Segment::default()
            };
            for range in 0..ranges {
                segment.sacks.push(range * 10..range * 10 + 5);
            }
            let packet = Packet::new(0, false, tcp_length(&segment, &config), segment);
            let length = wire.encode(&packet, usize::MAX, &mut Vec::new());
            assert_eq!(length, packet.bytes + 14, "{config:?} {segment:?}");
        }
    }
}

/// A capture shows the values that rules see: the server's address and port, and the code point, in
/// both directions.
#[test]
fn frames_say_what_rules_go_by() {
    for mut flow in [bulk(None), datagrams(1_000_000, 1000)] {
        (flow.address, flow.port) = (Some([192, 0, 2, 7].into()), 8080);
        let plan = plan(vec![], vec![flow]);
        let wire = Wire::new(&plan, 0);
        let server = ([192, 0, 2, 7], 8080).into();
        let client = wire.connection(0).client;
        for forward in [true, false] {
            let mut packet = Packet::new(0, forward, 1000, Segment::default());
            packet.dscp = 46;
            let mut frame = Vec::new();
            wire.encode(&packet, usize::MAX, &mut frame);
            let address = |at: usize, port: usize| {
                let ip = Ipv4Addr::new(frame[at], frame[at + 1], frame[at + 2], frame[at + 3]);
                SocketAddr::from((ip, u16::from_be_bytes([frame[port], frame[port + 1]])))
            };
            let ends = [address(26, 34), address(30, 36)];
            let wanted = if forward {
                [server, client]
            } else {
                [client, server]
            };
            assert_eq!((ends, frame[15] >> 2), (wanted, 46));
        }
        let key = wire.key(0, 46);
        let ports = Ports {
            source: 8080,
            destination: client.port(),
        };
        assert_eq!((key.ports, key.dscp), (Some(ports), 46));
        assert_eq!(key.hash(hash_key(plan.seed)), wire.connection(0).hash);
    }
}
