//! The path of a scenario's flows as the path of a shell.

use anyhow::bail;
use tidegate_lab::plan::FlowPlan;
use tidegate_lab::scenario::{Run, Scenario};
use tidegate_limiter::Prefix;
use tidegate_testbed::link::LinkPlan;

use super::path::Path;

/// The elements that the flows of a scenario pass. What they send does not count.
///
/// # Errors
/// If they do not pass the same elements, or if there are several points or aggregates.
pub fn path(scenario: &Scenario, seed: u64) -> anyhow::Result<Path> {
    let title = scenario.title();
    if scenario.points() > 1 {
        bail!("{title}: a sweep has several points, and a shell has one: remove the sweep");
    }
    let groups = scenario.groups(Run {
        point: 0,
        seed,
        taps: false,
    })?;
    let [group] = &groups[..] else {
        bail!("{title}: a shell stands for one subscriber: leave one aggregate in the scenario");
    };
    let plan = &group.plan;
    if plan.aggregates.len() > 1 {
        bail!("{title}: a shell stands for one subscriber: leave one aggregate in the scenario");
    }
    let first = &plan.flows[0];
    for flow in &plan.flows {
        if let Some(other) = difference(first, flow) {
            let name = &flow.name;
            bail!("{title}: flow `{name}` has {other}: in a shell, all packets take the same way");
        }
    }
    let kinds = |way: &[usize]| {
        way.iter()
            .map(|&index| plan.elements[index].kind.clone())
            .collect()
    };
    let names = |way: &[usize]| {
        let names = way
            .iter()
            .map(|&index| Some(group.elements[index].name.clone()));
        names.collect()
    };
    Ok(Path {
        text: title.to_owned(),
        texts: [names(&first.forward), names(&first.back)],
        plan: LinkPlan {
            forward: kinds(&first.forward),
            back: kinds(&first.back),
            round_trips: vec![(Prefix::ALL, first.delay)],
            seed,
            ..LinkPlan::default()
        },
    })
}

/// How the way of a flow is another one.
fn difference(first: &FlowPlan, flow: &FlowPlan) -> Option<&'static str> {
    if flow.forward != first.forward {
        Some("another `path` than the first flow")
    } else if flow.back != first.back {
        Some("another `back` than the first flow")
    } else if flow.delay != first.delay {
        Some("another `rtt` than the first flow")
    } else if flow.class.is_some() || flow.queue.is_some() {
        Some("a class or a queue, which only `rule` gives to packets")
    } else {
        None
    }
}
