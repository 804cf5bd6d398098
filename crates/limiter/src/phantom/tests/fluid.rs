//! Phantom queues against what they stand for: a fluid that is drained all the time, computed
//! for each packet from the beginning in floating point.

use std::sync::Arc;

use proptest::prelude::*;

use super::super::{
    BurstControl, PaperControl, PhantomQueuesConfig, QueueFill, SizedPhantomQueues,
};
use crate::policy::Kind;
use crate::{Decision, Meter, PacketMeta, PolicyTree, Program, Rate};

type Queues = SizedPhantomQueues<64, 32>;

fn phantom(program: Arc<Program>, rate: Rate, size: u64, control: Option<BurstControl>) -> Queues {
    let config = PhantomQueuesConfig::new(program, rate, size).unwrap();
    let config = match control {
        Some(control) => config.with_burst_control(control),
        None => config,
    };
    Queues::new(&config, 0).unwrap()
}

/// The fluid reference [BCPQP §3.3, "analogous shaper system"].
struct Fluid {
    program: Arc<Program>,
    lengths: Vec<f64>,
}

impl Fluid {
    fn backlog(&self, node: usize) -> f64 {
        let at = &self.program.nodes()[node];
        match at.kind {
            Kind::Queue(queue) => self.lengths[usize::from(queue)],
            _ => at.children().map(|child| self.backlog(child)).sum(),
        }
    }

    fn drain(&mut self, node: usize, bytes: f64) {
        let program = Arc::clone(&self.program);
        let at = &program.nodes()[node];
        match at.kind {
            Kind::Queue(queue) => {
                let length = &mut self.lengths[usize::from(queue)];
                *length = (*length - bytes).max(0.0);
            }
            Kind::Priority => {
                let mut left = bytes;
                for child in at.children() {
                    let drained = left.min(self.backlog(child));
                    self.drain(child, drained);
                    left -= drained;
                }
            }
            Kind::Weighted => {
                // Water-filling: a queue that has less than its share gives the rest to the others.
                let mut left = bytes;
                let mut active: Vec<_> = at
                    .children()
                    .filter(|&child| self.backlog(child) > 0.0)
                    .collect();
                active.sort_by(|&a, &b| {
                    let time =
                        |node: usize| self.backlog(node) / f64::from(program.nodes()[node].weight);
                    time(a).total_cmp(&time(b))
                });
                let mut weights: f64 = active
                    .iter()
                    .map(|&child| f64::from(program.nodes()[child].weight))
                    .sum();
                for child in active {
                    let weight = f64::from(program.nodes()[child].weight);
                    let drained = self.backlog(child).min(left * weight / weights);
                    self.drain(child, drained);
                    left -= drained;
                    weights -= weight;
                }
            }
        }
    }
}

pub(in super::super) fn policies() -> impl Strategy<Value = PolicyTree> {
    let leaf = prop_oneof![
        Just(PolicyTree::queue()),
        (1u16..5).prop_map(|queues| PolicyTree::fair(queues).unwrap()),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec((1u32..9, inner.clone()), 1..4)
                .prop_map(|parts| PolicyTree::weighted(parts).unwrap()),
            prop::collection::vec(inner, 1..4)
                .prop_map(|parts| PolicyTree::priority(parts).unwrap()),
        ]
    })
    .prop_filter("too large", |policy| {
        let program = Program::new(policy);
        program.queues() <= 64 && program.shares() <= 32
    })
}

fn controls() -> impl Strategy<Value = Option<BurstControl>> {
    let paper = BurstControl::Paper(PaperControl::DEFAULT);
    prop_oneof![
        Just(None),
        Just(Some(BurstControl::Bucket)),
        Just(Some(paper))
    ]
}

