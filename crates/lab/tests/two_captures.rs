//! Two captures of the same simulated transfers, and the result of `trace::pair` for them. The
//! simulation gives the truth: the settings of its elements, their drops, and its one clock.

#![allow(clippy::unwrap_used)]

use tidegate_lab::plan::{ElementKind, ElementPlan, FlowPlan, Plan, QueueKind, Traffic};
use tidegate_lab::tcp::TcpConfig;
use tidegate_lab::{MILLISECOND, Nanos, Observer, SECOND, TappedPacket, run};
use tidegate_limiter::{PolicerConfig, Rate};
use tidegate_trace::pair::{Between, Diagnosis, Gathered, Order, Way};
use tidegate_trace::read::{Frame, LinkType};
use tidegate_trace::wire::{Packet, decode};

/// Captures begin here.
const EPOCH: Nanos = 1_600_000_000 * SECOND;

/// A frame of a capture.
#[derive(Debug, Clone)]
struct Captured {
    at: Nanos,
    bytes: Vec<u8>,
    wire_len: u32,
}

/// The packets that two taps saw.
#[derive(Default)]
struct Taps {
    places: [usize; 2],
    captures: [Vec<Captured>; 2],
}

impl Observer for Taps {
    fn progress(&mut self, _: Nanos) -> bool {
        true
    }

    fn packet(&mut self, packet: &TappedPacket<'_>) {
        let place = self.places.iter().position(|&tap| tap == packet.element);
        self.captures[place.unwrap()].push(Captured {
            at: EPOCH + packet.at,
            bytes: packet.frame.to_vec(),
            wire_len: packet.length,
        });
    }
}

fn mbit(rate: u64) -> Rate {
    Rate::from_bits_per_second(rate * 1_000_000)
}

fn policer(rate: u64, burst: u64) -> ElementKind {
    ElementKind::Limiter {
        config: PolicerConfig::new(mbit(rate), burst).unwrap().into(),
        classes: None,
        overhead: 0,
    }
}

fn link(rate: u64, bytes: u64) -> ElementKind {
    let queue = QueueKind::DropTail {
        bytes: Some(bytes),
        packets: None,
    };
    let rate = mbit(rate);
    ElementKind::Link { rate, queue }
}

fn delay(delay: Nanos) -> ElementKind {
    ElementKind::Delay { delay, jitter: 0 }
}

/// A link of 1 Gbit/s with room for everything.
fn access() -> ElementKind {
    link(1000, 100_000_000)
}

/// The elements before, between and behind the two taps.
#[derive(Default)]
struct Path {
    before: Vec<ElementKind>,
    between: Vec<ElementKind>,
    behind: Vec<ElementKind>,
}

fn between(elements: Vec<ElementKind>) -> Path {
    Path {
        between: elements,
        ..Path::default()
    }
}

/// Downloads from a server over a path. Acknowledgements pass its delays too. Returns the captures,
/// and how many packets were dropped before, between and behind the taps.
fn captures(path: Path, flows: usize, seconds: u64) -> ([Vec<Captured>; 2], [u64; 3]) {
    let tap = || ElementKind::Tap { snaplen: 128 };
    let mut kinds = vec![access()];
    kinds.extend(path.before);
    let first = kinds.len();
    kinds.push(tap());
    kinds.extend(path.between);
    let second = kinds.len();
    kinds.push(tap());
    kinds.extend(path.behind);
    let returns =
        |kind: &ElementKind| matches!(kind, ElementKind::Delay { .. } | ElementKind::Tap { .. });
    let flow = |i: usize| FlowPlan {
        name: format!("download-{i}"),
        aggregate: 0,
        forward: (0..kinds.len()).collect(),
        back: (0..kinds.len())
            .rev()
            .filter(|&i| returns(&kinds[i]))
            .collect(),
        delay: 0,
        class: None,
        queue: None,
        dscp: 0,
        address: None,
        port: 443,
        client: None,
        start: i as u64 * 100 * MILLISECOND,
        traffic: Traffic::Bulk { bytes: None },
        tcp: TcpConfig::default(),
    };
    let named = |(i, kind): (usize, &ElementKind)| ElementPlan {
        name: format!("element-{i}"),
        kind: kind.clone(),
    };
    let plan = Plan {
        seed: 7,
        duration: seconds * SECOND,
        window: SECOND,
        sample: None,
        connections: None,
        aggregates: vec!["all".into()],
        nodes: Vec::new(),
        flows: (0..flows).map(flow).collect(),
        elements: kinds.iter().enumerate().map(named).collect(),
    };
    let mut taps = Taps {
        places: [first, second],
        ..Taps::default()
    };
    let outcome = run(&plan, &mut taps).unwrap();
    let mut dropped = [0; 3];
    for element in &outcome.elements {
        let index: usize = element.name["element-".len()..].parse().unwrap();
        dropped[usize::from(index > first) + usize::from(index > second)] += element.dropped;
    }
    (taps.captures, dropped)
}

