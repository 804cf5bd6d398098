//! Tests that the programs and the limiter crate decide in the same way, packet by packet.

use std::os::fd::AsRawFd;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use tidegate_limiter::{
    Classifier, Decision, Ecn, Headers, Nanos, PacketMeta, PaperControl, Ports, SizedPhantomQueues,
    Thresholds, TokenBucket,
};

use super::*;
use draw::{
    control, draw_boost, draw_control, draw_plan, draw_policy, draw_rate, draw_size, spread,
};

mod carried;
#[cfg(feature = "dpdk")]
mod dpdk;
mod draw;
mod host;
mod nodes;

/// The reference of one limiter.
pub(super) enum Reference {
    Queues(Box<SizedPhantomQueues<24, 5>>),
    Bucket(TokenBucket),
}

impl Reference {
    pub(super) fn new(plan: &Draft, now: Nanos) -> Self {
        match plan.plan().limiter() {
            LimiterConfig::PhantomQueues(config) => {
                Self::Queues(Box::new(SizedPhantomQueues::new(config, now).unwrap()))
            }
            LimiterConfig::Policer(config) => Self::Bucket(TokenBucket::new(config, now)),
            _ => unreachable!("nothing to compare"),
        }
    }

    /// Another plan of the same policy.
    fn set(&mut self, plan: &Draft, now: Nanos) {
        match (self, &plan.means) {
            (Self::Queues(queues), Means::PhantomQueues { control, .. }) => {
                queues.set(now, plan.rate, *control).unwrap();
                queues.set_boost(plan.boost);
            }
            (Self::Bucket(bucket), &Means::Policer { burst }) => {
                bucket.set(now, &PolicerConfig::new(plan.rate, burst).unwrap());
            }
            _ => unreachable!("another limiter"),
        }
    }

    pub(super) fn offer(&mut self, now: Nanos, packet: &PacketMeta) -> Decision {
        match self {
            Self::Queues(queues) => queues.offer(now, packet),
            Self::Bucket(bucket) => bucket.offer(now, packet),
        }
    }
}

/// A limiter in the kernel beside its reference.
struct Pair<'a> {
    gate: &'a mut Gate,
    reference: Option<Reference>,
    classifier: Classifier,
    plan: Draft,
    seat: Seat,
    changed: bool,
    /// How far the kernel's clock is ahead of the reference's.
    ahead: Nanos,
    /// Frames of each flow, to be cut to size.
    frames: Vec<Vec<u8>>,
    tc: std::os::fd::OwnedFd,
    xdp: std::os::fd::OwnedFd,
    /// Packets, those that were dropped, and those that were marked.
    sent: (u64, u64, u64),
}

const FLOWS: u16 = 60;

/// The flows are of six hosts, of which the first has half of them.
fn host_of(flow: u16) -> u8 {
    flow.saturating_sub(FLOWS / 2).div_ceil(6) as u8
}

impl<'a> Pair<'a> {
    fn new(gate: &'a mut Gate, plan: Draft) -> Self {
        let (tc, xdp) = (gate.program("tc_down"), gate.program("xdp_down"));
        gate.kernel().forget(0).unwrap();
        let classifier = Self::classifier(&plan);
        let mut pair = Self {
            gate,
            reference: None,
            classifier,
            seat: Seat {
                limiter: 0,
                plan: 0,
                version: 0,
                ..Seat::default()
            },
            plan,
            changed: false,
            ahead: 0,
            frames: (0..FLOWS)
                .map(|flow| frame([192, 0, 2, host_of(flow)], flow, u16::MAX))
                .collect(),
            tc,
            xdp,
            sent: (0, 0, 0),
        };
        pair.sit();
        pair
    }

    fn classifier(plan: &Draft) -> Classifier {
        let rules = plan.rules.clone();
        Classifier::new(&plan.program, rules, plan.default_class, settings().hash).unwrap()
    }

    /// Follows the same plan, with another number.
    fn sit(&mut self) {
        self.seat.plan = (self.seat.plan + 1) % 100;
        self.seat.version = self.seat.version.wrapping_add(1);
        let kernel = self.gate.kernel();
        kernel.put_plan(self.seat.plan, &self.plan.plan()).unwrap();
        let matched = Match::Prefix("192.0.2.0/29".parse().unwrap());
        kernel
            .seat(Direction::Down, &[(matched, self.seat)])
            .unwrap();
        self.changed = true;
    }

