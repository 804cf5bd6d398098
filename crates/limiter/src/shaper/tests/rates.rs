use std::sync::Arc;

use proptest::prelude::*;

use super::{BYTE, Event, Packet, arrivals, config, meta, onto, policies, released, run};
use crate::shaper::pace::LATENESS;
use crate::{PolicyTree, Program, Rate, Shaper};

const YEAR: u64 = 365 * 86_400 * 1_000_000_000;

fn fifo(bits: u64, burst: u64) -> Shaper<Packet> {
    Shaper::new(&config(&PolicyTree::queue(), bits, burst), 0)
}

fn packets(count: usize, at: u64, bytes: u32) -> Vec<Packet> {
    let packet = Packet {
        at,
        queue: 0,
        bytes,
    };
    vec![packet; count]
}

/// Each packet leaves when those before it are paid for, to the nanosecond, at any rate and
/// after however long.
#[test]
fn spacing_is_exact_from_8_kbit_to_400_gbit_and_after_years() {
    for (bits, start) in [
        (8_000, 0),
        (7_777_777, 123),
        (1_500_000, 100 * YEAR),
        (400_000_000_000, 10 * YEAR + 1),
        (8_000, 300 * YEAR),
    ] {
        let events = run(&mut fifo(bits, 1500), &packets(5000, start, 1500), || 0);
        for (number, packet) in released(&events).iter().enumerate() {
            let paid = (number as u128 * 1500 * BYTE).div_ceil(u128::from(bits));
            assert_eq!(
                u128::from(packet.at - start),
                paid,
                "{bits} bit/s, {number}"
            );
        }
    }
}

#[test]
fn a_burst_leaves_at_once_and_what_is_beyond_it_at_the_rate() {
    // 1 byte a microsecond.
    let mut shaper = fifo(8_000_000, 15_000);
    let events = run(&mut shaper, &packets(20, 0, 1500), || 0);
    let times: Vec<_> = released(&events).iter().map(|packet| packet.at).collect();
    let expected = (0..20).map(|number: u64| number.saturating_sub(9) * 1_500_000);
    assert_eq!(times, expected.collect::<Vec<_>>());
    // Half of the burst is there again after 7.5 ms without traffic, behind the last one's debt.
    let at = times[19] + 1_500_000 + 7_500_000;
    let events = run(&mut shaper, &packets(10, at, 1500), || 0);
    let bunch = released(&events)
        .iter()
        .filter(|packet| packet.at == at)
        .count();
    assert_eq!(bunch, 6, "7500 bytes, and the packet that overdraws");
}

#[test]
fn a_stall_is_made_up_for_by_ten_milliseconds_at_most() {
    let mut shaper = fifo(8_000_000, 1500);
    for packet in packets(1000, 0, 1000) {
        shaper.offer(0, &meta(0, packet.bytes), packet).unwrap();
    }
    let mut leave = |now| std::iter::from_fn(|| shaper.poll_release(now)).count();
    assert_eq!(leave(0), 1);
    assert_eq!(leave(1_000_000 + LATENESS), 11, "10 ms late: made up for");
    assert_eq!(leave(60_000_000_000), 11, "a minute late: a burst of 10 ms");
    assert_eq!(leave(60_001_000_000), 1);
}

#[test]
fn rates_change_and_stop() {
    let mut shaper = fifo(8_000_000, 0);
    for packet in packets(4, 0, 1000) {
        shaper.offer(0, &meta(0, packet.bytes), packet).unwrap();
    }
    assert!(shaper.poll_release(0).is_some());
    shaper.set_rate(500_000, Rate::from_bits_per_second(4_000_000));
    assert_eq!(
        shaper.poll_timeout(),
        Some(1_500_000),
        "500 bytes are left to pay"
    );
    assert!(shaper.poll_release(1_499_999).is_none());
    assert!(shaper.poll_release(1_500_000).is_some());
    shaper.set_rate(1_500_000, Rate::from_bits_per_second(0));
    assert_eq!(shaper.poll_timeout(), None);
    assert!(shaper.poll_release(YEAR).is_none());
    shaper.set_rate(YEAR, Rate::from_bits_per_second(8_000_000));
    assert_eq!(shaper.poll_timeout(), Some(YEAR + 1_000_000));
    assert!(shaper.poll_release(5).is_none(), "time does not go back");
}

/// What a full bucket has below a byte is forgotten, also where it is full to the byte.
#[test]
fn a_burst_is_not_a_fraction_of_a_byte_too_long() {
    // 1 byte a microsecond: 4.75 bytes come, and 4 are kept.
    let mut shaper = fifo(8_000_000, 4);
    let packet = |at, bytes| Packet {
        at,
        queue: 0,
        bytes,
    };
    let mut arrivals = packets(1, 0, 4);
    arrivals.extend([packet(4_750, 1), packet(4_750, 4)]);
    let times: Vec<_> = released(&run(&mut shaper, &arrivals, || 0))
        .iter()
        .map(|packet| packet.at)
        .collect();
    assert_eq!(times, [0, 4_750, 5_750]);
}

proptest! {
    /// Whatever comes, however late polls are, within what costs no rate: what leaves in any
    /// interval is at most r·Δt + the burst (or one packet), and while packets wait, r·Δt less one
    /// packet.
    #[test]
    fn never_above_the_rate_and_never_behind_it(
        policy in policies(),
        arrivals in arrivals(),
        bits in prop_oneof![Just(8_000u64), 100_000u64..50_000_000, Just(400_000_000_000)],
        burst in prop_oneof![Just(0u64), Just(1500), 0u64..100_000],
        late in prop_oneof![2 => Just(0), 1 => 0..LATENESS],
        seed: u64,
    ) {
        let program = Arc::new(Program::new(&policy));
        let arrivals = onto(&program, arrivals);
        let mut shaper = Shaper::new(&config(program, bits, burst), 0);
        let mut random = seed;
        let events = run(&mut shaper, &arrivals, || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % (late + 1)
        });
        let largest = arrivals.iter().map(|packet| packet.bytes).max().unwrap();
        let most = u128::from(burst.max(u64::from(largest))) * BYTE;
        let rate = u128::from(bits);
        // Times are rounded up to nanoseconds.
        let late = u128::from(late) + 1;

        // Bytes ahead of the rate: the largest rise from any release to any later one.
        let (mut sent, mut least) = (0i128, i128::MAX);
        for packet in released(&events) {
            let earned = (rate * u128::from(packet.at)) as i128;
            least = least.min(sent - earned);
            sent += (u128::from(packet.bytes) * BYTE) as i128;
            prop_assert!(sent - earned - least <= (most + rate * late) as i128);
        }

        let (mut held, mut start, mut sent) = (0u32, 0, 0u128);
        for event in events {
            match event {
                Event::Accepted(packet) => {
                    if held == 0 {
                        (start, sent) = (packet.at, 0);
                    }
                    held += 1;
                }
                Event::Released(packet) => {
                    let owed = rate * u128::from(packet.at - start);
                    prop_assert!(sent + u128::from(largest) * BYTE + rate * late >= owed);
                    sent += u128::from(packet.bytes) * BYTE;
                    held -= 1;
                }
                Event::Dropped(_) => prop_assert!(false, "no queue is full"),
            }
        }
    }
}
