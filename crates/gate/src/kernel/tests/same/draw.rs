//! Random plans.

use super::*;

pub(super) fn draw_rate(random: &mut Pcg64) -> Rate {
    let bits: u64 = match random.random_range(0..6) {
        0 => random.random_range(8_000..100_000),
        1 => random.random_range(1_000_000_000..400_000_000_000),
        2 => 400_000_000_000,
        _ => random.random_range(100_000..1_000_000_000),
    };
    Rate::from_bits_per_second(bits)
}

pub(super) fn control(period: Nanos, thresholds: Thresholds) -> BurstControl {
    let control = PaperControl::DEFAULT.with_period(period).unwrap();
    BurstControl::Paper(control.with_thresholds(thresholds).unwrap())
}

pub(super) fn draw_control(random: &mut Pcg64) -> Option<BurstControl> {
    match random.random_range(0..8) {
        0 => None,
        1 => {
            let period = random.random_range(1..60_000_000_000);
            let upper = random.random_range(2..3_000);
            let lower = random.random_range(0..2);
            Some(control(period, Thresholds { upper, lower }))
        }
        2 => Some(control(1_000_000, PaperControl::DEFAULT.thresholds())),
        3 => Some(BurstControl::Paper(PaperControl::DEFAULT)),
        _ => Some(BurstControl::Bucket),
    }
}

pub(super) fn draw_size(random: &mut Pcg64, rate: Rate) -> u64 {
    let product = rate.bits_per_second() / 80; // 100 ms
    match random.random_range(0..5) {
        0 => random.random_range(1..10_000),
        1 => 1 << random.random_range(10..55),
        2 => product.max(1_500) * 10,
        _ => product.max(3_000),
    }
}

/// What may be saved: nothing, a few packets, seconds of the rate.
pub(super) fn draw_boost(random: &mut Pcg64, rate: Rate) -> u64 {
    match random.random_range(0..4) {
        0 => random.random_range(1..100_000),
        1 => rate.bits_per_second() / 8 * random.random_range(1..10),
        _ => 0,
    }
}

/// A random policy that fits.
pub(super) fn draw_policy(random: &mut Pcg64) -> PolicyTree {
    fn part(random: &mut Pcg64, depth: u32) -> PolicyTree {
        let count = random.random_range(1..=4);
        match random.random_range(0..if depth == 0 { 2 } else { 5 }) {
            0 => PolicyTree::queue(),
            1 if random.random() => {
                let hosts = random.random_range(1..=3);
                PolicyTree::hosts(hosts, random.random_range(1..=5)).unwrap()
            }
            1 => PolicyTree::fair(random.random_range(1..=12)).unwrap(),
            2 => {
                PolicyTree::priority((0..count).map(|_| part(random, depth - 1)).collect()).unwrap()
            }
            _ => {
                let parts = (0..count).map(|_| {
                    let weight = match random.random_range(0..3) {
                        0 => 1,
                        1 => random.random_range(1..10),
                        _ => random.random_range(1..=PolicyTree::MAX_WEIGHT),
                    };
                    (weight, part(random, depth - 1))
                });
                PolicyTree::weighted(parts.collect()).unwrap()
            }
        }
    }
    loop {
        let depth = random.random_range(1..=4);
        let policy = part(random, depth);
        let program = Policy::new(&policy);
        if program.queues() <= 24 && program.shares() <= 5 {
            return policy;
        }
    }
}

/// Packets of flows go to all classes, by their ports.
pub(super) fn spread(program: &Policy) -> Vec<tidegate_limiter::Rule> {
    let classes = program.classes().len() as u16;
    let rule = |class| {
        let first = class * FLOWS / classes;
        let last: u16 = (class + 1) * FLOWS / classes;
        tidegate_limiter::Rule {
            source_ports: first..=last.max(first + 1) - 1,
            class,
            ..Default::default()
        }
    };
    (0..classes.min(30)).map(rule).collect()
}

/// A plan of this rate, with a random boost, whose classes all get packets.
pub(super) fn draw_plan(
    random: &mut Pcg64,
    rate: Rate,
    means: Means,
    policy: &PolicyTree,
) -> Draft {
    let mut plan = Draft {
        rate,
        boost: draw_boost(random, rate),
        ..draft(means, policy)
    };
    plan.rules = spread(&plan.program);
    plan
}
