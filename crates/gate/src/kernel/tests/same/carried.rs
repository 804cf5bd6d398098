//! Tests that a limiter goes on in another gate where it was.

use super::*;
use crate::path::Remembered;

/// Takes the limiter to another place: another number and version of its plan, and a clock that is ahead by this time.
fn carry(pair: &mut Pair<'_>, ahead: Nanos) {
    let kernel = pair.gate.kernel();
    let told = kernel.export(0..1, 0).unwrap();
    let [
        Remembered {
            limiter: 0,
            at,
            state,
            ..
        },
    ] = &told[..]
    else {
        panic!("one limiter has had packets");
    };
    let at = *at;
    kernel.forget(0).unwrap();
    pair.sit();
    // It is the same plan for the reference.
    pair.changed = false;
    let seat = (pair.seat.plan, pair.seat.version);
    let kernel = pair.gate.kernel();
    assert!(kernel.import(0, seat, state, at + ahead).unwrap());
    pair.ahead += ahead;
    // What is not later, and what is no limiter, changes nothing.
    let there = kernel.read(0).unwrap();
    assert!(!kernel.import(0, seat, state, at + ahead).unwrap());
    assert!(!kernel.import(0, seat, &state[8..], at + ahead + 1).unwrap());
    assert!(
        !kernel
            .import(0, seat, &vec![0; state.len()], at + ahead + 1)
            .unwrap()
    );
    assert_eq!(kernel.read(0).unwrap(), there);
    // Counters are those of the gate that counted.
    assert_eq!(there.counters, Counters::default());
    assert!(there.queues.iter().all(|queue| queue.passed_bytes == 0));
}

#[test]
fn a_limiter_goes_on_in_another_gate_where_it_was() {
    let Some(mut gate) = gate("a_limiter_goes_on_in_another_gate_where_it_was") else {
        return;
    };
    let (mut sent, mut dropped) = (0, 0);
    for seed in 900..960 {
        let mut random = Pcg64::seed_from_u64(seed);
        let rate = draw_rate(&mut random);
        let size = draw_size(&mut random, rate);
        // Where queues are chosen by what was seen lately, that begins again, and the clock chooses as well.
        let (policy, control) = match seed % 3 {
            0 => (
                PolicyTree::fair(random.random_range(17..=24)).unwrap(),
                Some(BurstControl::Bucket),
            ),
            1 => (
                draw_policy(&mut random),
                Some(BurstControl::Paper(PaperControl::DEFAULT)),
            ),
            _ => (draw_policy(&mut random), None),
        };
        let clock = control != Some(BurstControl::Bucket);
        let means = match seed % 4 {
            3 => Means::Policer { burst: size },
            _ => Means::PhantomQueues { size, control },
        };
        let plan = draw_plan(&mut random, rate, means, &policy);
        let mut sequence = Sequence::new(&mut random, seed, rate.bits_per_second());
        let mut pair = Pair::new(&mut gate, plan);
        for number in 0..1_500 {
            if number > 0 && random.random_ratio(1, 200) {
                let ahead = random.random_range(0..1 << 40);
                carry(&mut pair, if clock { ahead } else { 0 });
            }
            let (now, flow, bytes) = sequence.next();
            assert!(
                pair.offer(now, flow, bytes),
                "seed {seed}, packet {number}: {:?} at {now}, flow {flow}, {bytes} bytes",
                pair.plan,
            );
        }
        sent += pair.sent.0;
        dropped += pair.sent.1;
    }
    assert!(
        dropped * 20 > sent && dropped * 20 < sent * 19,
        "{dropped} of {sent}"
    );
}
