use super::*;
use crate::packet::{Packet, Packets};
use crate::random::Owner;
use crate::tcp::Segment;

const MS: Nanos = 1_000_000;

fn delays(jitter: Nanos) -> Vec<Nanos> {
    let mut delay = Delay::varying(20 * MS, jitter, Random::new(3, Owner::Element(0)));
    let mut packets = Packets::default();
    let mut got = Vec::new();
    for number in 0..20_000 {
        let now = number * MS;
        while let Some(at) = delay.next_timeout().filter(|&at| at <= now) {
            let id = delay.poll(at).unwrap();
            // The order is kept: the packet that was sent first arrives first.
            assert_eq!(packets.get(id).segment.seq, got.len() as u64);
            got.push(at - got.len() as Nanos * MS);
        }
        let mut packet = Packet::new(0, true, 100, Segment::default());
        packet.segment.seq = number;
        delay.offer(now, packets.insert(packet));
    }
    got
}

#[test]
fn constant() {
    assert!(delays(0).iter().all(|&delay| delay == 20 * MS));
}

#[test]
fn jitter_adds_half_of_a_normal_distribution() {
    // The deviation is much smaller than the distance of packets. Otherwise waiting would add to
    // it.
    let got = delays(MS / 10);
    assert!(got.iter().all(|&delay| delay >= 20 * MS));
    let added = got.iter().map(|delay| (delay - 20 * MS) as f64);
    let mean = added.sum::<f64>() / got.len() as f64 / (MS as f64 / 10.0);
    // √(2/π).
    assert!((mean - 0.7979).abs() < 0.02, "{mean}");
}