/// The capture by a clock that was `ahead` at its beginning and gains `ppm` parts in a million.
fn by_another_clock(capture: &[Captured], ahead: Nanos, ppm: u64) -> Vec<Captured> {
    let mut capture = capture.to_vec();
    for captured in &mut capture {
        captured.at += ahead + (captured.at - EPOCH) * ppm / 1_000_000;
    }
    capture
}

/// The capture as if clients were behind address translation, which also renumbers packets.
fn translated(capture: &[Captured]) -> Vec<Captured> {
    let mut capture = capture.to_vec();
    for (i, captured) in capture.iter_mut().enumerate() {
        let bytes = &mut captured.bytes;
        bytes[18..20].copy_from_slice(&(i as u16).to_be_bytes());
        bytes[22] -= 3;
        // Clients are in 10.128.0.0/9.
        for (address, port) in [(26, 34), (30, 36)] {
            if bytes[address + 1] >= 128 {
                bytes[address..address + 4].copy_from_slice(&[203, 0, 113, 9]);
                bytes[port] ^= 0x40;
            }
        }
    }
    capture
}

fn packet(captured: &Captured) -> Packet {
    decode(&Frame {
        outbound: None,
        at: captured.at,
        link: LinkType::ETHERNET,
        data: &captured.bytes,
        wire_len: captured.wire_len,
    })
    .unwrap()
}

/// The capture with data packets that follow each other within `gap` as one super-packet, as a host
/// hands them to its network card (with the time of the first) or gets them (of the last).
fn as_super_packets(capture: &[Captured], gap: Nanos, time_of_last: bool) -> Vec<Captured> {
    let mut merged: Vec<(Captured, Packet, Nanos)> = Vec::new();
    for captured in capture {
        let next = packet(captured);
        if let Some((super_packet, held, last)) = merged.last_mut()
            && (held.src, held.ack, held.options.timestamps)
                == (next.src, next.ack, next.options.timestamps)
            && held.payload % 1448 == 0
            && next.payload > 0
            && held.seq.wrapping_add(held.payload) == next.seq
            && captured.at - *last <= gap
            && held.payload < 60_000
        {
            held.payload += next.payload;
            super_packet.wire_len += next.payload;
            *last = captured.at;
            if time_of_last {
                super_packet.at = captured.at;
            }
            let length = (held.payload + u32::from(held.headers)) as u16;
            super_packet.bytes[16..18].copy_from_slice(&length.to_be_bytes());
            continue;
        }
        merged.push((captured.clone(), next, captured.at));
    }
    merged.into_iter().map(|(captured, ..)| captured).collect()
}

fn gather(capture: &[Captured]) -> Gathered {
    let mut gathered = Gathered::default();
    for captured in capture {
        gathered.frame(&Frame {
            outbound: None,
            at: captured.at,
            link: LinkType::ETHERNET,
            data: &captured.bytes,
            wire_len: captured.wire_len,
        });
    }
    gathered
}

fn diagnose([a, b]: &[Vec<Captured>; 2]) -> Diagnosis {
    Diagnosis::new(gather(a), gather(b))
}

/// From bytes on the link to bytes of IP packets, which limiters here count: full packets of 1,500 bytes
/// with headers and check sequence of Ethernet.
const IP_SHARE: f64 = 1500.0 / 1518.0;

/// Checks that a limiter was found, within `rate_error` and `depth_error`, and that the intervals hold the
/// truth. Mbit/s and bytes of IP packets.
#[track_caller]
fn assert_limiter(way: &Way, (rate, rate_error): (f64, f64), (depth, depth_error): (f64, f64)) {
    let found = way.fits.explaining_bucket().unwrap();
    let found_rate = found.bucket.rate * 8e-6 * IP_SHARE;
    let found_depth = found.bucket.depth * IP_SHARE;
    assert!(
        (found_rate / rate - 1.0).abs() <= rate_error,
        "{found_rate} Mbit/s"
    );
    assert!(
        (found_depth / depth - 1.0).abs() <= depth_error,
        "{found_depth} bytes"
    );
    assert!(found.rate.holds(rate / 8e-6 / IP_SHARE), "{found:?}");
    assert!(found.depth.holds(depth / IP_SHARE), "{found:?}");
}

