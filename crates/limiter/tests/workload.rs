//! A fixed workload through every limiter: the same verdicts on every machine, and no allocation.

#![allow(clippy::unwrap_used)]

use std::alloc::System;
use std::sync::Arc;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tidegate_limiter::{
    BurstControl, Classifier, ColourMode, Decision, FairPolicer, FlowKey, HashKey, Marking, Nanos,
    PacketMeta, PhantomQueues, PolicyTree, Program, Rate, Shaper, ShaperConfig, SingleRateMarker,
    TokenBucket, TwoRateMarker, WaterFillingPolicer,
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PACKETS: u64 = 200_000;

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
            flow: (flow as u32 + 1).wrapping_mul(0x9e37_79b9),
        };
        digest = (digest ^ u64::from(offer(now, &packet))).wrapping_mul(0x100_0000_01b3);
    }
    let change = region.change();
    assert_eq!((change.allocations, change.reallocations), (0, 0));
    digest
}

fn answer(decision: Decision) -> u8 {
    match decision {
        Decision::Pass => 1,
        Decision::Mark(dscp) => 2 + dscp,
        Decision::Drop => 0,
    }
}

fn nested() -> Arc<Program> {
    let queue = PolicyTree::queue;
    let fair = PolicyTree::fair(4).expect("four queues");
    let weighted =
        PolicyTree::weighted(vec![(4, fair), (1, queue()), (2, queue())]).expect("few parts");
    let policy = PolicyTree::priority(vec![queue(), weighted, queue()]).expect("few parts");
    Arc::new(Program::new(&policy))
}

// Without the test harness: its threads allocate too, and the allocator counts for all.
fn main() {
    let rate = Rate::from_bits_per_second(10_000_000);
    let fair = Arc::new(Program::new(&PolicyTree::fair(16).unwrap()));
    let control = Some(BurstControl::default());
    let phantom = |program: &Arc<Program>, control| {
        let program = Arc::clone(program);
        PhantomQueues::<16, 4>::new(program, rate, 600_000, control, 0).unwrap()
    };
    let marking = Marking {
        green: Decision::Pass,
        yellow: Decision::Mark(12),
        red: Decision::Drop,
    };
    let mut found: Vec<(&str, u64)> = Vec::new();

    let mut bucket = TokenBucket::new(rate, 125_000, 0);
    found.push((
        "policer",
        digest(1, |now, packet| answer(bucket.offer(now, packet))),
    ));
    let mut single =
        SingleRateMarker::new(rate, 50_000, 50_000, ColourMode::Blind, marking, 0).unwrap();
    found.push((
        "srtcm",
        digest(1, |now, packet| answer(single.offer(now, packet))),
    ));
    let two = (Rate::from_bits_per_second(20_000_000), 50_000);
    let mut double =
        TwoRateMarker::new(two, (rate, 50_000), ColourMode::Blind, marking, 0).unwrap();
    found.push((
        "trtcm",
        digest(1, |now, packet| answer(double.offer(now, packet))),
    ));
    let mut exact = FairPolicer::exact(rate, 125_000, 64, 0);
    found.push((
        "fair exact",
        digest(16, |now, packet| answer(exact.offer(now, packet))),
    ));
    let mut sketch = FairPolicer::sketched(rate, 125_000, 64, 7, 0);
    found.push((
        "fair sketch",
        digest(16, |now, packet| answer(sketch.offer(now, packet))),
    ));
    let mut water = WaterFillingPolicer::new(rate, 125_000, &[3; 16], 0).unwrap();
    found.push((
        "water-filling",
        digest(16, |now, packet| answer(water.offer(now, packet))),
    ));
    for (name, program, control) in [
        ("pqp", &fair, None),
        ("bc-pqp", &fair, control),
        ("pqp nested", &nested(), None),
        ("bc-pqp nested", &nested(), control),
    ] {
        let mut limiter = phantom(program, control);
        let queues = program.queues() as u64;
        found.push((
            name,
            digest(queues, |now, packet| answer(limiter.offer(now, packet))),
        ));
    }
    for (name, program) in [("shaper", &fair), ("shaper nested", &nested())] {
        let config = ShaperConfig {
            rate,
            burst: 1500,
            queue_bytes: Some(60_000),
            queue_packets: Some(50),
        };
        let mut shaper = Shaper::new(Arc::clone(program), &config, 0);
        let queues = program.queues() as u64;
        let offer = |now, packet: &PacketMeta| {
            let mut released = 0u8;
            while let Some(queue) = shaper.poll_release(now) {
                released = released.wrapping_mul(31).wrapping_add(queue);
            }
            released ^ u8::from(shaper.offer(now, packet, packet.queue as u8).is_err())
        };
        found.push((name, digest(queues, offer)));
    }
    let classifier = Classifier::new(&nested(), Vec::new(), Some(1), HashKey::new(3, 4)).unwrap();
    let classify = |_, packet: &PacketMeta| {
        let source = std::net::Ipv4Addr::from_bits(packet.flow).into();
        let ports = Some((443, packet.bytes as u16));
        let key = FlowKey::new(source, [10, 0, 0, 1].into(), 6, ports, packet.dscp);
        classifier.classify(&key, packet.bytes).queue as u8
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

const EXPECTED: [(&str, u64); 13] = [
    ("policer", 0x1097_272f_7b68_d1fe),
    ("srtcm", 0x1b06_42ff_a5dc_be29),
    ("trtcm", 0x4296_63de_539b_5b12),
    ("fair exact", 0x7f1e_b9bd_eeb7_d184),
    ("fair sketch", 0x7f1e_b9bd_eeb7_d184),
    ("water-filling", 0x79b1_9c3c_4b2a_2d02),
    ("pqp", 0x9fd7_af8c_8916_7e71),
    ("bc-pqp", 0x7243_1d9d_a38f_212e),
    ("pqp nested", 0xd416_5816_0af6_87a2),
    ("bc-pqp nested", 0x25ba_4ec1_f23a_a64f),
    ("shaper", 0x3700_a838_25c6_c5fb),
    ("shaper nested", 0x573a_7eb4_a64f_cf86),
    ("classifier", 0x40b9_624f_aef6_3955),
];
