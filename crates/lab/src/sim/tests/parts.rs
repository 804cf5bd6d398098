//! A divided simulation has the outcome of one that is not.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;

use super::arbitrary::plans;
use super::*;
use crate::Nanos;
use crate::sim::engine::Engine;
use crate::sim::parts::division::Division;
use crate::sim::parts::{self, Workers};
use crate::sim::timers::{MANY_FLOWS, Ties};
use crate::tcp::Algorithm;
use crate::tcp::cc::{AckSample, Controller, CustomAlgorithm, Window};

/// Threads, and parts of the flows.
const WORKERS: [(usize, usize); 5] = [(1, 1), (1, 3), (2, 2), (3, 5), (5, 4)];

fn undivided(plan: &Plan) -> Outcome {
    let mut engine = Engine::with(plan, Ties::Timed).unwrap();
    engine.run(&mut |_| true).unwrap();
    engine.finish()
}

fn divided(plan: &Plan, (threads, parts): (usize, usize)) -> Outcome {
    let division = Division::possible(plan).unwrap();
    parts::run(plan, &mut |_| true, division, Workers { threads, parts }).unwrap()
}

/// A plan that can be divided.
fn divisible(mut plan: Plan) -> Plan {
    for flow in &mut plan.flows {
        flow.back.clear();
    }
    plan
}

prop_compose! {
    /// Plans in which much is at the same time: equal round trips and starts, and packets that take a multiple of a microsecond.
    fn even()(
        rates in prop::collection::vec(1u64..5, 0..3),
        queue in 0u64..40,
        flows in prop::collection::vec((0usize..4, 0u64..2, 0u64..3, any::<bool>()), 1..12),
        delay in prop::sample::select(vec![2u64, 4, 10]),
        seed in any::<u64>(),
        policer in any::<bool>(),
    ) -> Plan {
        let mut elements: Vec<_> = rates.iter().enumerate().map(|(index, rate)| {
            // A kilobyte on the wire takes a multiple of 250 µs.
            link(&index.to_string(), 8_000_000 * 4 / rate, queue)
        }).collect();
        if policer {
            let config = tidegate_limiter::PolicerConfig::new(rate(16_000_000), 8000).unwrap();
            elements.push(element("policer", ElementKind::Limiter {
                config: config.into(),
                classes: None,
                overhead: 0,
            }));
        }
        let flows = flows.into_iter().map(|(kind, start, more, second)| {
            let mut flow = match kind {
                0 => datagrams(8_000_000, 986),
                1 => datagrams(4_000_000, 986),
                2 => bulk(None),
                _ => bulk(Some(50_000)),
            };
            flow.tcp.mss = 934;
            flow.tcp.receive_window = 100_000;
            flow.start = start * 10 * MILLISECOND;
            flow.delay = delay * MILLISECOND * if second { 1 + more } else { 1 };
            flow
        });
        let mut plan = plan(elements, flows.collect());
        (plan.seed, plan.duration, plan.sample) = (seed, SECOND / 2, Some(2 * MILLISECOND));
        plan
    }
}

fn same(plan: &Plan) -> Result<(), TestCaseError> {
    if Division::possible(plan).is_none() {
        return Ok(());
    }
    let expected = undivided(plan);
    for workers in WORKERS {
        prop_assert_eq!(&divided(plan, workers), &expected, "{:?}", workers);
    }
    Ok(())
}

/// `PARTS_CASES` has another number of plans for a longer test.
fn cases(few: u32) -> ProptestConfig {
    let cases = std::env::var("PARTS_CASES").ok();
    let cases = cases.and_then(|cases| cases.parse().ok());
    ProptestConfig::with_cases(cases.unwrap_or(few))
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn any_plan_has_the_same_outcome_in_parts(plan in plans()) {
        same(&divisible(plan))?;
    }

    #[test]
    fn what_is_at_the_same_time_has_the_same_order_in_parts(plan in even()) {
        same(&plan)?;
    }
}

/// As many flows as are divided, each of which sends 20 kB.
fn many() -> Plan {
    let flow = |index: usize| {
        let mut flow = bulk(Some(20_000));
        flow.start = index as u64 % 7 * 10 * MILLISECOND;
        flow
    };
    let mut plan = plan(
        vec![link("link", 100_000_000, 50)],
        (0..MANY_FLOWS).map(flow).collect(),
    );
    plan.duration = SECOND;
    plan
}

