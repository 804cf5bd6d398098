use std::net::SocketAddr;

use tidegate_limiter::{Decision, Marking, Rate, SingleRateBursts, SingleRateConfig};
use tidegate_trace::write::{Ends, TcpFrame};

use super::super::LinkPlan;
use super::{Layer, Stages};
use tidegate_lab::plan::{ElementKind, QueueKind};
use tidegate_lab::{MILLISECOND, SECOND};

const RATE: Rate = Rate::from_bits_per_second(10_000_000);

fn link(packets: u64) -> ElementKind {
    ElementKind::Link {
        rate: RATE,
        queue: QueueKind::DropTail {
            bytes: None,
            packets: Some(packets),
        },
    }
}

/// A frame of an IP packet of 1500 bytes.
fn frame(src: &str, dst: &str) -> Vec<u8> {
    let [src, dst]: [SocketAddr; 2] = [src, dst].map(|end| end.parse().unwrap());
    let headers = if src.is_ipv4() { 40 } else { 60 };
    let frame = TcpFrame {
        payload: 1500 - headers,
        ..TcpFrame::new(Ends { src, dst })
    };
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    bytes
}

/// When all frames under way leave, and whether they go forward.
fn departures(stages: &mut Stages) -> Vec<(u64, bool)> {
    std::iter::from_fn(|| stages.leave(SECOND))
        .map(|departure| (departure.due, departure.forward))
        .collect()
}

fn mixed() -> LinkPlan {
    LinkPlan {
        forward: vec![link(2)],
        round_trips: vec![
            ("192.0.2.16/28".parse().unwrap(), 10 * MILLISECOND),
            ("2001:db8::/64".parse().unwrap(), 40 * MILLISECOND),
        ],
        ..LinkPlan::default()
    }
}

#[test]
fn each_address_has_its_round_trip_and_all_share_the_link() {
    let mut stages = Stages::new(&mixed(), Layer::Frames).unwrap();
    for far in ["192.0.2.17:80", "192.0.2.40:80"] {
        stages.arrive(0, true, &frame("192.0.2.1:80", far));
    }
    stages.arrive(0, true, &frame("[2001:db8:1::1]:80", "[2001:db8::2]:80"));
    // 1514 · 8 bits take 1.2112 ms at 10 Mbit/s.
    let expected = [(1_211_200, true), (6_211_200, true), (21_211_200, true)];
    assert_eq!(departures(&mut stages), expected);
    // On the way back there is only the other half of the delay.
    stages.arrive(SECOND, false, &frame("192.0.2.17:80", "192.0.2.1:80"));
    stages.arrive(SECOND, false, &frame("192.0.2.40:80", "192.0.2.1:80"));
    let next: Vec<_> = std::iter::from_fn(|| stages.leave(2 * SECOND))
        .map(|departure| departure.due - SECOND)
        .collect();
    assert_eq!(next, [0, 5 * MILLISECOND]);
    assert!(stages.is_empty());
}

#[test]
fn what_has_no_place_is_dropped_and_counted() {
    let mut stages = Stages::new(&mixed(), Layer::Frames).unwrap();
    for _ in 0..5 {
        stages.arrive(0, true, &frame("192.0.2.1:80", "192.0.2.40:80"));
    }
    assert!(!stages.is_empty());
    assert_eq!(departures(&mut stages).len(), 3);
    assert_eq!(stages.dropped(), [2, 0]);
    let counts = &stages.counts(SECOND)[0];
    assert_eq!(
        (counts.packets, counts.bytes, counts.dropped),
        (5, 5 * 1514, 2)
    );
    assert!(stages.is_empty());
}

#[test]
fn what_is_not_ip_passes_at_once() {
    let mut stages = Stages::new(&mixed(), Layer::Frames).unwrap();
    let mut arp = frame("192.0.2.1:80", "192.0.2.17:80");
    arp[12..14].copy_from_slice(&[8, 6]);
    for frame in [&arp[..], &arp[..12], &arp[..13], &[]] {
        stages.arrive(7, true, frame);
        assert_eq!(stages.leave(7).unwrap().bytes, frame);
    }
    // Cut IP headers are not read.
    let whole = frame("192.0.2.1:80", "192.0.2.17:80");
    for length in 14..34 {
        stages.arrive(8, true, &whole[..length]);
        assert_eq!(stages.leave(8).unwrap().bytes, &whole[..length]);
    }
}