/// The article's path: a policer of 300 Mbit/s and 50 kB on a link of 1 Gbit/s, 73.8 ms there and back.
fn article() -> ([Vec<Captured>; 2], [u64; 3]) {
    captures(
        between(vec![policer(300, 50_000), delay(36_900_000)]),
        1,
        20,
    )
}

#[test]
fn a_policer_of_300_mbit_and_50_kb_at_the_article_s_round_trip() {
    let (captures, [before, dropped, behind]) = article();
    let found = diagnose(&captures);
    let way = found.main_way();
    assert!(way.to_b);
    assert_eq!(way.streams[0].order, Order::RoundTrip);
    assert_eq!(way.sum(|stream| stream.lost), dropped);
    assert!(dropped > 50);
    assert_eq!((before, behind), (0, 0));
    assert_eq!(way.verdict, Between::Policer);
    assert_limiter(way, (300.0, 0.02), (50_000.0, 0.1));
    let transit = way.transit.unwrap();
    assert_eq!((transit.least, transit.most), (36_900_000.0, 36_900_000.0));
}

#[test]
fn clocks_that_drift_apart_are_brought_together() {
    let ([a, b], [_, dropped, _]) = article();
    let found = diagnose(&[a, by_another_clock(&b, SECOND, 50)]);
    let clocks = found.clocks.unwrap();
    let way = found.main_way();
    assert!((clocks.drift - 50e-6).abs() < 0.1e-6, "{clocks:?}");
    assert!(
        (clocks.drift - 50e-6).abs() <= clocks.drift_error + 1e-9,
        "{clocks:?}"
    );
    let since = (clocks.at - EPOCH) as f64;
    assert!(
        (clocks.offset - 1e9 - since * 50e-6).abs() < 10_000.0,
        "{clocks:?}"
    );
    let transit = way.transit.unwrap();
    assert!(
        (transit.least - 36_900_000.0).abs() < 10_000.0,
        "{transit:?}"
    );
    assert!(transit.most - transit.least < 10_000.0, "{transit:?}");
    assert_eq!(way.sum(|stream| stream.lost), dropped);
    assert_eq!(way.verdict, Between::Policer);
    assert_limiter(way, (300.0, 0.02), (50_000.0, 0.1));
}

#[test]
fn packets_are_found_through_translation_and_segmentation() {
    let ([a, b], [_, dropped, _]) = article();
    let a = as_super_packets(&a, 20_000, false);
    let found = diagnose(&[a, translated(&by_another_clock(&b, SECOND, 0))]);
    assert!(found.counts[0].super_packets > 100, "{:?}", found.counts);
    let way = found.main_way();
    assert_eq!(way.sum(|stream| stream.lost), dropped);
    assert_eq!(way.sum(|stream| stream.unseen + stream.duplicated), 0);
    assert_eq!(way.changes.translated.len(), 1);
    assert_eq!(way.changes.usual_hops(), Some(3));
    assert!(way.changes.identification > 1000);
    assert_eq!(way.changes.payload, 0);
    assert_eq!(way.verdict, Between::Policer);
    assert_limiter(way, (300.0, 0.05), (50_000.0, 0.2));

    // A receiver that merges packets.
    let ([a, b], [_, dropped, _]) = article();
    let found = diagnose(&[a, as_super_packets(&b, 20_000, true)]);
    assert!(found.counts[1].super_packets > 100, "{:?}", found.counts);
    assert_eq!(found.main_way().sum(|stream| stream.lost), dropped);
}

#[test]
fn the_order_of_the_captures_does_not_matter() {
    let ([a, b], [_, dropped, _]) = article();
    let found = diagnose(&[b, a]);
    let way = found.main_way();
    assert!(!way.to_b);
    assert_eq!(way.sum(|stream| stream.lost), dropped);
    assert_eq!(way.verdict, Between::Policer);
    assert_limiter(way, (300.0, 0.02), (50_000.0, 0.1));
}

