use super::*;
use crate::random::Owner;
use crate::tcp::Segment;

fn red(probability: f64) -> Red {
    let random = Random::new(9, Owner::Element(0));
    let rate = Rate::from_bits_per_second(10_000_000);
    Red::new((50_000, 150_000), probability, 1 << 30, false, rate, random)
}

/// Holds the queue at this length. Returns the share of packets that is dropped once the mean has
/// settled, and the longest and shortest distance of drops.
fn drop_rate(packets_waiting: u64, probability: f64) -> (f64, u32, u32) {
    let (mut red, mut packets) = (red(probability), Packets::default());
    let mut offer = |red: &mut Red| {
        let id = packets.insert(Packet::new(0, true, 986, Segment::default()));
        red.offer(0, id, &mut packets);
        let dropped = packets.next_dropped().inspect(|&id| packets.free(id));
        if dropped.is_none() && red.queue.packets() > packets_waiting {
            let id = red.take(0, &packets).unwrap();
            packets.free(id);
        }
        dropped.is_some()
    };
    for _ in 0..20_000 {
        offer(&mut red);
    }
    let (mut drops, mut gap, mut longest, mut shortest) = (0, 0, 0, u32::MAX);
    for _ in 0..200_000 {
        gap += 1;
        if offer(&mut red) {
            drops += 1;
            (longest, shortest) = (gap.max(longest), gap.min(shortest));
            gap = 0;
        }
    }
    (f64::from(drops) / 200_000.0, longest, shortest)
}

#[test]
fn the_probability_follows_the_mean_queue() {
    // [Floyd93 §7]: with p/(1 − count·p), and a count of 1 for the packet after a drop, the
    // distance of drops is uniform on 1..=1/p − 1, so its mean is 1/(2p).
    for (waiting, base) in [(60, 0.01), (100, 0.05), (140, 0.09)] {
        let (rate, longest, _) = drop_rate(waiting, 0.1);
        let expected = 2.0 * base;
        assert!(
            (rate / expected - 1.0).abs() < 0.1,
            "{waiting}: {rate} for {expected}"
        );
        assert!(f64::from(longest) <= 1.0 / base * 1.02 + 2.0, "{longest}");
    }
    assert_eq!(drop_rate(49, 0.1).0, 0.0);
    // Gentle mode: between max and twice max the probability grows to 1.
    let (rate, ..) = drop_rate(180, 0.1);
    let expected = 2.0 * 0.28;
    assert!((rate / expected - 1.0).abs() < 0.1, "{rate} for {expected}");
}

#[test]
fn the_mean_decays_while_idle() {
    let mut red = red(0.1);
    red.mean = 100_000.0;
    red.idle_since = Some(0);
    // 0.8 ms for each packet of 1000 bytes; 1000 of them.
    red.average(800_000_000);
    let expected = 100_000.0 * 0.998f64.powi(1000);
    assert!((red.mean / expected - 1.0).abs() < 1e-9, "{}", red.mean);
}