/// A limiter that re-marks packets above its committed burst of a byte: `yellow` what its excess burst takes, and `red` the rest.
fn re_marked(yellow: u8, red: u8) -> LinkPlan {
    let bursts = SingleRateBursts {
        committed: 1,
        excess: 0,
    };
    let marking = Marking {
        green: Decision::Pass,
        yellow: Decision::Mark(yellow),
        red: Decision::Mark(red),
    };
    let config = SingleRateConfig::new(RATE, bursts, marking).unwrap();
    LinkPlan {
        forward: vec![ElementKind::Limiter {
            config: config.into(),
            classes: None,
            overhead: 0,
        }],
        ..LinkPlan::default()
    }
}

#[test]
fn a_tagged_packet_is_re_marked_where_its_header_is() {
    let plan = re_marked(34, 1);
    let mut stages = Stages::new(&plan, Layer::Frames).unwrap();
    let mut tagged = frame("192.0.2.1:80", "192.0.2.17:80");
    tagged.splice(12..12, [0x81, 0, 0, 7]);
    stages.arrive(0, true, &tagged);
    let marked = stages.leave(0).unwrap().bytes;
    assert_eq!(marked[18 + 1], 1 << 2);
    assert_eq!(marked[..19], tagged[..19]);
    assert_eq!(stages.counts(SECOND)[0].marked, 1);
}

/// Some bytes of an IPv6 header at this place of a frame.
fn traffic_class(frame: &[u8], at: usize) -> u8 {
    frame[at] << 4 | frame[at + 1] >> 4
}

#[test]
fn ipv6_is_re_marked_in_its_traffic_class() {
    let plan = re_marked(10, 12);
    let mut packet = frame("[2001:db8:1::1]:80", "[2001:db8::2]:80").split_off(14);
    // ECT(1) and a flow label, which stay.
    packet[1..4].copy_from_slice(&[0x1a, 0xbc, 0xde]);
    let mut stages = Stages::new(&plan, Layer::Packets).unwrap();
    stages.arrive(0, true, &packet);
    let marked = stages.leave(0).unwrap().bytes;
    assert_eq!(traffic_class(&marked, 0), 12 << 2 | 1);
    assert_eq!(marked[..4], [0x63, 0x1a, 0xbc, 0xde]);
    assert_eq!(marked[4..], packet[4..]);
    assert_eq!(stages.counts(SECOND)[0].marked, 1);
}

#[test]
fn queues_mark_ipv6_as_they_mark_ipv4() {
    let plan = LinkPlan {
        forward: vec![ElementKind::Link {
            rate: RATE,
            queue: QueueKind::CoDel {
                target: 5 * MILLISECOND,
                interval: 100 * MILLISECOND,
                packets: 1000,
                ecn: true,
            },
        }],
        ..LinkPlan::default()
    };
    let mut counts = Vec::new();
    for (ends, at) in [
        (["192.0.2.1:80", "192.0.2.17:80"], [1, 0x02, 0x03]),
        (["[2001:db8:1::1]:80", "[2001:db8::2]:80"], [1, 0x20, 0x30]),
    ] {
        let mut packet = frame(ends[0], ends[1]).split_off(14);
        let [at, ect0, ce] = at;
        packet[usize::from(at)] |= ect0;
        let mut stages = Stages::new(&plan, Layer::Packets).unwrap();
        for _ in 0..400 {
            stages.arrive(0, true, &packet);
        }
        let left = std::iter::from_fn(|| stages.leave(SECOND));
        let left: Vec<u8> = left.map(|leaving| leaving.bytes[usize::from(at)]).collect();
        assert_eq!(left.len(), 400, "nothing is dropped");
        let marked = left.iter().filter(|&&byte| byte & ce == ce).count();
        assert_eq!(marked as u64, stages.counts(SECOND)[0].marked);
        counts.push(marked);
    }
    assert!(counts[0] > 0 && counts[0] == counts[1], "{counts:?}");
}

/// The first server has one flow, the second three: [Cake18 §III-C] divides by hosts first. Servers are the sources of
/// downloads, and the destinations of uploads.
#[test]
fn cake_shares_by_the_hosts_of_real_packets() {
    use tidegate_lab::scenario::elements;
    for (forward, isolation) in [(true, "dual-src"), (false, "dual-dst")] {
        let queue = format!("{{ kind = \"cake\", isolation = \"{isolation}\" }}");
        let words = ["link", "10mbit", "queue", &queue].map(str::to_owned);
        let read = elements(&words, 100 * MILLISECOND, &|_| Err(String::new())).unwrap();
        let way = vec![read[0].kind.clone()];
        let plan = match forward {
            true => LinkPlan {
                forward: way,
                ..LinkPlan::default()
            },
            false => LinkPlan {
                back: way,
                ..LinkPlan::default()
            },
        };
        let mut stages = Stages::new(&plan, Layer::Packets).unwrap();
        let servers = [
            "192.0.2.1:80",
            "192.0.2.9:80",
            "192.0.2.9:81",
            "192.0.2.9:82",
        ];
        for server in servers.repeat(50) {
            let packet = match forward {
                true => frame(server, "100.64.0.2:1000"),
                false => frame("100.64.0.2:1000", server),
            };
            stages.arrive(0, forward, &packet[14..]);
        }
        let left: Vec<_> = std::iter::from_fn(|| stages.leave(SECOND)).collect();
        let at = if forward { 15 } else { 19 };
        let first = left[..80].iter().filter(|packet| packet.bytes[at] == 1);
        let first = first.count();
        assert!((36..=44).contains(&first), "{first} of 80");
    }
}

