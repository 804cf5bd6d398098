//! Finds the aggregates that share no element and no node, and are simulated separately, and makes the plan of
//! each group.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_limiter::Rate;

use super::aggregate::Aggregate;
use super::element::Element;
use super::flows::Sender;
use super::network::Network;
use super::{Group, Instance};
use crate::plan::{ElementKind, ElementPlan, Plan};

/// For each aggregate the first of those that it shares elements or nodes with, directly or through others.
pub(super) fn together(
    aggregates: usize,
    elements: &[Element<'_>],
    network: &Network<'_>,
    senders: &[Sender],
) -> Vec<usize> {
    fn first(of: &mut [usize], mut at: usize) -> usize {
        while of[at] != at {
            of[at] = of[of[at]];
            at = of[at];
        }
        at
    }
    let mut of: Vec<usize> = (0..aggregates).collect();
    // Elements, then nodes.
    let mut user: Vec<Option<usize>> = vec![None; elements.len() + network.plans.len()];
    for sender in senders {
        for &index in sender.forward.iter().chain(&sender.back) {
            let element = &elements[index];
            let node = element.node.and_then(|node| network.root(node));
            let node = node.map(|root| elements.len() + root);
            for shared in element.shared.then_some(index).into_iter().chain(node) {
                let aggregate = first(&mut of, sender.aggregate);
                match user[shared] {
                    None => user[shared] = Some(aggregate),
                    Some(other) => {
                        let other = first(&mut of, other);
                        of[aggregate.max(other)] = aggregate.min(other);
                    }
                }
            }
        }
    }
    (0..aggregates).map(|at| first(&mut of, at)).collect()
}

/// A group's plan.
pub(super) fn group(
    mut plan: Plan,
    aggregates: &[Aggregate<'_>],
    elements: &[Element<'_>],
    senders: &[&Sender],
) -> Group {
    let mut local: BTreeMap<usize, usize> = BTreeMap::new();
    let members: BTreeSet<usize> = senders.iter().map(|sender| sender.aggregate).collect();
    for &aggregate in &members {
        local.insert(aggregate, plan.aggregates.len());
        plan.aggregates.push(aggregates[aggregate].name.clone());
    }
    let alone = members.len() == 1;
    let mut limits = vec![None; members.len()];
    let mut instances: Vec<Instance> = Vec::new();
    let mut placed: BTreeMap<(usize, Option<usize>), usize> = BTreeMap::new();
    let mut numbers = Vec::new();
    for sender in senders {
        let aggregate = local[&sender.aggregate];
        let mut place = |index: &usize| {
            let element = &elements[*index];
            let owner = (!element.shared).then_some(aggregate);
            *placed.entry((*index, owner)).or_insert_with(|| {
                let of = owner
                    .filter(|_| !alone)
                    .map(|owner| &plan.aggregates[owner]);
                let kind = element.kind.clone();
                let name = match of {
                    Some(aggregate) => format!("{}:{aggregate}", element.name),
                    None => element.name.to_owned(),
                };
                if let Some(node) = element.node {
                    plan.nodes[node].limiters.push(plan.elements.len());
                }
                plan.elements.push(ElementPlan { name, kind });
                instances.push(Instance {
                    name: element.name.to_owned(),
                    aggregate: owner,
                });
                plan.elements.len() - 1
            })
        };
        let mut flow = sender.plan.clone();
        flow.aggregate = aggregate;
        flow.forward = sender.forward.iter().map(&mut place).collect();
        flow.back = sender.back.iter().map(&mut place).collect();
        for &index in &sender.forward {
            if let Some(rate) = rate(&elements[index].kind)
                && (!elements[index].shared || alone)
            {
                let limit: &mut Option<Rate> = &mut limits[aggregate];
                *limit = Some(limit.map_or(rate, |other| other.min(rate)));
            }
        }
        plan.flows.push(flow);
        numbers.push(sender.number);
    }
    Group {
        plan,
        elements: instances,
        limits,
        numbers,
    }
}

/// The rate of a limiter in the long run.
fn rate(kind: &ElementKind) -> Option<Rate> {
    match kind {
        ElementKind::Limiter { config, .. } => config.rate(),
        _ => None,
    }
}