    /// Offers a packet to both. Returns whether they decide the same.
    fn offer(&mut self, now: Nanos, flow: u16, bytes: u16) -> bool {
        if std::mem::take(&mut self.changed) {
            match &mut self.reference {
                Some(reference) => reference.set(&self.plan, now),
                None => self.reference = Some(Reference::new(&self.plan, now)),
            }
        }
        let headers = Headers {
            source: "198.51.100.1".parse().unwrap(),
            destination: [192, 0, 2, host_of(flow)].into(),
            protocol: 17,
            ports: Some(Ports {
                source: flow,
                destination: 443,
            }),
            dscp: 0,
        };
        let packet = self.classifier.classify(&headers.into(), u32::from(bytes));
        // By their numbers, flows use ECN or do not.
        let ecn = Ecn::of((flow % 5) as u8);
        let packet = PacketMeta { ecn, ..packet };
        let expected = self.reference.as_mut().unwrap().offer(now, &packet);
        let frame = &mut self.frames[usize::from(flow)];
        frame[15] = ecn as u8;
        frame[16..18].copy_from_slice(&bytes.to_be_bytes());
        let frame = &frame[..14 + usize::from(bytes)];
        let kernel = self.gate.kernel.as_mut().unwrap();
        kernel
            .update(
                "test_time",
                &0u32.to_ne_bytes(),
                &(now + self.ahead).to_ne_bytes(),
            )
            .unwrap();
        // A test at tc does not allow more than a page.
        let (program, drop) = match bytes <= 1_500 {
            true => (&self.tc, 2),
            false => (&self.xdp, 1),
        };
        let (verdict, after) = sys::test_run(program.as_raw_fd(), frame, 1).unwrap();
        let dropped = verdict == drop;
        let marked = !dropped && after[15] != frame[15];
        self.sent.0 += 1;
        self.sent.1 += u64::from(dropped);
        self.sent.2 += u64::from(marked);
        let marks = expected == Decision::Ce && ecn != Ecn::Ce;
        (dropped, marked) == (expected == Decision::Drop, marks)
    }
}

/// Gaps, sizes and flows that change their pattern from time to time.
struct Sequence {
    random: Pcg64,
    now: Nanos,
    manner: u32,
    flows: u16,
    rate: u64,
}

impl Sequence {
    /// Begins at a random time, with packets by this seed.
    fn new(random: &mut Pcg64, seed: u64, rate: u64) -> Self {
        Self {
            now: random.random_range(0..1 << 50),
            rate,
            random: Pcg64::seed_from_u64(seed + 1),
            manner: 0,
            flows: FLOWS,
        }
    }

    fn next(&mut self) -> (Nanos, u16, u16) {
        let random = &mut self.random;
        if random.random_ratio(1, 50) {
            self.manner = random.random_range(0..8);
            self.flows = random.random_range(1..=FLOWS);
        }
        let bytes = match random.random_range(0..10) {
            0 => 28,
            1 => random.random_range(28..u16::MAX),
            2 => random.random_range(28..200),
            _ => 1_500,
        };
        // The time that the packet needs at the rate.
        let due = (u128::from(bytes) * 8_000_000_000 / u128::from(self.rate)) as u64;
        let gap = match self.manner {
            0 => 0,
            1 | 2 => due / 2,
            3 => due + random.random_range(0..=due / 8),
            4 => random.random_range(0..=due * 4),
            5 => random.random_range(0..=due / 8),
            6 if random.random_ratio(1, 20) => random.random_range(0..20_000_000_000),
            6 => due / 3,
            _ if random.random_ratio(1, 60) => 1 << random.random_range(30..45),
            _ => random.random_range(0..1_000),
        };
        let back = if random.random_ratio(1, 40) {
            random.random_range(0..1_000_000)
        } else {
            0
        };
        self.now = self.now.saturating_add(gap);
        let flow = random.random_range(0..self.flows);
        (self.now.saturating_sub(back), flow, bytes)
    }
}

/// Another random plan of the same policy. Returns its rate.
fn switch(pair: &mut Pair<'_>, random: &mut Pcg64) -> u64 {
    pair.plan.rate = draw_rate(random);
    pair.plan.boost = draw_boost(random, pair.plan.rate);
    match &mut pair.plan.means {
        Means::PhantomQueues { control, .. } => *control = draw_control(random),
        Means::Policer { burst } => *burst = random.random_range(1..100_000),
        Means::Unlimited => {}
    }
    pair.sit();
    pair.plan.rate.bits_per_second()
}

fn compare(
    gate: &mut Gate,
    seed: u64,
    plan: Draft,
    packets: u32,
    switches: bool,
) -> (u64, u64, u64) {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut sequence = Sequence::new(&mut random, seed, plan.rate.bits_per_second());
    let mut pair = Pair::new(gate, plan);
    for number in 0..packets {
        if switches && random.random_ratio(1, 300) {
            sequence.rate = switch(&mut pair, &mut random);
        }
        let (now, flow, bytes) = sequence.next();
        assert!(
            pair.offer(now, flow, bytes),
            "seed {seed}, packet {number}: {:?} at {now}, flow {flow}, {bytes} bytes",
            pair.plan,
        );
    }
    let counted = pair.gate.kernel().read(0).unwrap().counters.marked_packets;
    assert_eq!(counted, pair.sent.2, "seed {seed}");
    pair.sent
}

