//! A divided simulation has the outcome of one that is not.

use proptest::prelude::*;

use super::arbitrary::plans;
use super::*;
use crate::sim::engine::Engine;
use crate::sim::parts::division::Division;
use crate::sim::parts::{self, Workers};
use crate::sim::timers::Ties;

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
