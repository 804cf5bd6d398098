use proptest::prelude::*;

use super::{PolicerConfig, TokenBucket};
use crate::Decision::{Drop, Pass};
use crate::{Nanos, PacketMeta, Rate};

const MS: Nanos = 1_000_000;

fn packet(bytes: u32) -> PacketMeta {
    PacketMeta {
        bytes,
        ..Default::default()
    }
}

/// 1 byte per millisecond.
fn bucket(burst: u64) -> TokenBucket {
    at(8_000, burst)
}

fn at(bits: u64, burst: u64) -> TokenBucket {
    TokenBucket::new(&config(bits, burst), 0)
}

fn config(bits: u64, burst: u64) -> PolicerConfig {
    let rate = Rate::from_bits_per_second(bits);
    PolicerConfig { rate, burst }
}

#[test]
fn a_full_bucket_passes_its_burst_and_then_the_rate() {
    let mut bucket = bucket(3_000);
    assert_eq!(bucket.offer(0, &packet(1_500)), Pass);
    assert_eq!(bucket.offer(0, &packet(1_500)), Pass);
    assert_eq!(bucket.offer(0, &packet(1)), Drop);
    assert_eq!(bucket.offer(1_500 * MS - 1, &packet(1_500)), Drop);
    assert_eq!(bucket.offer(1_500 * MS, &packet(1_500)), Pass);
    assert_eq!(bucket.tokens(), 0);
}

#[test]
fn a_smaller_packet_passes_where_a_larger_one_was_dropped() {
    let mut bucket = bucket(2_000);
    assert_eq!(bucket.offer(0, &packet(2_001)), Drop, "never fits");
    assert_eq!(bucket.offer(0, &packet(1_200)), Pass);
    assert_eq!(bucket.offer(0, &packet(1_200)), Drop);
    assert_eq!(bucket.offer(0, &packet(800)), Pass);
}

#[test]
fn a_full_bucket_forgets_what_is_below_a_byte() {
    let mut bucket = bucket(100);
    // Half a byte that a full bucket has to turn away.
    assert_eq!(bucket.offer(MS / 2, &packet(100)), Pass);
    assert_eq!(bucket.offer(MS, &packet(1)), Drop);
    assert_eq!(bucket.offer(MS + MS / 2, &packet(1)), Pass);
}

#[test]
fn rate_and_burst_change_live() {
    let mut bucket = bucket(1_000);
    assert_eq!(bucket.offer(0, &packet(1_000)), Pass);
    bucket.set_rate(100 * MS, Rate::from_bits_per_second(16_000));
    assert_eq!(bucket.tokens(), 100, "of the time before, at the old rate");
    assert_eq!(bucket.offer(200 * MS, &packet(300)), Pass);
    assert_eq!(bucket.tokens(), 0);
    bucket.set(300 * MS, &config(16_000, 150));
    assert_eq!(bucket.tokens(), 150);
    bucket.set(300 * MS, &config(16_000, 500));
    assert_eq!(bucket.offer(350 * MS, &packet(251)), Drop);
    assert_eq!(bucket.offer(350 * MS, &packet(250)), Pass);
}

#[test]
fn time_that_goes_back_brings_nothing() {
    let mut bucket = bucket(100);
    assert_eq!(bucket.offer(50 * MS, &packet(100)), Pass);
    assert_eq!(bucket.offer(10 * MS, &packet(1)), Drop);
    assert_eq!(bucket.offer(60 * MS, &packet(10)), Pass);
    assert_eq!(bucket.offer(60 * MS, &packet(1)), Drop);
}

/// Whether more passed in any interval between two packets than its length times the rate, and
/// the burst, in bit-nanoseconds.
pub(crate) fn exceeds(passed: &[(Nanos, u32)], bits: u64, burst: u64) -> bool {
    (0..passed.len()).any(|first| {
        let mut bytes = 0;
        passed[first..].iter().any(|&(at, size)| {
            bytes += u128::from(size);
            let allowed = u128::from(bits) * u128::from(at - passed[first].0);
            bytes * 8_000_000_000 > allowed + u128::from(burst) * 8_000_000_000
        })
    })
}

proptest! {
    #[test]
    fn never_more_than_the_rate_and_one_burst(
        bits in 8_000u64..400_000_000_000,
        burst in 0u64..100_000,
        // Gaps around what a packet takes at the rate, so that the bucket is mostly near empty,
        // and now and then a long one.
        packets in prop::collection::vec((0u64..2_000, 1u32..9_000, 0u64..20), 1..80),
    ) {
        let mut bucket = at(bits, burst);
        let (mut now, mut passed, mut expected) = (0, Vec::new(), Vec::new());
        // Another's arithmetic: tokens in bit-nanoseconds, which are whole for any rate and time.
        let full = u128::from(burst) * 8_000_000_000;
        let mut tokens = full;
        for (gap, size, pause) in packets {
            let gap = gap * 8_000_000_000 / bits * if pause == 0 { 1_000 } else { 1 };
            now += gap;
            tokens = full.min(tokens + u128::from(bits) * u128::from(gap));
            if let Some(left) = tokens.checked_sub(u128::from(size) * 8_000_000_000) {
                tokens = left;
                expected.push((now, size));
            }
            if bucket.offer(now, &packet(size)) == Pass {
                passed.push((now, size));
            }
            prop_assert!(bucket.tokens() <= burst);
        }
        prop_assert_eq!(&passed, &expected);
        prop_assert!(!exceeds(&passed, bits, burst));
    }
}
