//! Tests that the data path on DPDK decides as the kernel's programs and the limiter crate do.

use super::*;
use crate::Dpdk;
use crate::dpdk::tests::{alone, decide};
use crate::path::{DataPath, Remembered};

/// Puts the limiter on DPDK under the same plan.
fn follow(path: &mut Dpdk, pair: &Pair<'_>) {
    path.put_plan(pair.seat.plan, &pair.plan.plan()).unwrap();
    let matched = Match::Prefix("192.0.2.0/29".parse().unwrap());
    path.seat(&[(matched, PerDirection::new(|_| pair.seat))])
        .unwrap();
}

#[test]
fn the_gate_on_dpdk_decides_the_same() {
    let Some(mut gate) = gate("the_gate_on_dpdk_decides_the_same") else {
        return;
    };
    let mut alone = alone(&settings());
    let path = &mut alone.path;
    let (mut sent, mut dropped, mut marked) = (0, 0, 0);
    for seed in 800..860 {
        let mut random = Pcg64::seed_from_u64(seed);
        let policy = match seed % 3 {
            0 => PolicyTree::fair(random.random_range(1..=24)).unwrap(),
            _ => draw_policy(&mut random),
        };
        let rate = draw_rate(&mut random);
        let size = draw_size(&mut random, rate);
        let means = match seed % 4 {
            0 => Means::Policer { burst: size },
            _ => Means::PhantomQueues {
                size,
                control: draw_control(&mut random),
            },
        };
        let plan = draw_plan(&mut random, rate, means, &policy);
        let mut sequence = Sequence::new(&mut random, seed, rate.bits_per_second());
        let mut pair = Pair::new(&mut gate, plan);
        path.forget(0).unwrap();
        follow(path, &pair);
        for number in 0..400 {
            if random.random_ratio(1, 60) {
                sequence.rate = switch(&mut pair, &mut random);
                follow(path, &pair);
            }
            // Packets that came in together have one time.
            let now = sequence.next().0;
            let (mut frames, mut expected) = (Vec::new(), Vec::new());
            for _ in 0..random.random_range(1..=32) {
                let (_, flow, bytes) = sequence.next();
                let before = pair.sent;
                assert!(pair.offer(now, flow, bytes), "seed {seed}, burst {number}");
                let frame = &pair.frames[usize::from(flow)][..14 + usize::from(bytes)];
                frames.push(frame.to_vec());
                expected.push((pair.sent.1 > before.1, pair.sent.2 > before.2));
            }
            let classes: Vec<u8> = frames.iter().map(|frame| frame[15]).collect();
            let verdicts = decide(now, &mut frames);
            let found = verdicts.iter().zip(&frames).zip(&classes);
            let found = found.map(|((&verdict, frame), &class)| (verdict == 1, frame[15] != class));
            assert_eq!(
                found.collect::<Vec<_>>(),
                expected,
                "seed {seed}, burst {number}"
            );
        }
        // Frames with random bytes, about which the kernel's program decides as well.
        for _ in 0..200 {
            let (now, flow, _) = sequence.next();
            let length = random.random_range(14..200);
            let mut junk = pair.frames[usize::from(flow)][..length].to_vec();
            for _ in 0..random.random_range(0..6) {
                let most = junk.len().min(42);
                junk[random.random_range(12..most)] = random.random();
            }
            let time = now.to_ne_bytes();
            let kernel = pair.gate.kernel();
            kernel
                .update("test_time", &0u32.to_ne_bytes(), &time)
                .unwrap();
            let drops = run(&pair.xdp, &junk) == 1;
            let verdict = decide(now, &mut [junk.clone()])[0];
            assert_eq!(verdict == 1, drops, "seed {seed}: {junk:?}");
        }
        let mut states = [path.read(0).unwrap(), pair.gate.kernel().read(0).unwrap()];
        // What is saved of a boost grows until it is read, and the two are not read at the same time.
        for state in &mut states {
            state.saved = None;
        }
        assert_eq!(states[0], states[1]);
        // Both tell another gate the same, and the limiter goes on there.
        let told = path.export(0..1_024, 0).unwrap();
        assert_eq!(told, pair.gate.kernel().export(0..1, 0).unwrap());
        let Remembered { at, state, .. } = &told[0];
        assert_eq!(path.export(0..1_024, at + 1).unwrap(), []);
        let seat = (pair.seat.plan, pair.seat.version);
        path.forget(0).unwrap();
        assert!(path.import(0, seat, state, *at).unwrap());
        assert!(!path.import(0, seat, state, *at).unwrap(), "not later");
        let carried = path.read(0).unwrap();
        assert_eq!(carried.counters, Counters::default());
        let held = |state: &LimiterState| -> Vec<_> {
            let queues = state.queues.iter();
            queues.map(|queue| (queue.length, queue.magic)).collect()
        };
        assert_eq!(held(&carried), held(&states[0]));
        sent += pair.sent.0;
        dropped += pair.sent.1;
        marked += pair.sent.2;
    }
    assert!(
        dropped * 20 > sent && dropped * 20 < sent * 19,
        "{dropped} of {sent}"
    );
    assert!(marked > 0, "{marked} of {sent} were marked");
}