#[test]
fn many_flows_are_divided_with_the_same_outcome() {
    let plan = many();
    assert!(Division::of(&plan).is_some());
    let expected = outcome(&plan);
    assert!(expected.elements[0].dropped > 100);
    for threads in [1, 2, 3, 5] {
        let got = run_on(&plan, &mut |_| true, threads).unwrap();
        assert_eq!(got, expected, "{threads}");
    }
}

#[test]
fn what_depends_on_other_flows_at_once_is_not_divided() {
    let not = |what: &str, change: fn(&mut Plan)| {
        let mut plan = many();
        change(&mut plan);
        assert_eq!(Division::of(&plan), None, "{what}");
    };
    not("few flows", |plan| plan.flows.truncate(MANY_FLOWS - 1));
    not("a flow without delay", |plan| plan.flows[7].delay = 0);
    not("a short delay", |plan| plan.flows[7].delay = 500_000);
    not("a far longer delay", |plan| {
        plan.flows[7].delay = 1000 * SECOND
    });
    not("an element on the way back", |plan| {
        plan.flows[7].back = vec![0]
    });
    not("states at intervals", |plan| {
        plan.connections = Some(Noting::Every(SECOND))
    });
    not("states", |plan| plan.connections = Some(Noting::Changes));
    not("a tap", |plan| {
        plan.elements
            .push(element("tap", ElementKind::Tap { snaplen: 96 }));
    });
}

#[test]
fn what_is_in_the_way_of_division_leaves_the_order_as_it_is() {
    let mut plan = many();
    plan.elements
        .push(element("tap", ElementKind::Tap { snaplen: 96 }));
    for flow in &mut plan.flows {
        flow.forward.push(1);
    }
    let tapped = run_on(&plan, &mut |_| true, 2).unwrap();
    let mut expected = run_on(&many(), &mut |_| true, 2).unwrap();
    expected.elements.push(tapped.elements[1].clone());
    assert_eq!(tapped, expected);
}

#[test]
fn it_can_be_interrupted_on_several_threads() {
    // Without end, as seen from here: the other threads work on while this one waits for a processor.
    let mut plan = many();
    plan.duration = 100_000 * SECOND;
    plan.window = plan.duration;
    for flow in &mut plan.flows {
        flow.traffic = datagrams(1_000_000, 1000).traffic;
    }
    for threads in [1, 3] {
        let mut times = Vec::new();
        let result = run_on(
            &plan,
            &mut |now| {
                times.push(now);
                times.len() < 20
            },
            threads,
        );
        assert!(matches!(result, Err(RunError::Interrupted)), "{result:?}");
        assert!(times.len() == 20 && times.is_sorted(), "{times:?}");
    }
}

#[test]
fn packets_do_not_pile_up_in_parts() {
    let mut plan = many();
    for flow in &mut plan.flows {
        flow.traffic = datagrams(200_000_000_000, 28).traffic;
        flow.delay = 10 * SECOND;
    }
    let error = run_on(&plan, &mut |_| true, 2).unwrap_err().to_string();
    assert!(error.contains("packets are on their way"), "{error}");
}

/// Congestion control with a mistake.
#[derive(Debug, Clone)]
struct Panics;

impl Controller for Panics {
    fn ssthresh(&mut self, _: Nanos, _: &Window) -> u32 {
        2
    }

    fn cong_avoid(&mut self, _: Nanos, _: &AckSample, _: &mut Window) {}

    fn on_established(&mut self, _: Nanos, _: Option<Nanos>, _: &mut Window) {
        panic!("a mistake");
    }

    fn undo(&mut self, _: &Window) -> u32 {
        2
    }
}

#[test]
fn a_panic_in_any_thread_ends_all() {
    let mut plan = many();
    plan.flows[0].tcp.algorithm = Algorithm::Custom(CustomAlgorithm {
        name: "panics",
        make: |_| Box::new(Panics),
    });
    for threads in [1, 2, 5] {
        let run = || run_on(&plan, &mut |_| true, threads);
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err(), "{threads}");
        let observer = &mut |now| {
            assert!(now < SECOND / 10);
            true
        };
        let run = || run_on(&many(), observer, threads);
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err(), "{threads}");
    }
}
