use super::cobalt::{Aim, Cobalt};
use super::*;
use crate::MILLISECOND;
use crate::packet::Packet;
use crate::plan::Isolation;
use crate::random::Owner;
use crate::tcp::Segment;

const MS: Nanos = MILLISECOND;
const RATE: u64 = 10_000_000;

fn settings() -> CakePlan {
    CakePlan {
        rtt: 100 * MS,
        tins: Tins::Diffserv3,
        isolation: Isolation::Triple,
        limit: None,
    }
}

/// A queue whose flows have the hosts with these numbers.
fn cake(settings: CakePlan, ends: &[Ends]) -> Cake {
    let no_flows: Arc<[Wire]> = Arc::from(Vec::new());
    let random = Random::new(1, Owner::Element(0));
    Cake {
        ends: ends.into(),
        ..Cake::new(
            settings,
            Rate::from_bits_per_second(RATE),
            &no_flows,
            random,
        )
    }
}

/// A packet of the flow, whose hash is spread as a real one.
fn packet(packets: &mut Packets, flow: u32, dscp: u8, bytes: u32) -> PacketId {
    let mut packet = Packet::new(flow, true, bytes, Segment::default());
    packet.hash = (flow + 1).wrapping_mul(0x9e37_79b1);
    packet.dscp = dscp;
    packets.insert(packet)
}

/// Packets that leave while these flows (their code point and packets' length) always have two more packets. The link
/// needs the time of a packet for each.
fn served(cake: &mut Cake, flows: &[(u8, u32)], count: usize) -> Vec<u64> {
    let mut packets = Packets::default();
    let (mut bytes, mut waiting) = (vec![0; flows.len()], vec![0u32; flows.len()]);
    let mut now = 0;
    for _ in 0..count {
        for (flow, &(dscp, length)) in flows.iter().enumerate() {
            while waiting[flow] < 2 {
                let id = packet(&mut packets, flow as u32, dscp, length);
                cake.offer(now, id, &mut packets);
                waiting[flow] += 1;
            }
        }
        let id = cake.take(now, &mut packets).unwrap();
        while let Some(id) = packets.next_dropped() {
            waiting[packets.get(id).flow as usize] -= 1;
            packets.free(id);
        }
        let sent = packets.get(id);
        let (flow, length) = (sent.flow as usize, sent.frame_length());
        waiting[flow] -= 1;
        bytes[flow] += length;
        now += length * 8 * SECOND / RATE;
        packets.free(id);
    }
    bytes
}

fn share(bytes: &[u64], of: usize) -> f64 {
    bytes[of] as f64 / bytes.iter().sum::<u64>() as f64
}

#[test]
fn flows_of_a_host_share_what_the_host_gets() {
    // One flow to the first host, three to the second: [Cake18 §III-C, figure 5] divides by hosts, then by flows.
    let ends = [[1, 11], [2, 12], [3, 12], [4, 12]];
    let flows = [(0, 1500); 4];
    let bytes = served(&mut cake(settings(), &ends), &flows, 6000);
    assert!((share(&bytes, 0) - 0.5).abs() < 0.01, "{bytes:?}");
    assert!((share(&bytes, 2) - 1.0 / 6.0).abs() < 0.01, "{bytes:?}");
    // The same where one server sends three of them.
    let ends = [[1, 11], [2, 12], [2, 13], [2, 14]];
    let bytes = served(&mut cake(settings(), &ends), &flows, 6000);
    assert!((share(&bytes, 0) - 0.5).abs() < 0.01, "{bytes:?}");
    // Only what the settings name is shared.
    let by_destination = CakePlan {
        isolation: Isolation::Destinations,
        ..settings()
    };
    let bytes = served(&mut cake(by_destination, &ends), &flows, 6000);
    assert!((share(&bytes, 0) - 0.25).abs() < 0.01, "{bytes:?}");
    let by_flow = CakePlan {
        isolation: Isolation::Flows,
        ..settings()
    };
    let ends = [[1, 11], [2, 12], [3, 12], [4, 12]];
    let bytes = served(&mut cake(by_flow, &ends), &flows, 6000);
    assert!((share(&bytes, 0) - 0.25).abs() < 0.01, "{bytes:?}");
}

#[test]
fn bytes_are_shared_whatever_the_packets_are() {
    let ends = [[1, 11], [2, 12]];
    let bytes = served(&mut cake(settings(), &ends), &[(0, 1500), (0, 200)], 9000);
    assert!((share(&bytes, 0) - 0.5).abs() < 0.01, "{bytes:?}");
}

#[test]
fn tins_above_best_effort_go_first_up_to_their_share() {
    let ends = [[1, 11], [2, 12]];
    // EF beside best effort, both without end: a quarter of the rate, `cake_config_diffserv3`.
    let bytes = served(&mut cake(settings(), &ends), &[(0, 1500), (46, 1500)], 4000);
    assert!((share(&bytes, 1) - 0.25).abs() < 0.02, "{bytes:?}");
    // CS1 gets a sixteenth.
    let bytes = served(&mut cake(settings(), &ends), &[(0, 1500), (8, 1500)], 4000);
    assert!((share(&bytes, 1) - 1.0 / 16.0).abs() < 0.01, "{bytes:?}");
    // In one tin they are equal; with four, video gets a half.
    let with = |tins| CakePlan { tins, ..settings() };
    let bytes = served(
        &mut cake(with(Tins::BestEffort), &ends),
        &[(0, 1500), (46, 1500)],
        4000,
    );
    assert!((share(&bytes, 1) - 0.5).abs() < 0.01, "{bytes:?}");
    let bytes = served(
        &mut cake(with(Tins::Diffserv4), &ends),
        &[(0, 1500), (34, 1500)],
        4000,
    );
    assert!((share(&bytes, 1) - 0.5).abs() < 0.02, "{bytes:?}");
}