#[test]
fn a_queue_delays_as_much_as_it_holds() {
    let path = between(vec![link(50, 200_000), delay(10 * MILLISECOND)]);
    let (captures, [_, dropped, _]) = captures(path, 1, 10);
    let found = diagnose(&captures);
    let way = found.main_way();
    assert_eq!(way.sum(|stream| stream.lost), dropped);
    assert!(dropped > 3);
    assert_eq!(way.verdict, Between::Queue);
    let queue = way.fits.explaining_queue().unwrap();
    // Links count Ethernet's header, but not its check sequence.
    let rate = queue.rate * 8e-6 * 1514.0 / 1518.0;
    assert!((rate / 50.0 - 1.0).abs() < 0.01, "{rate} Mbit/s");
    assert!((queue.backlog / 200_000.0 - 1.0).abs() < 0.03, "{queue:?}");
    assert!(queue.explained > 0.95, "{queue:?}");
}

#[test]
fn random_losses_fit_nothing() {
    let chance = ElementKind::Loss {
        probability: 0.003,
        burst: 1.0,
    };
    let path = between(vec![chance, delay(15 * MILLISECOND)]);
    let (captures, [_, dropped, _]) = captures(path, 1, 10);
    let found = diagnose(&captures);
    let way = found.main_way();
    assert_eq!(way.sum(|stream| stream.lost), dropped);
    assert_eq!(way.verdict, Between::RandomLoss);
}

/// The captures without the first flow: others that share the path, and that nobody captured.
fn without_the_first(captures: [Vec<Captured>; 2]) -> [Vec<Captured>; 2] {
    let first = {
        let packet = packet(&captures[0][0]);
        [packet.src.port(), packet.dst.port()]
    };
    captures.map(|capture| {
        let is_other = |captured: &Captured| {
            let packet = packet(captured);
            ![packet.src.port(), packet.dst.port()]
                .iter()
                .all(|port| first.contains(port))
        };
        capture.into_iter().filter(is_other).collect()
    })
}

#[test]
fn a_policer_that_others_use_is_not_chance() {
    for burst in [10_000, 100_000] {
        let path = between(vec![policer(5, burst), delay(15 * MILLISECOND)]);
        let (captures, _) = captures(path, 2, 20);
        let found = diagnose(&without_the_first(captures));
        assert_eq!(found.main_way().verdict, Between::Policer, "{burst}");
    }
}

#[test]
fn a_managed_queue_that_others_fill_drops_before_it_is_full() {
    let queue = QueueKind::CoDel {
        target: 5 * MILLISECOND,
        interval: 100 * MILLISECOND,
        packets: 1_000,
        ecn: false,
    };
    let rate = mbit(10);
    let path = between(vec![
        ElementKind::Link { rate, queue },
        delay(15 * MILLISECOND),
    ]);
    let (captures, _) = captures(path, 3, 20);
    let found = diagnose(&without_the_first(captures));
    assert_eq!(found.main_way().verdict, Between::Aqm);
}

#[test]
fn a_shaper_before_or_behind_a_policer_is_told_apart_from_it() {
    let shaper = || link(400, 2_000_000);
    for (elements, before) in [
        (vec![shaper(), policer(300, 50_000)], true),
        (vec![policer(300, 50_000), shaper()], false),
    ] {
        let mut path = between(elements);
        path.between.push(delay(36_900_000));
        let (captures, [_, dropped, _]) = captures(path, 1, 20);
        let found = diagnose(&captures);
        let way = found.main_way();
        assert_eq!(way.sum(|stream| stream.lost), dropped);
        assert_eq!(way.verdict, Between::Policer);
        let queue = way.fits.explaining_queue().unwrap();
        let rate = queue.rate * 8e-6 * 1514.0 / 1518.0;
        assert!((rate / 400.0 - 1.0).abs() < 0.02, "{rate} Mbit/s");
        assert_eq!(queue.before_losses, before);
        assert_limiter(way, (300.0, 0.02), (50_000.0, 0.1));
    }
}

#[test]
fn losses_elsewhere_are_told_apart() {
    let chance = |probability| ElementKind::Loss {
        probability,
        burst: 1.0,
    };
    let path = Path {
        before: vec![chance(0.002), delay(5 * MILLISECOND)],
        between: vec![chance(0.004), delay(5 * MILLISECOND)],
        behind: vec![chance(0.003), delay(5 * MILLISECOND)],
    };
    let (captures, [before, between, behind]) = captures(path, 1, 20);
    let found = diagnose(&captures);
    let way = found.main_way();
    let [stream] = &way.streams[..] else {
        panic!("one download");
    };
    assert_eq!(stream.lost, between);
    let near = |found: u64, dropped: u64| found.abs_diff(dropped) * 20 <= dropped;
    assert!(
        near(stream.elsewhere.lost_before, before),
        "{before}: {stream:?}"
    );
    assert!(
        near(stream.elsewhere.lost_after(), behind),
        "{behind}: {stream:?}"
    );
}

