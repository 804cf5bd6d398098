use proptest::prelude::*;

use super::*;
use crate::PolicyError;
use crate::bucket::tests::exceeds;

const BYTE: u128 = 8_000_000_000;

fn rate(bits: u64) -> Rate {
    Rate::from_bits_per_second(bits)
}

fn policer(bits: u64, burst: u64, weights: &[u32]) -> WaterFillingPolicer {
    let config = WaterFillingConfig::new(rate(bits), burst, weights).unwrap();
    WaterFillingPolicer::new(&config, 0)
}

fn packet(queue: u16, bytes: u32) -> PacketMeta {
    PacketMeta {
        queue,
        bytes,
        ..Default::default()
    }
}

/// The scheme without lists or sums kept: all queues are looked at each time, and tokens are whole
/// bit-nanoseconds.
struct Reference {
    bits: u128,
    size: u128,
    tokens: u128,
    last: u128,
    /// Bytes and weight.
    queues: Vec<(u128, u128)>,
}

impl Reference {
    fn offer(&mut self, now: Nanos, queue: usize, bytes: u32) -> Decision {
        self.tokens += (u128::from(now) - self.last) * self.bits;
        self.tokens = self.tokens.min(self.size * BYTE);
        self.last = now.into();
        loop {
            let active = |queue: &&(u128, u128)| queue.0 > 0;
            let weights: u128 = self.queues.iter().filter(active).map(|queue| queue.1).sum();
            if weights == 0 || self.tokens < weights * BYTE {
                break;
            }
            let share = self.tokens / BYTE / weights;
            for (held, weight) in &mut self.queues {
                let taken = (share * *weight).min(*held);
                *held -= taken;
                self.tokens -= taken * BYTE;
            }
        }
        let held: u128 = self.queues.iter().map(|queue| queue.0).sum();
        let bytes = u128::from(bytes);
        if self.queues[queue].0 + bytes <= self.size - held {
            self.queues[queue].0 += bytes;
            Decision::Pass
        } else {
            Decision::Drop
        }
    }
}

proptest! {
    #[test]
    fn it_decides_as_written(
        bits in 8_000u64..40_000_000_000,
        size in 1_000u64..60_000,
        weights in prop::collection::vec(1u32..20, 6),
        packets in prop::collection::vec(
            (0u16..6, 0u32..1_600, prop_oneof![30 => 0u64..150, 1 => 0u64..100_000]),
            1..300,
        ),
    ) {
        let mut policer = policer(bits, size, &weights);
        let mut reference = Reference {
            bits: bits.into(),
            size: size.into(),
            tokens: u128::from(size) * BYTE,
            last: 0,
            queues: weights.iter().map(|&weight| (0, weight.into())).collect(),
        };
        let (mut now, mut passed) = (0, Vec::new());
        for (queue, bytes, gap) in packets {
            now += u64::from(bytes) * gap * 80_000_000 / bits;
            let decision = policer.offer(now, &packet(queue, bytes));
            prop_assert_eq!(decision, reference.offer(now, queue.into(), bytes));
            for queue in 0..6 {
                prop_assert_eq!(u128::from(policer.held(queue)), reference.queues[usize::from(queue)].0);
            }
            if decision == Decision::Pass {
                passed.push((now, bytes));
            }
        }
        prop_assert!(!exceeds(&passed, bits, 2 * size));
    }

    /// What tokens come to for each queue is the weighted max-min share, found by raising a level
    /// queue by queue, but for what a division by the weights leaves.
    #[test]
    fn tokens_are_shared_max_min(
        queues in prop::collection::vec((1u32..1_500, 1u32..20), 1..12),
        tokens in 0u64..20_000,
    ) {
        let weights: Vec<u32> = queues.iter().map(|queue| queue.1).collect();
        // Packets at first find all of the size; then, a byte per 8 ns.
        let mut policer = policer(1_000_000_000, 1_000_000, &weights);
        policer.tokens = 0;
        for (number, &(bytes, _)) in queues.iter().enumerate() {
            policer.offer(0, &packet(number as u16, bytes));
        }
        policer.offer(8 * tokens, &packet(0, 0));
        let mut order: Vec<usize> = (0..queues.len()).collect();
        let level = |number: usize| f64::from(queues[number].0) / f64::from(queues[number].1);
        order.sort_by(|&one, &other| level(one).total_cmp(&level(other)));
        let (mut left, mut weight) = (tokens as f64, f64::from(weights.iter().sum::<u32>()));
        let sum = weight;
        for number in order {
            let (bytes, share) = (f64::from(queues[number].0), f64::from(queues[number].1));
            let fair = bytes.min(left * share / weight);
            left -= fair;
            weight -= share;
            let got = bytes - policer.held(number as u16) as f64;
            prop_assert!((got - fair).abs() <= sum, "{got} for {fair}");
        }
        // Nothing is left over while there is anything to take.
        let held: u64 = (0..queues.len()).map(|number| policer.held(number as u16)).sum();
        prop_assert!(held == 0 || policer.tokens < u64::from(weights.iter().sum::<u32>()));
    }
}

