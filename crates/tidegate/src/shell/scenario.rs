//! The path of a scenario's flows as the path of a shell.

use anyhow::bail;
use tidegate_lab::plan::{FlowPlan, NodePlan};
use tidegate_lab::scenario::{Run, Scenario};
use tidegate_limiter::Prefix;
use tidegate_testbed::link::LinkPlan;

use super::path::Path;

/// The elements that the flows of a scenario pass. What they send does not count. Without a seed, the scenario's counts.
///
/// # Errors
/// If they do not pass the same elements, or if there are several points or aggregates.
pub fn path(scenario: &Scenario, seed: Option<u64>) -> anyhow::Result<Path> {
    let title = scenario.title();
    if scenario.points() > 1 {
        bail!("{title}: a sweep has several points, and a shell has one: remove the sweep");
    }
    let seed = seed.or(scenario.seeds().first().copied());
    let seed = seed.unwrap_or(super::SEED);
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
    // The elements of the shell, as numbers of the scenario's. One that packets pass in both directions is two here.
    let passed = || first.forward.iter().chain(&first.back).enumerate();
    let nodes = plan.nodes.iter().map(|node| NodePlan {
        limiters: passed()
            .filter(|(_, index)| node.limiters.contains(index))
            .map(|(here, _)| here)
            .collect(),
        ..node.clone()
    });
    Ok(Path {
        text: title.to_owned(),
        texts: [names(&first.forward), names(&first.back)],
        plan: LinkPlan {
            forward: kinds(&first.forward),
            back: kinds(&first.back),
            round_trips: vec![(Prefix::ALL, first.delay)],
            nodes: nodes.collect(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::folder::Folder;
    use tidegate_lab::plan::ElementKind;

    const SITE: &str = r#"
        duration = "1s"
        seed = 7
        node = [ { name = "site", rate = "5mbit" } ]
        element = [
            { name = "slow", kind = "delay", delay = "20ms" },
            { name = "down", kind = "bc-pqp", rate = "10mbit", node = "site" },
            { name = "up", kind = "bc-pqp", rate = "1mbit", node = "site" },
        ]
        flow = [ { name = "download", rtt = "10ms", path = ["slow", "down"], back = ["up"] } ]
    "#;

    #[test]
    fn nodes_and_the_seed_of_a_scenario_are_the_shell_s() {
        let scenario = Scenario::parse(SITE).expect("a scenario");
        let mut path = path(&scenario, None).expect("a path");
        assert_eq!(path.plan.seed, 7);
        assert_eq!(path.plan.nodes.len(), 1);
        assert_eq!(path.plan.nodes[0].limiters, [1, 2]);
        // Taps of captures move the elements.
        let folder = tempfile::tempdir().expect("a folder");
        Folder::new(folder.path())
            .expect("a folder")
            .tap(&mut path, 96);
        let limiters = &path.plan.nodes[0].limiters;
        let all: Vec<_> = path.plan.forward.iter().chain(&path.plan.back).collect();
        let is_limiter = |kind: &ElementKind| matches!(kind, ElementKind::Limiter { .. });
        assert!(
            limiters.iter().all(|&index| is_limiter(all[index])),
            "{limiters:?}"
        );
        assert_eq!(limiters.len(), 2);
    }

    #[test]
    fn another_seed_can_be_given() {
        let scenario = Scenario::parse(SITE).expect("a scenario");
        assert_eq!(path(&scenario, Some(3)).expect("a path").plan.seed, 3);
    }
}
