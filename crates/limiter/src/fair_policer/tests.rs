use std::collections::{HashMap, VecDeque};

use proptest::prelude::*;

use super::*;
use crate::bucket::tests::exceeds;

const BYTE: u128 = 8_000_000_000;

fn rate(bits: u64) -> Rate {
    Rate::from_bits_per_second(bits)
}

fn config(bits: u64, burst: u64, flows: u16) -> FairPolicerConfig {
    FairPolicerConfig {
        rate: rate(bits),
        burst,
        flows,
        sketch: None,
    }
}

fn exact(bits: u64, burst: u64, flows: u16) -> FairPolicer {
    FairPolicer::new(&config(bits, burst, flows), 0)
}

fn packet(flow: u32, bytes: u32) -> PacketMeta {
    PacketMeta {
        flow,
        bytes,
        ..Default::default()
    }
}

/// The three steps as they were written down, with times as whole bit-nanoseconds and tokens
/// counted from the last packet that passed. Counters are of cells, of which each flow has some.
struct Reference<F: Fn(u32) -> Vec<usize>> {
    bits: u128,
    burst: u128,
    tokens: u128,
    t_c: u128,
    aq_last: u128,
    aq: VecDeque<u32>,
    most_active: usize,
    cells: F,
    occ: HashMap<usize, u128>,
}

impl<F: Fn(u32) -> Vec<usize>> Reference<F> {
    fn new(bits: u64, burst: u64, most_active: usize, cells: F) -> Self {
        Self {
            bits: bits.into(),
            burst: u128::from(burst) * BYTE,
            tokens: u128::from(burst) * BYTE,
            t_c: 0,
            aq_last: 0,
            aq: VecDeque::new(),
            most_active,
            cells,
            occ: HashMap::new(),
        }
    }

    fn occ(&self, flow: u32) -> u128 {
        let cell = |cell| self.occ.get(cell).copied().unwrap_or(0);
        (self.cells)(flow).iter().map(cell).min().unwrap_or(0)
    }

    fn offer(&mut self, now: Nanos, flow: u32, bytes: u32) -> Decision {
        let now = u128::from(now) * self.bits;
        let turn = 100 * BYTE;
        let n = now.saturating_sub(self.aq_last) / turn;
        for _ in 0..n {
            let Some(g) = self.aq.pop_front() else { break };
            let occ = self.occ(g);
            for cell in (self.cells)(g) {
                *self.occ.entry(cell).or_default() -= if occ > 100 { 100 } else { occ };
            }
            if occ > 100 {
                self.aq.push_back(g);
            }
        }
        self.aq_last = if self.aq.is_empty() {
            now
        } else {
            self.aq_last + n * turn
        };
        let t = self.burst.min(self.tokens + now - self.t_c);
        let (occ, size) = (self.occ(flow), u128::from(bytes));
        let room = occ > 0 || self.aq.len() < self.most_active;
        if occ * BYTE <= t && t >= size * BYTE && room {
            if occ == 0 {
                self.aq.push_back(flow);
            }
            for cell in (self.cells)(flow) {
                *self.occ.entry(cell).or_default() += size;
            }
            self.tokens = t - size * BYTE;
            self.t_c = now;
            Decision::Pass
        } else {
            Decision::Drop
        }
    }
}

/// Packets as flow, bytes and time since the last one, relative to what the bytes take at the
/// rate, in hundredths; now and then a pause.
fn packets() -> impl Strategy<Value = Vec<(u32, u32, u64)>> {
    let gap = prop_oneof![30 => 0u64..150, 1 => 0u64..100_000];
    prop::collection::vec((0u32..6, 1u32..1_600, gap), 1..300)
}

fn times(bits: u64, packets: &[(u32, u32, u64)]) -> Vec<(Nanos, u32, u32)> {
    let mut now = 0;
    let at = |&(flow, bytes, gap): &(u32, u32, u64)| {
        now += u64::from(bytes) * gap * 80_000_000 / bits;
        (now, flow, bytes)
    };
    packets.iter().map(at).collect()
}

