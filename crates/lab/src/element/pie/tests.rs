use super::*;
use crate::random::Owner;
use crate::tcp::Segment;

const MS: Nanos = 1_000_000;

fn pie() -> Pie {
    let random = Random::new(9, Owner::Element(0));
    // 1500-byte packets (1514 on the link) leave every 1.2112 ms.
    Pie::new(
        15 * MS,
        15 * MS,
        10_000,
        false,
        Rate::from_bits_per_second(10_000_000),
        random,
    )
}

/// Packets arrive at `load` times the rate for some seconds. Returns the share of packets dropped
/// and the mean delay in the second half, in ms.
fn run(pie: &mut Pie, load: f64, seconds: Nanos) -> (f64, f64) {
    let mut packets = Packets::default();
    let service = 1_211_200u64;
    let gap = (service as f64 / load) as Nanos;
    let (mut arrival, mut departure) = (0, service);
    let (mut offered, mut dropped, mut delay, mut left) = (0u32, 0u32, 0.0, 0u32);
    let end = seconds * 1000 * MS;
    while arrival.min(departure) < end {
        if arrival <= departure {
            let id = packets.insert(Packet::new(0, true, 1500, Segment::default()));
            pie.offer(arrival, id, &mut packets);
            let lost = packets.next_dropped().is_some();
            if arrival > end / 2 {
                offered += 1;
                dropped += u32::from(lost);
            }
            arrival += gap;
        } else {
            if let Some(id) = pie.take(departure, &packets) {
                if departure > end / 2 {
                    delay += (departure - packets.get(id).queued) as f64 / MS as f64;
                    left += 1;
                }
                packets.free(id);
            }
            departure += service;
        }
    }
    let part = f64::from(dropped) / f64::from(offered);
    (part, delay / f64::from(left))
}

#[test]
fn the_delay_converges_to_the_target_under_overload() {
    for load in [1.1, 1.5, 2.0] {
        let (dropped, delay) = run(&mut pie(), load, 60);
        // Packets beyond the rate must be dropped, at any delay.
        assert!(
            (dropped - (1.0 - 1.0 / load)).abs() < 0.02,
            "load {load}: {dropped}"
        );
        assert!((delay - 15.0).abs() < 4.0, "load {load}: {delay} ms");
    }
}

#[test]
fn nothing_is_dropped_below_the_rate() {
    assert_eq!(run(&mut pie(), 0.95, 20).0, 0.0);
}

#[test]
fn a_burst_after_silence_passes() {
    let (mut pie, mut packets) = (pie(), Packets::default());
    // 100 ms worth of packets at once, twice, within the burst allowance of 150 ms.
    for start in [0, 10_000 * MS] {
        for _ in 0..80 {
            let id = packets.insert(Packet::new(0, true, 1500, Segment::default()));
            pie.offer(start, id, &mut packets);
        }
        let mut now = start;
        while pie.take(now, &packets).is_some() {
            now += 1_211_200;
        }
        assert_eq!(packets.next_dropped(), None);
    }
}

#[test]
fn updates_in_silence_are_skipped_without_a_difference() {
    let mut one = pie();
    run(&mut one, 1.5, 5);
    one.queue = Fifo::default();
    let mut other = one.clone();
    // Each update separately, compared with all at once.
    for now in (5000..60_000).step_by(15) {
        one.catch_up(now * MS);
    }
    one.catch_up(60_000 * MS);
    other.catch_up(60_000 * MS);
    assert_eq!(one.drop_prob, other.drop_prob);
    assert_eq!(one.next_update, other.next_update);
    assert_eq!(one.burst_allowance, other.burst_allowance);
}
