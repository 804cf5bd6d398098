//! Tests that unused policies and sets of rules make room for others, and that no limiter takes one
//! for another.

use tidegate_limiter::{Classifier, Decision, Headers, Ports, Rule};

use std::collections::HashMap;

use super::same::Reference;
use super::*;

/// Another policy and another set of rules for each number: the first port's packets are of class 0,
/// the last one's of class 1.
fn numbered(number: u32) -> Draft {
    let parts = [number % 100 + 1, number / 100 + 1].map(|weight| (weight, PolicyTree::queue()));
    let policy = PolicyTree::weighted(parts.to_vec()).unwrap();
    let control = None;
    let mut plan = draft(
        Means::PhantomQueues {
            size: SIZE,
            control,
        },
        &policy,
    );
    plan.rules = vec![Rule {
        source_ports: 0..=number as u16,
        ..Rule::default()
    }];
    plan
}

/// Bytes of a queue: it has room for two packets.
const SIZE: u64 = 2_000;
const PORTS: [u16; 2] = [0, u16::MAX];

fn matched(limiter: u32) -> Match {
    let address = std::net::IpAddr::from(address(limiter));
    Match::Prefix(address.to_string().parse().unwrap())
}

fn address(limiter: u32) -> [u8; 4] {
    (10 << 24 | limiter).to_be_bytes()
}

#[test]
fn more_policies_than_there_is_room_for_are_refused() {
    let Some(mut gate) = gate("more_policies_than_there_is_room_for_are_refused") else {
        return;
    };
    let kernel = gate.kernel();
    for number in 0..1024 {
        kernel.put_plan(number, &numbered(number).plan()).unwrap();
    }
    let refused = kernel.put_plan(1024, &numbered(1024).plan()).unwrap_err();
    assert!(refused.to_string().contains("1024 different"), "{refused}");
    // Known ones are not new.
    kernel.put_plan(1024, &numbered(3).plan()).unwrap();
    kernel.make_room(1, &|_| true).unwrap();
    kernel.put_plan(1024, &numbered(1024).plan()).unwrap_err();
    // Unused ones are removed. Those of a plan that is kept or assigned to packets are not.
    let seat = Seat {
        limiter: 0,
        plan: 7,
        version: 1,
        ..Seat::default()
    };
    kernel.seat(Direction::Up, &[(matched(0), seat)]).unwrap();
    let [led, kept] = [7u32, 9].map(|plan| plan.to_ne_bytes());
    let read = |kernel: &Kernel, key: &[u8]| {
        let plan = kernel.map("plans").lookup(key, MapFlags::ANY);
        let plan = plan.unwrap().unwrap();
        (layout::plan::SHAPE.of(&plan), layout::plan::RULES.of(&plan))
    };
    let numbers = [&led, &kept].map(|key| read(kernel, key));
    kernel.make_room(1, &|number| number == 9).unwrap();
    for number in 2_000..3_022 {
        kernel.put_plan(number, &numbered(number).plan()).unwrap();
    }
    kernel.put_plan(3_022, &numbered(3_022).plan()).unwrap_err();
    for (number, before) in [7, 9].into_iter().zip(numbers) {
        kernel.put_plan(100_000, &numbered(number).plan()).unwrap();
        assert_eq!(read(kernel, &100_000u32.to_ne_bytes()), before);
    }
    // Also for a process that takes over the gate.
    gate.kernel = Some(Kernel::open(&gate.pins).unwrap());
    gate.kernel()
        .put_plan(4_000, &numbered(4_000).plan())
        .unwrap_err();
    gate.kernel().make_room(1, &|_| false).unwrap();
    gate.kernel()
        .put_plan(4_000, &numbered(4_000).plan())
        .unwrap();
}

#[test]
fn thousands_of_policies_one_after_the_other_are_not_confused() {
    const ROUNDS: u32 = 4_000;
    let Some(mut gate) = gate("thousands_of_policies_one_after_the_other_are_not_confused") else {
        return;
    };
    gate.kernel().reserve(ROUNDS + 1).unwrap();
    let place = |number: u32| (number - 1) % 1024;
    // For each place, the policy that each limiter without packets last followed.
    let mut idle: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut mistakable = 0;
    for round in 1..=ROUNDS {
        let plan = numbered(round);
        let kernel = gate.kernel();
        // As in a reload: the plan before it and the new plan are in use.
        kernel.make_room(1, &|number| number + 1 >= round).unwrap();
        kernel.put_plan(round, &plan.plan()).unwrap();
        let number = kernel
            .map("plans")
            .lookup(&round.to_ne_bytes(), MapFlags::ANY);
        let number = layout::plan::SHAPE.of(&number.unwrap().unwrap());
        let now = 1_000_000 + u64::from(round) * 1_000;
        // One that is always there, beside the reference; one that comes and has no more packets;
        // and the earlier ones, which were the same under a former policy in this place.
        let back = idle.remove(&place(number)).unwrap_or_default();
        mistakable += back.len();
        let limiters = [&[0, round][..], &back].concat();
        let seats = limiters.iter().map(|&limiter| {
            let seat = Seat {
                limiter,
                plan: round,
                version: round,
                ..Seat::default()
            };
            (matched(limiter), seat)
        });
        let seats = seats.collect::<Vec<_>>();
        kernel.seat(Direction::Down, &seats).unwrap();
        let rules = plan.rules.clone();
        let classifier = Classifier::new(&plan.program, rules, None, settings().hash).unwrap();
        for &limiter in &limiters {
            let mut reference = Reference::new(&plan, now);
            for number in 0..6u64 {
                let (now, port) = (now + number * 100, PORTS[number as usize % 2]);
                let headers = Headers {
                    source: "198.51.100.1".parse().unwrap(),
                    destination: address(limiter).into(),
                    protocol: 17,
                    ports: Some(Ports {
                        source: port,
                        destination: 443,
                    }),
                    dscp: 0,
                };
                let packet = classifier.classify(&headers.into(), 1_000);
                let expected = reference.offer(now, &packet);
                // Each of the two queues has room for two.
                assert_eq!(expected == Decision::Pass, number < 4);
                let passed = gate.offer("tc_down", now, &frame(address(limiter), port, 1_000)) != 2;
                assert_eq!(
                    passed,
                    number < 4,
                    "round {round}, {limiter}, packet {number}"
                );
            }
        }
        let leave = seats[1..].iter().map(|(matched, _)| *matched);
        gate.kernel().unseat(&leave.collect::<Vec<_>>()).unwrap();
        idle.entry(place(number)).or_default().push(round);
    }
    // Most places were used three times.
    assert!(mistakable > 2_900, "{mistakable}");
}

#[test]
fn numbers_of_a_place_go_around() {
    let mut number = 1_024;
    for _ in 0..1 << 23 {
        number = crate::maps::stored_once::after(number);
        assert!(number % 1024 == 0 && (1_024..u32::MAX - 2).contains(&number));
    }
}

#[test]
fn there_is_room_for_as_many_prefixes_as_files_may_have() {
    let Some(mut gate) = gate("there_is_room_for_as_many_prefixes_as_files_may_have") else {
        return;
    };
    let seat = Seat {
        limiter: 0,
        plan: 0,
        version: 1,
        ..Seat::default()
    };
    let seats: Vec<_> = (0..crate::limits::MAX_PREFIXES as u32)
        .map(|number| (matched(number), seat))
        .collect();
    for direction in Direction::BOTH {
        gate.kernel().seat(direction, &seats).unwrap();
    }
}