/// Two downloads, each behind a policer.
#[test]
fn receivers_with_limiters_of_their_own_are_judged_apart() {
    let path = |rate| between(vec![policer(rate, 40_000), delay(10 * MILLISECOND)]);
    let ([mut a, mut b], _) = captures(path(10), 1, 20);
    let ([slow_a, slow_b], _) = captures(path(3), 1, 20);
    // Another client, some milliseconds later.
    let other = |capture: &[Captured]| {
        let mut capture = capture.to_vec();
        for captured in &mut capture {
            captured.at += 7 * MILLISECOND;
            for address in [26, 30] {
                let client = captured.bytes[address + 1] >= 128;
                captured.bytes[address + 3] += u8::from(client);
            }
            // Other sequence numbers, as another connection has.
            captured.bytes[38] ^= 0x55;
            captured.bytes[42] ^= 0x55;
        }
        capture
    };
    a.extend(other(&slow_a));
    b.extend(other(&slow_b));
    for capture in [&mut a, &mut b] {
        capture.sort_by_key(|captured| captured.at);
    }
    let found = diagnose(&[a, b]);
    let way = found.main_way();
    assert_eq!(way.groups.len(), 2, "{:?}", way.fits);
    for (group, rate) in way.groups.iter().zip([3.0, 10.0]) {
        let fit = group.fits.explaining_bucket().unwrap();
        assert_eq!(group.verdict, Between::Policer);
        let found = fit.bucket.rate * 8e-6 * IP_SHARE;
        let near = |rate: f64| (found / rate - 1.0).abs() < 0.02;
        assert!(near(rate) || near(13.0 - rate), "{found} Mbit/s");
    }
}

#[test]
fn causes_are_found_beside_jitter_and_several_flows() {
    let queue = |queue| ElementKind::Link {
        rate: mbit(20),
        queue,
    };
    let codel = || QueueKind::CoDel {
        target: 5 * MILLISECOND,
        interval: 100 * MILLISECOND,
        packets: 1000,
        ecn: false,
    };
    let pie = QueueKind::Pie {
        target: 15 * MILLISECOND,
        update: 15 * MILLISECOND,
        packets: 1000,
        ecn: false,
    };
    let chance = |probability, burst| ElementKind::Loss { probability, burst };
    let way = || delay(15 * MILLISECOND);
    let jitter = || ElementKind::Delay {
        delay: 15 * MILLISECOND,
        jitter: 500_000,
    };
    let cases = [
        (Between::Aqm, vec![queue(codel()), way()], 1),
        (Between::Aqm, vec![queue(codel()), way()], 4),
        (Between::Aqm, vec![queue(pie), way()], 4),
        // A managed queue drops at about the same delays as chance does where a queue stands.
        (
            Between::Unclear,
            vec![chance(0.001, 1.0), link(20, 200_000), way()],
            2,
        ),
        (
            Between::RandomLoss,
            vec![chance(0.01, 1.0), link(100, 1_000_000), way()],
            2,
        ),
        (Between::RandomLoss, vec![chance(0.003, 4.0), way()], 1),
        (Between::Policer, vec![policer(10, 60_000), jitter()], 1),
        (Between::Policer, vec![jitter(), policer(10, 60_000)], 1),
        (Between::Policer, vec![policer(1, 8_000), way()], 1),
        (Between::Policer, vec![policer(20, 50_000), way()], 4),
        (Between::Queue, vec![link(2, 15_000), way()], 1),
        (Between::Queue, vec![link(20, 60_000), way()], 4),
        (Between::Nothing, vec![way()], 1),
    ];
    for (cause, elements, flows) in cases {
        let (captures, [_, dropped, _]) = captures(between(elements.clone()), flows, 10);
        let found = diagnose(&captures);
        let way = found.main_way();
        assert_eq!(way.verdict, cause, "{elements:?}");
        // Packets that were dropped when the captures ended are not judged.
        let lost = way.sum(|stream| stream.lost);
        assert!(
            lost <= dropped && lost + 2 >= dropped,
            "{lost} of {dropped}"
        );
    }
}