fn compare_all(test: &str, seeds: std::ops::Range<u64>, policy: fn(&mut Pcg64) -> PolicyTree) {
    let Some(mut gate) = gate(test) else { return };
    let (mut packets, mut dropped, mut marked) = (0, 0, 0);
    for seed in seeds {
        let mut random = Pcg64::seed_from_u64(seed);
        let policy = policy(&mut random);
        let rate = draw_rate(&mut random);
        let means = Means::PhantomQueues {
            size: draw_size(&mut random, rate),
            control: draw_control(&mut random),
        };
        let plan = draw_plan(&mut random, rate, means, &policy);
        let sent = compare(&mut gate, seed, plan, 3_000, seed % 2 == 1);
        packets += sent.0;
        dropped += sent.1;
        marked += sent.2;
    }
    assert!(marked * 500 > packets, "{marked} of {packets} were marked");
    // Both outcomes were seen.
    assert!(
        dropped * 20 > packets && dropped * 20 < packets * 19,
        "{dropped} of {packets}"
    );
}

#[test]
fn fair_queues_decide_as_the_reference() {
    compare_all("fair_queues_decide_as_the_reference", 0..40, |random| {
        PolicyTree::fair(random.random_range(1..=24)).unwrap()
    });
}

#[test]
fn weighted_queues_decide_as_the_reference() {
    compare_all(
        "weighted_queues_decide_as_the_reference",
        100..130,
        |random| {
            let part = |_| {
                (
                    random.random_range(1..=PolicyTree::MAX_WEIGHT),
                    PolicyTree::queue(),
                )
            };
            PolicyTree::weighted((0..16).map(part).collect()).unwrap()
        },
    );
}

#[test]
fn queues_by_priority_decide_as_the_reference() {
    compare_all(
        "queues_by_priority_decide_as_the_reference",
        200..230,
        |random| {
            let fair = PolicyTree::fair(random.random_range(1..=16)).unwrap();
            PolicyTree::priority(vec![PolicyTree::queue(), fair, PolicyTree::queue()]).unwrap()
        },
    );
}

#[test]
fn hosts_decide_as_the_reference() {
    compare_all("hosts_decide_as_the_reference", 400..440, |random| {
        let hosts = random.random_range(1..=4);
        let most = 24 / hosts;
        PolicyTree::hosts(hosts, random.random_range(1..=most)).unwrap()
    });
}

#[test]
fn any_policy_decides_as_the_reference() {
    compare_all("any_policy_decides_as_the_reference", 300..400, draw_policy);
}

#[test]
fn a_policer_decides_as_the_reference() {
    let Some(mut gate) = gate("a_policer_decides_as_the_reference") else {
        return;
    };
    for seed in 500..530 {
        let mut random = Pcg64::seed_from_u64(seed);
        let rate = draw_rate(&mut random);
        let burst = draw_size(&mut random, rate);
        let plan = Draft {
            rate,
            ..draft(Means::Policer { burst }, &PolicyTree::fair(4).unwrap())
        };
        compare(&mut gate, seed, plan, 3_000, seed % 2 == 1);
    }
}

#[test]
fn burst_control_that_comes_back_starts_from_zero() {
    let Some(mut gate) = gate("burst_control_that_comes_back_starts_from_zero") else {
        return;
    };
    for seed in 600..660 {
        let mut random = Pcg64::seed_from_u64(seed);
        let policy = if seed % 2 == 0 {
            PolicyTree::fair(4).unwrap()
        } else {
            draw_policy(&mut random)
        };
        let paper = BurstControl::Paper(PaperControl::DEFAULT);
        let controls = match seed % 3 {
            0 => [Some(paper), None],
            1 => [Some(BurstControl::Bucket), None],
            _ => [Some(BurstControl::Bucket), Some(paper)],
        };
        let mut plan = draft(
            Means::PhantomQueues {
                size: 100_000,
                control: controls[0],
            },
            &policy,
        );
        plan.rules = spread(&plan.program);
        let mut pair = Pair::new(&mut gate, plan);
        // Also within the very first period. Packets arrive at between the rate and twice the rate.
        let mut now = random.random_range(0..2) * 5_000_000_000;
        let (mut switches, mut flows) = (0, 4);
        for number in 0..1_000 {
            if random.random_ratio(1, 20) {
                switches += 1;
                flows = random.random_range(1..=FLOWS);
                if let Means::PhantomQueues { control, .. } = &mut pair.plan.means {
                    *control = controls[switches % 2];
                }
                pair.sit();
            }
            now += random.random_range(500_000..2_000_000);
            assert!(
                pair.offer(now, random.random_range(0..flows), 1_500),
                "seed {seed}, packet {number}, switch {switches}"
            );
        }
    }
}

