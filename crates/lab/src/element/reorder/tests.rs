use super::*;
use crate::packet::{Packet, Packets};
use crate::random::Owner;
use crate::tcp::Segment;

#[test]
fn some_are_held_and_overtaken() {
    let mut reorder = Reorder::new(0.1, 2500, Random::new(4, Owner::Element(0)));
    let mut packets = Packets::default();
    let (mut order, mut held) = (Vec::new(), 0);
    for number in 0..10_000u64 {
        let now = number * 1000;
        while let Some(at) = reorder.next_timeout().filter(|&at| at <= now) {
            let id = reorder.poll(at).unwrap();
            order.push((at, packets.get(id).segment.seq));
        }
        let mut packet = Packet::new(0, true, 100, Segment::default());
        packet.segment.seq = number;
        let id = packets.insert(packet);
        match reorder.offer(now, id) {
            Some(_) => order.push((now, number)),
            None => held += 1,
        }
    }
    assert!((900..1100).contains(&held), "{held}");
    for &(at, number) in &order {
        let delay = at - number * 1000;
        assert!(delay == 0 || delay == 2500, "{delay}");
    }
    assert!(order.is_sorted_by_key(|entry| entry.0));
    let late = order
        .windows(2)
        .filter(|pair| pair[1].1 < pair[0].1)
        .count();
    assert!((700..1100).contains(&late), "overtaken: {late}");
}
