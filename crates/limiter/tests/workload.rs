//! A fixed workload through every limiter: the same verdicts on every machine, and no allocation.

#![allow(clippy::unwrap_used)]

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tidegate_limiter::{
    BurstControl, Classifier, Decision, Ecn, FairPolicerConfig, Fate, HashKey, Headers, Limiter,
    LimiterConfig, Marking, Nanos, PacketMeta, PaperControl, PhantomQueuesConfig, PolicerConfig,
    PolicyTree, Ports, Program, Rate, ShaperConfig, SingleRateBursts, SingleRateConfig,
    TwoRateConfig, TwoRates, WaterFillingConfig,
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PACKETS: u64 = 200_000;
const RATE: Rate = Rate::from_bits_per_second(10_000_000);

/// Knuth's MMIX generator, upper half.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 32) * bound) >> 32
    }
}

/// Calls with the time and a packet of 16 flows of many rates, bursts and silences: 24 Mbit/s on
/// average. Returns an FNV-1a digest of what the calls answer; they must not allocate.
fn digest(queues: u64, mut offer: impl FnMut(Nanos, &PacketMeta) -> u8) -> u64 {
    let mut random = Random(1);
    let (mut now, mut digest) = (0, 0xcbf2_9ce4_8422_2325_u64);
    let region = Region::new(ALLOCATOR);
    for _ in 0..PACKETS {
        now += match random.below(1000) {
            0 => random.below(40_000_000),
            1..=600 => 0,
            _ => random.below(1_300_000),
        };
        // Some flows send more than others.
        let flow = random.below(16) * random.below(16) / 15;
        let packet = PacketMeta {
            bytes: 40 + random.below(1461) as u32,
            queue: (flow % queues) as u16,
            dscp: (flow * 4) as u8,
            ecn: Ecn::NotEct,
            flow: (flow as u32 + 1).wrapping_mul(0x9e37_79b9),
            ..PacketMeta::default()
        };
        digest = (digest ^ u64::from(offer(now, &packet))).wrapping_mul(0x100_0000_01b3);
    }
    let change = region.change();
    assert_eq!((change.allocations, change.reallocations), (0, 0));
    digest
}

fn nested() -> PolicyTree {
    let queue = PolicyTree::queue;
    let fair = PolicyTree::fair(4).expect("four queues");
    let weighted =
        PolicyTree::weighted(vec![(4, fair), (1, queue()), (2, queue())]).expect("few parts");
    PolicyTree::priority(vec![queue(), weighted, queue()]).expect("few parts")
}

fn phantom(policy: &PolicyTree, control: Option<BurstControl>) -> LimiterConfig {
    let config = PhantomQueuesConfig::new(policy, RATE, 600_000).unwrap();
    LimiterConfig::PhantomQueues(match control {
        Some(control) => config.with_burst_control(control),
        None => config,
    })
}

fn shaper(policy: &PolicyTree) -> LimiterConfig {
    let config = ShaperConfig::new(policy, RATE).unwrap().with_burst(1500);
    let config = config.with_queue_bytes(60_000).unwrap();
    LimiterConfig::Shaper(config.with_queue_packets(50).unwrap())
}

/// All limiters, and from how many queues their packets come.
fn limiters() -> Vec<(&'static str, u64, LimiterConfig)> {
    let (fair, nested) = (PolicyTree::fair(16).unwrap(), nested());
    let control = Some(BurstControl::Bucket);
    let paper = Some(BurstControl::Paper(PaperControl::DEFAULT));
    let marking = Marking {
        green: Decision::Pass,
        yellow: Decision::Mark(12),
        red: Decision::Drop,
    };
    let bursts = SingleRateBursts {
        committed: 50_000,
        excess: 50_000,
    };
    let rates = TwoRates {
        committed: RATE,
        committed_burst: 50_000,
        peak: Rate::from_bits_per_second(20_000_000),
        peak_burst: 50_000,
    };
    let exact = FairPolicerConfig::new(RATE, 125_000)
        .unwrap()
        .with_flows(64);
    let sketch = exact.clone().with_sketch(7);
    let policer = PolicerConfig::new(RATE, 125_000).unwrap();
    let single = SingleRateConfig::new(RATE, bursts, marking).unwrap();
    let double = TwoRateConfig::new(rates, marking).unwrap();
    let water = WaterFillingConfig::new(RATE, 125_000, &[3; 16]).unwrap();
    vec![
        ("policer", 1, LimiterConfig::Policer(policer)),
        ("srtcm", 1, LimiterConfig::SingleRate(single)),
        ("trtcm", 1, LimiterConfig::TwoRate(double)),
        ("fair exact", 16, LimiterConfig::FairPolicer(exact)),
        ("fair sketch", 16, LimiterConfig::FairPolicer(sketch)),
        ("water-filling", 16, LimiterConfig::WaterFilling(water)),
        ("pqp", 16, phantom(&fair, None)),
        ("bc-pqp", 16, phantom(&fair, control)),
        ("bc-pqp paper", 16, phantom(&fair, paper)),
        ("pqp nested", 8, phantom(&nested, None)),
        ("bc-pqp nested", 8, phantom(&nested, control)),
        ("bc-pqp paper nested", 8, phantom(&nested, paper)),
        ("shaper", 16, shaper(&fair)),
        ("shaper nested", 8, shaper(&nested)),
    ]
}