/// Bytes passed in 10 s, at 10 Mbit/s, of queues that each send 1000 bytes every 500 µs.
fn shares(weights: &[u32], size: u64) -> Vec<u64> {
    let mut policer = policer(10_000_000, size, weights);
    let mut passed = vec![0; weights.len()];
    for step in 0..20_000 {
        for queue in 0..weights.len() as u16 {
            let now = step * 500_000 + u64::from(queue);
            if policer.offer(now, &packet(queue, 1_000)) == Decision::Pass {
                passed[usize::from(queue)] += 1_000;
            }
        }
    }
    passed
}

#[test]
fn greedy_queues_share_by_weight() {
    // 12.5 MB in 10 s, and what the bucket held.
    let equal = shares(&[1, 1], 100_000);
    assert!(
        equal
            .iter()
            .all(|share| (6_200_000..6_350_000).contains(share)),
        "{equal:?}"
    );
    let weighted = shares(&[1, 3], 100_000);
    assert!(
        (3_000_000..3_300_000).contains(&weighted[0]),
        "{weighted:?}"
    );
    assert!(
        (9_250_000..9_550_000).contains(&weighted[1]),
        "{weighted:?}"
    );
}

#[test]
fn each_queue_may_hold_what_is_left_with_any_weight() {
    let mut policer = policer(8_000, 1_000, &[1, 7]);
    policer.tokens = 0;
    for _ in 0..3 {
        assert_eq!(policer.offer(0, &packet(0, 150)), Decision::Pass);
    }
    // 550 of the size are left, of which the queue has 450.
    assert_eq!(policer.offer(0, &packet(0, 101)), Decision::Drop);
    assert_eq!(policer.offer(0, &packet(0, 100)), Decision::Pass);
    // 450 are left for the other, no more for its weight.
    assert_eq!(policer.offer(0, &packet(1, 451)), Decision::Drop);
    assert_eq!(policer.offer(0, &packet(1, 450)), Decision::Pass);
    assert_eq!(policer.offer(0, &packet(1, 1)), Decision::Drop);
    // 80 tokens by 80 ms: 10 and 70; half of that by 40 ms, which looking at changes nothing of.
    assert_eq!(policer.occupancy(40_000_000), [545, 415]);
    assert_eq!((policer.held(0), policer.held(1)), (550, 450));
    assert_eq!(policer.offer(80_000_000, &packet(1, 1_000)), Decision::Drop);
    assert_eq!((policer.held(0), policer.held(1)), (540, 380));
}

#[test]
fn weights_are_checked() {
    let new = |weights: &[u32]| match WaterFillingConfig::new(rate(8_000), 1, weights) {
        Err(ConfigError::Weights(error)) => Some(error),
        _ => None,
    };
    assert_eq!(new(&[]), Some(PolicyError::Empty));
    assert_eq!(new(&[1, 0]), Some(PolicyError::Weight(0)));
    assert_eq!(new(&[1; 1_024]), Some(PolicyError::Nodes(1_025)));
    assert_eq!(new(&[1; 1_023]), None);
}

#[test]
fn the_rate_changes_live() {
    let mut policer = policer(8_000, 1_000, &[1]);
    policer.tokens = 0;
    assert_eq!(policer.offer(0, &packet(0, 500)), Decision::Pass);
    policer.set_rate(100_000_000, rate(800_000));
    assert_eq!(policer.held(0), 400);
    policer.offer(101_000_000, &packet(0, 1_000));
    assert_eq!(policer.held(0), 300);
}
