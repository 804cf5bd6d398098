use super::*;
use crate::tcp::Segment;

const MS: Nanos = 1_000_000;
const AIM: Aim = Aim {
    target: 5 * MS,
    interval: 100 * MS,
    ecn: false,
};

/// A packet of a flow whose queue is this one of four.
fn packet(packets: &mut Packets, queue: u32, bytes: u32) -> PacketId {
    let mut packet = Packet::new(queue, true, bytes, Segment::default());
    packet.hash = queue << 30;
    packets.insert(packet)
}

fn queue(limit: u64) -> FqCoDel {
    FqCoDel::new(4, 1514, AIM, limit)
}

#[test]
fn bytes_are_shared_in_turn() {
    let (mut fq, mut packets) = (queue(100_000), Packets::default());
    // One flow of full packets, one of small ones.
    for _ in 0..100 {
        let id = packet(&mut packets, 0, 1500);
        fq.offer(0, id, &mut packets);
    }
    for _ in 0..2000 {
        let id = packet(&mut packets, 1, 64);
        fq.offer(0, id, &mut packets);
    }
    let mut sent = [0i64; 2];
    for _ in 0..1000 {
        let id = fq.take(1, &mut packets).unwrap();
        let packet = packets.get(id);
        sent[packet.flow as usize] += i64::from(packet.bytes + 14);
    }
    assert!((sent[0] - sent[1]).abs() <= 2 * 1514, "{sent:?}");
}

#[test]
fn a_new_flow_goes_first() {
    let (mut fq, mut packets) = (queue(100_000), Packets::default());
    for _ in 0..50 {
        for flow in [0, 1] {
            let id = packet(&mut packets, flow, 1500);
            fq.offer(0, id, &mut packets);
        }
    }
    // After the first round, in which both were new.
    for _ in 0..7 {
        fq.take(MS, &mut packets);
    }
    let new = packet(&mut packets, 2, 200);
    fq.offer(MS, new, &mut packets);
    assert_eq!(fq.take(MS, &mut packets), Some(new));
}

#[test]
fn a_new_flow_that_is_empty_waits_for_a_round_before_it_is_new_again() {
    let (mut fq, mut packets) = (queue(100_000), Packets::default());
    for _ in 0..50 {
        let id = packet(&mut packets, 0, 1500);
        fq.offer(0, id, &mut packets);
    }
    for _ in 0..3 {
        fq.take(MS, &mut packets);
    }
    // A flow that sends its next packet as soon as the last has left gets its turn, not all.
    let mut turns = [0u32; 2];
    for _ in 0..20 {
        if fq.queues[1].packets.first().is_none() {
            let id = packet(&mut packets, 1, 1500);
            fq.offer(MS, id, &mut packets);
        }
        let id = fq.take(MS, &mut packets).unwrap();
        turns[packets.get(id).flow as usize] += 1;
    }
    assert!(turns[0] >= 9, "{turns:?}");
}

#[test]
fn the_longest_queue_pays_for_a_full_one() {
    let (mut fq, mut packets) = (queue(100), Packets::default());
    for _ in 0..10 {
        let id = packet(&mut packets, 3, 500);
        fq.offer(0, id, &mut packets);
    }
    for _ in 0..90 {
        let id = packet(&mut packets, 1, 1500);
        fq.offer(0, id, &mut packets);
    }
    assert_eq!(packets.next_dropped(), None);
    let id = packet(&mut packets, 3, 500);
    fq.offer(0, id, &mut packets);
    let mut dropped = 0;
    while let Some(id) = packets.next_dropped() {
        assert_eq!(packets.get(id).flow, 1);
        dropped += 1;
    }
    // Half of its 90 packets.
    assert_eq!(dropped, 45);
    assert_eq!(fq.packets, 56);
    assert_eq!(fq.bytes(), 45 * 1514 + 11 * 514);
}