proptest! {
    #[test]
    fn exact_counters_decide_as_written(
        bits in 8_000u64..40_000_000_000,
        burst in 1_000u64..60_000,
        most in 1u16..8,
        packets in packets(),
    ) {
        let mut policer = exact(bits, burst, most);
        let mut reference = Reference::new(bits, burst, most.into(), |flow| vec![flow as usize]);
        let mut passed = Vec::new();
        for (now, flow, bytes) in times(bits, &packets) {
            let decision = policer.offer(now, &packet(flow, bytes));
            prop_assert_eq!(decision, reference.offer(now, flow, bytes));
            prop_assert_eq!(policer.active(), reference.aq.len());
            prop_assert_eq!(u128::from(policer.tokens()), reference.tokens_at(now));
            if decision == Decision::Pass {
                passed.push((now, bytes));
            }
        }
        prop_assert!(!exceeds(&passed, bits, burst));
    }

    #[test]
    fn a_sketch_of_few_flows_is_exact(seed: u64, packets in packets()) {
        let sketch = Sketch::new(seed);
        let shared = (0..6).any(|one| (0..one).any(|other| {
            std::iter::zip(sketch.places(one), sketch.places(other)).any(|(one, other)| one == other)
        }));
        prop_assume!(!shared);
        let mut estimated = FairPolicer::new(&config(10_000_000, 20_000, 6).with_sketch(seed), 0);
        let mut exact = exact(10_000_000, 20_000, 6);
        for (now, flow, bytes) in times(10_000_000, &packets) {
            let packet = packet(flow, bytes);
            prop_assert_eq!(estimated.offer(now, &packet), exact.offer(now, &packet));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_sketch_decides_as_written(
        bits in 8_000u64..40_000_000_000,
        burst in 1_000u64..60_000,
        most in 1u16..20,
        packets in packets(),
    ) {
        // Flow 128·j has the counters j, 2j mod 8 .. of its rows: all flows share the last one, and
        // 8 apart all four. Flows that are hashed would hardly ever.
        let sketch = || Sketch::with_hashes([54, 55, 56, 57].map(|bit| (1 << bit, 0)));
        let occupied = Counters::Sketch(sketch());
        let mut policer = FairPolicer::counting(&config(bits, burst, most), occupied, 0);
        let sketch = sketch();
        let cells = |flow| {
            let places = sketch.places(flow);
            places.iter().enumerate().map(|(row, at)| row * 1_024 + at).collect()
        };
        let mut reference = Reference::new(bits, burst, most.into(), cells);
        for (now, flow, bytes) in times(bits, &packets) {
            let flow = 128 * (flow + 6 * (bytes % 2));
            let decision = policer.offer(now, &packet(flow, bytes));
            prop_assert_eq!(decision, reference.offer(now, flow, bytes));
            prop_assert_eq!(policer.active(), reference.aq.len());
        }
    }
}

/// The weakness of the authors' form with a sketch: a flow taken for others is not active, so what
/// it occupies stays, until it gets nothing any more.
#[test]
fn a_sketch_can_starve_a_flow() {
    // The rows use other bits of the flow.
    let sketch = Sketch::with_hashes([54, 44, 34, 32].map(|bit| (1 << bit, 0)));
    let occupied = Counters::Sketch(sketch);
    let mut policer = FairPolicer::counting(&config(8_000_000, 10_000, 100), occupied, 0);
    let flow = |low: u32, middle: u32, high: u32| low | middle << 10 | high << 20;
    for other in [flow(1, 2, 2), flow(3, 1, 3), flow(4, 4, 1)] {
        assert_eq!(policer.offer(0, &packet(other, 1_000)), Decision::Pass);
    }
    // The one flow that shares its counters with others, though not all with one: it passes three
    // times, and is never given anything back.
    let (victim, second) = (flow(1, 1, 1), 1_000_000_000);
    for round in 0..3 {
        let decision = policer.offer(round * second, &packet(victim, 4_000));
        assert_eq!(decision, Decision::Pass, "{round}");
    }
    // Nobody else is there, the bucket is full, and yet:
    let decision = policer.offer(100 * second, &packet(victim, 1));
    assert_eq!(decision, Decision::Drop);
    assert_eq!((policer.active(), policer.tokens()), (0, 10_000));
}

impl<F: Fn(u32) -> Vec<usize>> Reference<F> {
    /// Whole bytes.
    fn tokens_at(&self, now: Nanos) -> u128 {
        let now = u128::from(now) * self.bits;
        self.burst.min(self.tokens + now - self.t_c) / BYTE
    }
}

/// Bytes passed in 10 s of flows that send packets of 1000 bytes at these rates in Mbit/s, no
/// matter what is dropped.
fn shares(policer: &mut FairPolicer, mbit: &[u64]) -> Vec<u64> {
    let mut passed = vec![0; mbit.len()];
    let mut due: Vec<Nanos> = (0..mbit.len() as u64).collect();
    loop {
        let flow = (0..mbit.len()).min_by_key(|&flow| due[flow]).unwrap();
        if due[flow] > 10_000_000_000 {
            return passed;
        }
        if policer.offer(due[flow], &packet(flow as u32, 1_000)) == Decision::Pass {
            passed[flow] += 1_000;
        }
        due[flow] += 8_000_000 / mbit[flow];
    }
}

#[test]
fn greedy_flows_get_the_same_and_modest_ones_what_they_ask_for() {
    for mut policer in [
        exact(10_000_000, 100_000, 100),
        FairPolicer::new(&config(10_000_000, 100_000, 100).with_sketch(7), 0),
    ] {
        // 12.5 MB in 10 s: 1.25 for the modest one, and 5.6 each for the others.
        let passed = shares(&mut policer, &[1, 8, 40]);
        assert!(passed[0] >= 1_240_000, "{passed:?}");
        for greedy in &passed[1..] {
            assert!((5_400_000..5_800_000).contains(greedy), "{passed:?}");
        }
    }
}

#[test]
fn quanta_by_hand() {
    // 100 bytes a millisecond: a quantum each. A bucket of 1000.
    let ms = 1_000_000;
    let mut policer = exact(800_000, 1_000, 10);
    assert_eq!(policer.offer(0, &packet(1, 450)), Decision::Pass);
    // 550 tokens; flow 1 occupies 450 of them, and one packet more may go over.
    assert_eq!(policer.offer(0, &packet(1, 200)), Decision::Pass);
    // 350 tokens, 650 occupied.
    assert_eq!(policer.offer(0, &packet(1, 10)), Decision::Drop);
    assert_eq!(policer.offer(0, &packet(2, 50)), Decision::Pass);
    assert_eq!((policer.active(), policer.tokens()), (2, 300));
    // Looked at, it is not changed.
    assert_eq!(policer.missing(2 * ms), 500);
    assert_eq!((policer.tokens(), policer.missing(0)), (300, 700));
    // Turns of 1, 2, 1: flow 2 leaves with its 50, flow 1 is down to 450. 600 tokens.
    assert_eq!(policer.offer(3 * ms, &packet(1, 1)), Decision::Pass);
    assert_eq!((policer.active(), policer.tokens()), (1, 599));
}

#[test]
fn a_flow_may_occupy_as_much_as_is_left() {
    let mut policer = exact(800_000, 1_000, 10);
    assert_eq!(policer.offer(0, &packet(1, 500)), Decision::Pass);
    assert_eq!(policer.offer(0, &packet(1, 1)), Decision::Pass);
    assert_eq!(policer.offer(0, &packet(1, 1)), Decision::Drop);
}

#[test]
fn beyond_its_flows_it_drops_until_one_leaves() {
    let ms = 1_000_000;
    let mut policer = exact(800_000, 10_000, 2);
    assert_eq!(policer.offer(0, &packet(1, 150)), Decision::Pass);
    assert_eq!(policer.offer(0, &packet(2, 50)), Decision::Pass);
    assert_eq!(policer.offer(0, &packet(3, 50)), Decision::Drop);
    assert_eq!(policer.offer(0, &packet(2, 50)), Decision::Pass);
    assert_eq!(policer.offer(ms, &packet(3, 50)), Decision::Drop);
    assert_eq!(policer.offer(2 * ms, &packet(3, 50)), Decision::Pass);
    let mut none = exact(800_000, 10_000, 0);
    assert_eq!(none.offer(0, &packet(1, 1)), Decision::Drop);
}

#[test]
fn the_rate_changes_live_and_long_pauses_end() {
    let year = 365 * 86_400 * 1_000_000_000;
    let mut policer = exact(400_000_000_000, 50_000, 10);
    assert_eq!(policer.offer(0, &packet(1, 30_000)), Decision::Pass);
    assert_eq!(policer.offer(0, &packet(1, 10_000)), Decision::Drop);
    policer.set_rate(10 * year, rate(8_000));
    assert_eq!((policer.active(), policer.tokens()), (0, 50_000));
    assert_eq!(policer.offer(10 * year, &packet(1, 50_000)), Decision::Pass);
    assert_eq!(
        policer.offer(10 * year + 1_000_000_000, &packet(2, 1_000)),
        Decision::Pass
    );
    assert_eq!(
        policer.offer(10 * year + 1_000_000_000, &packet(2, 1)),
        Decision::Drop
    );
}
