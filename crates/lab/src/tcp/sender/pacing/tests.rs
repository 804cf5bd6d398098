use super::*;
use crate::MILLISECOND;

/// 1 MB/s with bursts of two: 2896 bytes take 2.896 ms. The first ten segments are not paced.
#[test]
fn bursts_leave_at_the_rate() {
    let mut pacer = Pacer::new(None);
    pacer.set_rate(1_000_000);
    pacer.on_burst(0, true, 8, 8 * 1448);
    assert_eq!(pacer.burst_at(), 0);
    pacer.on_burst(0, true, 2, 2896);
    assert_eq!(pacer.burst_at(), 2_896_000);
    // Half a millisecond late: the next one may leave half a millisecond earlier.
    let late = 2_896_000 + MILLISECOND / 2;
    pacer.on_burst(late, true, 2, 2896);
    assert_eq!(pacer.burst_at(), late + 2_896_000 - MILLISECOND / 2);
    // Very late: but the next one gains at most half.
    let late = crate::SECOND;
    pacer.on_burst(late, true, 2, 2896);
    assert_eq!(pacer.burst_at(), late + 2_896_000 / 2);
}

/// Linux `tcp_tso_autosize`: 1/1024 s of the rate, at least two segments, 64 kB at most.
#[test]
fn bursts_grow_with_the_rate_and_shrink_with_distance() {
    let mut pacer = Pacer::new(None);
    let far = Some(50 * MILLISECOND);
    pacer.set_rate(1_000_000);
    assert_eq!(pacer.burst(1448, far, false), 2);
    pacer.set_rate(10_000_000);
    assert_eq!(pacer.burst(1448, far, false), 10_000_000 / 1024 / 1448);
    pacer.set_rate(1_000_000_000);
    assert_eq!(pacer.burst(1448, far, false), 45);
    // 1 ms is 1.95 times 512 µs: half of 64 kB more.
    pacer.set_rate(1_000_000);
    assert_eq!(
        pacer.burst(1448, Some(MILLISECOND), false),
        (976 + 32_768) / 1448
    );
    // BBR below 1.2 Mbit/s.
    pacer.set_rate(149_999);
    assert_eq!(pacer.burst(1448, far, true), 1);
    pacer.set_rate(150_000);
    assert_eq!(pacer.burst(1448, far, true), 2);
}

/// 3 Mbit/s are 4 ms for 1500 bytes, without drift where it does not divide.
#[test]
fn the_rate_limit_is_smooth_and_exact() {
    let mut pacer = Pacer::new(Some(Rate::from_bits_per_second(3_000_000)));
    assert_eq!(pacer.packet_at(), 0);
    pacer.on_packet(5, 1500);
    assert_eq!(pacer.packet_at(), 5 + 4 * MILLISECOND);
    let mut pacer = Pacer::new(Some(Rate::from_bits_per_second(7)));
    for _ in 0..7 {
        pacer.on_packet(0, 1);
    }
    assert_eq!(pacer.packet_at(), 8 * SECOND);
    let mut free = Pacer::new(None);
    free.on_packet(0, 1500);
    assert_eq!(free.packet_at(), 0);
}