// Without the test harness: its threads allocate too, and the allocator counts for all.
fn main() {
    let mut found: Vec<(&str, u64)> = Vec::new();
    for (name, queues, config) in limiters() {
        let mut limiter = Limiter::new(&config, 0);
        let offer = |now, packet: &PacketMeta| {
            let mut released = 0u8;
            while let Some(queue) = limiter.poll_release(now) {
                released = released.wrapping_mul(31).wrapping_add(queue);
            }
            let is_shaper = matches!(limiter, Limiter::Shaper(_));
            match limiter.offer(now, packet, packet.queue as u8) {
                Fate::Wait => released,
                Fate::Drop(_) if is_shaper => released ^ 1,
                Fate::Pass(_) => 1,
                Fate::Mark(_, dscp) => 2 + dscp,
                Fate::Ce(_) | Fate::Drop(_) => 0,
            }
        };
        found.push((name, digest(queues, offer)));
    }
    let classifier = Classifier::new(
        &Program::new(&nested()),
        Vec::new(),
        Some(1),
        HashKey::from_bytes((4u128 << 64 | 3).to_le_bytes()),
    )
    .unwrap();
    let classify = |_, packet: &PacketMeta| {
        let source = std::net::Ipv4Addr::from_bits(packet.flow).into();
        let headers = Headers {
            source,
            destination: [10, 0, 0, 1].into(),
            protocol: 6,
            ports: Some(Ports {
                source: 443,
                destination: packet.bytes as u16,
            }),
            dscp: packet.dscp,
        };
        classifier.classify(&headers.into(), packet.bytes).queue as u8
    };
    found.push(("classifier", digest(16, classify)));

    // What they were when their property tests were written. A limiter that is meant to decide
    // otherwise has another digest; nothing else may change one.
    let expected = EXPECTED.map(|(name, digest)| format!("{name}: {digest:016x}"));
    let found: Vec<_> = found
        .into_iter()
        .map(|(name, digest)| format!("{name}: {digest:016x}"))
        .collect();
    assert_eq!(found, expected);
}

const EXPECTED: [(&str, u64); 15] = [
    ("policer", 0x1097_272f_7b68_d1fe),
    ("srtcm", 0x1b06_42ff_a5dc_be29),
    ("trtcm", 0x4296_63de_539b_5b12),
    ("fair exact", 0x7f1e_b9bd_eeb7_d184),
    ("fair sketch", 0x7f1e_b9bd_eeb7_d184),
    ("water-filling", 0x79b1_9c3c_4b2a_2d02),
    ("pqp", 0x9fd7_af8c_8916_7e71),
    ("bc-pqp", 0x6eaa_82dc_5d84_a7dd),
    ("bc-pqp paper", 0x7243_1d9d_a38f_212e),
    ("pqp nested", 0xd416_5816_0af6_87a2),
    ("bc-pqp nested", 0xa448_6e0b_ae77_b498),
    ("bc-pqp paper nested", 0x25ba_4ec1_f23a_a64f),
    ("shaper", 0x3700_a838_25c6_c5fb),
    ("shaper nested", 0x573a_7eb4_a64f_cf86),
    ("classifier", 0x40b9_624f_aef6_3955),
];