#[test]
fn a_new_flow_goes_first() {
    let mut cake = cake(settings(), &[[1, 11], [2, 12], [3, 13]]);
    let mut packets = Packets::default();
    for _ in 0..50 {
        for flow in [0, 1] {
            let id = packet(&mut packets, flow, 0, 1500);
            cake.offer(0, id, &mut packets);
        }
    }
    for _ in 0..7 {
        cake.take(MS, &mut packets);
    }
    let new = packet(&mut packets, 2, 0, 200);
    cake.offer(MS, new, &mut packets);
    assert_eq!(cake.take(MS, &mut packets), Some(new));
}

#[test]
fn the_longest_queue_pays_for_a_full_one() {
    let limit = Some(100 * 1514);
    let mut cake = cake(
        CakePlan {
            limit,
            ..settings()
        },
        &[[1, 11], [2, 12]],
    );
    let mut packets = Packets::default();
    for _ in 0..20 {
        let id = packet(&mut packets, 1, 46, 1500);
        cake.offer(0, id, &mut packets);
    }
    for _ in 0..200 {
        let id = packet(&mut packets, 0, 0, 1500);
        cake.offer(0, id, &mut packets);
    }
    assert_eq!(cake.bytes(), 100 * 1514);
    let mut dropped = 0;
    while let Some(id) = packets.next_dropped() {
        assert_eq!(packets.get(id).flow, 0);
        dropped += 1;
    }
    assert_eq!(dropped, 120);
}

#[test]
fn eight_ways_keep_flows_apart() {
    // [Cake18 §III-C]: with a plain hash of 1,024 queues, 100 flows have about five in queues of others. Sets of eight
    // have none until more than eight flows meet in one.
    let (mut flows, mut alone) = (vec![flows::Flow::default(); flows::QUEUES], 0);
    let mut random = Random::new(7, Owner::Hash);
    for _ in 0..100 {
        let tag = random.bits();
        let place = flows::place(&flows, tag);
        alone += u32::from(flows[place.queue].set == flows::Set::None);
        flows[place.queue].tag = tag;
        flows[place.queue].set = flows::Set::Bulk;
        assert_eq!(
            flows::place(&flows, tag).queue,
            place.queue,
            "it is found again"
        );
    }
    assert_eq!(alone, 100);
}

#[test]
fn codel_signals_faster_and_faster_and_then_forgets() {
    let aim = Aim {
        target: 5 * MS,
        interval: 100 * MS,
        frame: MS,
    };
    let mut random = Random::new(1, Owner::Element(0));
    let mut cobalt = Cobalt::default();
    let mut signals = Vec::new();
    for now in 0..1000 {
        if cobalt.drops(now * MS, 20 * MS, &aim, &mut random, || false) {
            signals.push(now);
        }
    }
    // RFC 8289 §3.3: the first after an interval, the next after an interval over the square root of their number.
    assert!((100..=102).contains(&signals[0]), "{signals:?}");
    for (index, pair) in signals.windows(2).enumerate() {
        let expected = 100.0 / f64::from(index as u32 + 2).sqrt();
        assert!(
            (pair[1] as f64 - pair[0] as f64 - expected).abs() < 2.0,
            "{signals:?}"
        );
    }
    // Below the target nothing is dropped, and the count decays step by step.
    let late = (1000..20_000).any(|now| cobalt.drops(now * MS, MS, &aim, &mut random, || false));
    assert!(!late);
    let marked = cobalt.drops(30_000 * MS, MS, &aim, &mut random, || {
        unreachable!("nothing is due")
    });
    assert!(!marked);
}

#[test]
fn blue_drops_what_does_not_answer() {
    let aim = Aim {
        target: 5 * MS,
        interval: 100 * MS,
        frame: MS,
    };
    let mut random = Random::new(1, Owner::Element(0));
    let mut cobalt = Cobalt::default();
    // A second of overflows: 1/256 for each target's time.
    for now in 0..1000 {
        cobalt.on_full(now * MS, &aim);
    }
    let dropped = (0..10_000)
        .filter(|_| cobalt.drops(1000 * MS, 0, &aim, &mut random, || true))
        .count();
    let expected = 10_000.0 * (1000.0 / 6.0) / 256.0;
    assert!(
        (dropped as f64 / expected - 1.0).abs() < 0.05,
        "{dropped}, {expected}"
    );
    // An empty queue takes it back, sixteen times more slowly.
    let mut now = 1000;
    while !cobalt.is_at_rest(now * MS) {
        cobalt.on_empty(now * MS, &aim);
        now += 6;
    }
    assert!((10_000..30_000).contains(&now), "{now}");
}