/// Gaps in nanoseconds, queues and lengths of packets.
fn arrivals() -> impl Strategy<Value = Vec<(u64, u16, u32)>> {
    let gap = prop_oneof![
        6 => 0u64..400_000,
        3 => 0u64..4_000_000,
        1 => 0u64..2_000_000_000,
    ];
    prop::collection::vec((gap, any::<u16>(), 1u32..1600), 1..250)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn queues_drain_as_the_fluid(
        policy in policies(),
        arrivals in arrivals(),
        bits in 1_000_000u64..60_000_000,
        size in 3_000u64..60_000,
    ) {
        let program = Arc::new(Program::new(&policy));
        let rate = Rate::from_bits_per_second(bits);
        let mut limiter = phantom(program.clone(), rate, size, None);
        let mut fluid = Fluid { program: program.clone(), lengths: vec![0.0; program.queues()] };
        // What rounding to whole bytes may come to: less than the sum of weights at each level.
        let tolerance = 100.0;
        let (mut now, mut total, mut meter) = (0, 0u64, Meter::new(rate, 0));
        for (gap, queue, bytes) in arrivals {
            now += gap;
            let queue = queue % program.queues() as u16;
            fluid.drain(0, bits as f64 * gap as f64 / 8e9);
            total = total.saturating_sub(meter.advance(now));
            if total == 0 {
                meter.forget();
            }
            let before = fluid.lengths[usize::from(queue)] + f64::from(bytes);
            let packet = PacketMeta { bytes, queue, ..PacketMeta::default() };
            let decision = limiter.offer(now, &packet);
            if decision == Decision::Pass {
                prop_assert!(before <= size as f64 + tolerance);
                fluid.lengths[usize::from(queue)] += f64::from(bytes);
                total += u64::from(bytes);
            } else {
                prop_assert!(before >= size as f64 - tolerance);
            }
            // All together: to the byte. Nothing is lost, the rate is never idle needlessly.
            prop_assert_eq!(limiter.backlog(), total);
            let occupancy: Vec<_> = limiter.clone().occupancy(now).collect();
            for (queue, QueueFill { bytes: length, magic }) in occupancy.into_iter().enumerate() {
                prop_assert!(length <= size);
                prop_assert_eq!(magic, 0);
                let found = length as f64 - fluid.lengths[queue];
                prop_assert!(found.abs() <= tolerance, "queue {queue} is off by {found}");
            }
        }
    }

    #[test]
    fn settling_less_often_changes_nothing(
        queues in 1u16..17,
        arrivals in arrivals(),
        bits in 1_000_000u64..60_000_000,
        size in 1_500u64..60_000,
        controlled in any::<bool>(),
        change in (0usize..250, 1_000_000u64..60_000_000),
    ) {
        let program = Arc::new(Program::new(&PolicyTree::fair(queues).unwrap()));
        let rate = Rate::from_bits_per_second(bits);
        let control = controlled.then_some(BurstControl::Bucket);
        let mut lazy = phantom(program, rate, size, control);
        prop_assert!(lazy.fair);
        let mut eager = lazy.clone();
        eager.fair = false;
        let mut now = 0;
        for (number, (gap, queue, bytes)) in arrivals.into_iter().enumerate() {
            now += gap;
            if number == change.0 {
                let rate = Rate::from_bits_per_second(change.1);
                lazy.set(now, rate, control).unwrap();
                eager.set(now, rate, control).unwrap();
            }
            let queue = queue % queues;
            let packet = PacketMeta { bytes, queue, ..PacketMeta::default() };
            prop_assert_eq!(lazy.offer(now, &packet), eager.offer(now, &packet));
            prop_assert_eq!(lazy.backlog(), eager.backlog());
            let held: Vec<_> = lazy.clone().occupancy(now).collect();
            prop_assert!(eager.clone().occupancy(now).eq(held));
        }
    }

    #[test]
    fn bounds_hold_over_every_interval(
        policy in policies(),
        arrivals in arrivals(),
        bits in 8_000u64..60_000_000,
        size in 1_500u64..60_000,
        control in controls(),
    ) {
        let program = Arc::new(Program::new(&policy));
        let rate = Rate::from_bits_per_second(bits);
        let mut limiter = phantom(program.clone(), rate, size, control);
        let queues = program.queues();
        let mut now = 0;
        // (time, queue, bytes) of what was accepted; `before` has the backlogs at that time.
        let mut accepted: Vec<(u64, usize, u64)> = Vec::new();
        for (gap, queue, bytes) in arrivals {
            now += gap;
            let queue = queue % queues as u16;
            let packet = PacketMeta { bytes, queue, ..PacketMeta::default() };
            if limiter.offer(now, &packet) == Decision::Pass {
                accepted.push((now, usize::from(queue), u64::from(bytes)));
            }
            let held: Vec<_> = limiter.clone().occupancy(now).collect();
            for fill in &held {
                prop_assert!(fill.bytes <= size && fill.magic <= fill.bytes);
            }
            // What was given and not handed on is in the queues still.
            prop_assert!(limiter.backlog() <= held.iter().map(|fill| fill.bytes).sum());
        }
        // Theorem 1 and its corollary, upper bounds: rΔt + B a queue, rΔt + ΣB together. Served in the
        // interval is also what others made no use of before it.
        let bucket = match control {
            Some(BurstControl::Bucket) => BurstControl::Bucket.upper_bytes(rate),
            _ => 0,
        };
        for from in 0..accepted.len() {
            let unused = if from == 0 { 0 } else { bucket.min(size) * queues as u64 };
            let mut sums = vec![0u64; queues];
            for &(at, queue, bytes) in &accepted[from..] {
                sums[queue] += bytes;
                let elapsed = u128::from(at - accepted[from].0);
                let served = (elapsed * u128::from(bits)).div_ceil(8_000_000_000) as u64 + unused;
                prop_assert!(sums[queue] <= size + served);
                prop_assert!(sums.iter().sum::<u64>() <= size * queues as u64 + served);
                // Three quarters of a burst fit into the bucket, beside what drains from it.
                if bucket > 0 {
                    let most = bucket.max(1500) + 1600 + served;
                    prop_assert!(sums[queue] * 3 <= most * 4);
                }
            }
        }
    }
}