/// A node of half the limiter's rate: phantom queues let half as much pass.
#[test]
fn nodes_limit_what_is_below_them() {
    use tidegate_lab::plan::NodePlan;
    use tidegate_lab::scenario::elements;
    let words = ["bc-pqp", "10mbit"].map(str::to_owned);
    let read = elements(&words, 20 * MILLISECOND, &|_| Err(String::new())).unwrap();
    let passed = |nodes: Vec<NodePlan>| {
        let plan = LinkPlan {
            forward: vec![read[0].kind.clone()],
            nodes,
            ..LinkPlan::default()
        };
        let mut stages = Stages::new(&plan, Layer::Packets).unwrap();
        let packet = frame("192.0.2.1:80", "192.0.2.17:80").split_off(14);
        // 20 Mbit/s for ten seconds.
        let times = (0..16_667).map(|number| number * 600_000);
        let passes = times.filter(|&at| {
            stages.arrive(at, true, &packet);
            stages.leave(at).is_some()
        });
        passes.count() as f64
    };
    let node = NodePlan {
        name: "site".into(),
        capacity: Rate::from_bits_per_second(5_000_000),
        above: None,
        limiters: vec![0],
    };
    let share = passed(vec![node]) / passed(Vec::new());
    assert!((0.4..0.6).contains(&share), "{share}");
}

#[test]
fn packets_without_ethernet_headers_are_the_same_packets() {
    let ends = [
        ("192.0.2.1:80", "192.0.2.17:80"),
        ("192.0.2.1:80", "192.0.2.40:80"),
        ("[2001:db8:1::1]:80", "[2001:db8::2]:80"),
    ];
    let mut frames = Stages::new(&mixed(), Layer::Frames).unwrap();
    let mut packets = Stages::new(&mixed(), Layer::Packets).unwrap();
    for (src, dst) in ends {
        let frame = frame(src, dst);
        frames.arrive(0, true, &frame);
        packets.arrive(0, true, &frame[14..]);
    }
    assert_eq!(packets.counts(0), frames.counts(0));
    assert_eq!(departures(&mut packets), departures(&mut frames));
    for cut in [&[][..], &[0x45], &[0x60; 39], &[0xff; 60]] {
        packets.arrive(SECOND, true, cut);
        assert_eq!(packets.leave(SECOND).unwrap().bytes, cut);
    }
}

#[test]
fn rules_sort_real_packets_in_both_directions() {
    use tidegate_lab::scenario::elements;
    let words = [
        "pqp",
        "1mbit",
        "queue",
        "1500B",
        "policy",
        "{ weighted = [[4, \"queue\"], [1, \"queue\"]] }",
        "rule",
        "[{ class = 0, remote-ports = \"80\" }]",
    ];
    let words = words.map(str::to_owned);
    let read = elements(&words, 0, &|_| Err(String::new())).unwrap();
    for (forward, back) in [
        (vec![read[0].kind.clone()], vec![]),
        (vec![], vec![read[0].kind.clone()]),
    ] {
        let is_forward = back.is_empty();
        let plan = LinkPlan {
            forward,
            back,
            ..LinkPlan::default()
        };
        let mut stages = Stages::new(&plan, Layer::Packets).unwrap();
        let mut passes = |server: &str| {
            let (server, client) = (server, "100.64.0.2:1000");
            let frame = match is_forward {
                true => frame(server, client),
                false => frame(client, server),
            };
            stages.arrive(0, is_forward, &frame[14..]);
            stages.leave(0).is_some()
        };
        // Each class has a queue for one packet.
        let wanted = [
            ("192.0.2.1:80", true),
            ("192.0.2.1:80", false),
            ("192.0.2.1:443", true),
        ];
        for (server, passed) in wanted {
            assert_eq!(passes(server), passed, "{server}");
        }
        assert_eq!(stages.counts(0)[0].samples.len(), 1);
    }
}