#[test]
fn what_was_idle_for_any_time_is_empty() {
    let Some(mut gate) = gate("what_was_idle_for_any_time_is_empty") else {
        return;
    };
    // A queue, and a node with queues below it, beside a queue that magic bytes keep busy for
    // hours.
    let most = PolicyTree::MAX_WEIGHT;
    for idle in [PolicyTree::queue(), PolicyTree::fair(2).unwrap()] {
        let parts = vec![(1, PolicyTree::queue()), (most, idle)];
        let (upper, lower) = (2, 0);
        let control = Some(control(1_000_000, Thresholds { upper, lower }));
        let size = 1 << 54;
        let means = Means::PhantomQueues { size, control };
        let mut plan = draft(means, &PolicyTree::weighted(parts).unwrap());
        plan.rate = Rate::from_bits_per_second(400_000_000_000);
        plan.rules = spread(&plan.program);
        let mut pair = Pair::new(&mut gate, plan);
        let (busy, other) = (0, FLOWS - 1);
        let filled = (0..200).any(|_| {
            assert!(pair.offer(1, busy, 65_000));
            let state = pair.gate.kernel().read(0).unwrap();
            state.queues[0].length > size / 2
        });
        assert!(filled, "no magic bytes came");
        // Multiplied with its weight, the advance of the clock needs all of 64 bits.
        let now = 7 * 3_600_000_000_000;
        assert!(pair.offer(now, busy, 65_000));
        let dropped = pair.sent.1;
        for packet in 0..10 {
            assert!(pair.offer(now, other, 65_000), "packet {packet}");
        }
        // The packet passes, until magic bytes fill its queue as well.
        assert!((1..10).contains(&(pair.sent.1 - dropped)));
    }
}

#[test]
fn queues_that_shrink_begin_empty() {
    let Some(mut gate) = gate("queues_that_shrink_begin_empty") else {
        return;
    };
    for (number, policy) in [
        PolicyTree::fair(4).unwrap(),
        PolicyTree::priority(vec![PolicyTree::fair(2).unwrap(), PolicyTree::queue()]).unwrap(),
    ]
    .into_iter()
    .enumerate()
    {
        let number = number as u32;
        let offer = |gate: &mut Gate, size, version, now| {
            let control = None;
            let mut plan = draft(Means::PhantomQueues { size, control }, &policy);
            plan.rate = Rate::from_bits_per_second(size * 8);
            let at = number * 10 + version;
            gate.kernel().put_plan(at, &plan.plan()).unwrap();
            let seat = Seat {
                limiter: number,
                plan: at,
                version,
                ..Seat::default()
            };
            let matched = Match::Prefix("192.0.2.1".parse().unwrap());
            let seats = [(matched, seat)];
            gate.kernel().seat(Direction::Down, &seats).unwrap();
            let frame = frame([192, 0, 2, 1], 1, 1_000);
            gate.offer("tc_down", now, &frame) != 2
        };
        for _ in 0..1_000 {
            assert!(offer(&mut gate, 1_000_000, 1, 1));
        }
        // It drains 10 kB in this time, and 1 MB in a hundred times.
        for (packet, passes) in [(0, true), (1, true), (9, true), (10, false)] {
            let now = 2 + if packet < 10 { 0 } else { 1 };
            let passed = match packet {
                9 => (2..10).all(|_| offer(&mut gate, 10_000, 2, now)),
                _ => offer(&mut gate, 10_000, 2, now),
            };
            assert_eq!(passed, passes, "{packet}");
        }
        let state = gate.kernel().read(number).unwrap();
        let sum =
            |of: fn(&crate::table::QueueState) -> u64| state.queues.iter().map(of).sum::<u64>();
        assert_eq!(sum(|queue| queue.length), 10_000);
        assert_eq!(sum(|queue| queue.passed_bytes), 1_010_000);
        assert_eq!(sum(|queue| queue.excess_bytes), 1_000);
        assert_eq!(state.counters.passed_bytes, 1_010_000);
        // Queues that grow keep their content.
        assert!(offer(&mut gate, 20_000, 3, 3));
        let state = gate.kernel().read(number).unwrap();
        let held: u64 = state.queues.iter().map(|queue| queue.length).sum();
        assert_eq!(held, 11_000);
    }
}
