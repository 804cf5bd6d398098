//! From the tables of a file to plans.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_limiter::{LimiterConfig, Nanos, Program};
use tidegate_notation::{Mistake, Node, Place, Table, Value};

use super::aggregate::aggregates;
use super::draw::Draw;
use super::element::Element;
use super::error::setting_of;
use super::fields::{Fields, values};
use super::files::Files;
use super::flows::{Flows, Sender};
use super::keys::FILE;
use super::network::Network;
use super::partition::{group, together};
use super::{Group, Scenario, TABLES, element, name, parts, tables};
use crate::MILLISECOND;
use crate::plan::{ElementKind, FlowPlan, Noting, Plan};

/// When the states of connections are noted: at each change, or at intervals.
fn connections(file: &Fields<'_>) -> Result<Option<Noting>, Mistake> {
    match file.raw("connections").map(|node| &node.value) {
        Some(Value::Text(text)) if text == "changes" => Ok(Some(Noting::Changes)),
        _ => Ok(file.positive_time("connections")?.map(Noting::Every)),
    }
}

/// Whether plans of two seeds differ in more than the seed: flows have ranges, arrive at random, or have sizes that are drawn.
pub(super) fn draws(root: &Table) -> Result<bool, Mistake> {
    fn drawn(node: &Node) -> bool {
        match &node.value {
            Value::Text(text) => text.contains(".."),
            Value::List(list) => list.iter().any(drawn),
            Value::Table(table) => table.0.iter().any(|(_, node)| drawn(node)),
            _ => false,
        }
    }
    let mut flows = tables(root, "flow")?.iter();
    Ok(flows.any(|flow| drawn(flow) || has(flow, "arrivals")))
}

/// Whether the table of a flow has a key.
fn has(flow: &Node, key: &str) -> bool {
    matches!(&flow.value, Value::Table(table) if table.get(key).is_some())
}

/// A mistake: no flow of the arrivals begins before the end, whatever the seed.
pub(super) fn none_arrives(root: &Table, file: &Fields<'_>) -> Mistake {
    let flows = tables(root, "flow").unwrap_or(&[]);
    let arriving = flows.iter().find(|flow| has(flow, "arrivals"));
    let key = arriving.and_then(|flow| match &flow.value {
        Value::Table(table) => table.get("start").or_else(|| table.get("arrivals")),
        _ => None,
    });
    let end = file
        .raw("duration")
        .map(Node::to_string)
        .unwrap_or_default();
    let message = format!("no flow arrives before the end of the run ({end})");
    Mistake::new(key.map_or(Place::default(), |key| key.place), message)
}

/// The simulations that the tables give with a seed: none if no flow arrives with it. Taps are left out unless they are wanted.
pub(super) fn groups(
    root: &Table,
    varied: &[String],
    seed: u64,
    taps: bool,
    files: &Files,
) -> Result<Vec<Group>, Mistake> {
    let file = Fields::of(root, Place::default(), "a scenario", &[FILE], &[])?;
    let missing = |key: &str, example: &str| {
        Mistake::new(
            Place::default(),
            format!("`{key}` is missing: write {example}"),
        )
    };
    let duration = file.positive_time("duration")?;
    let duration = duration.ok_or_else(|| missing("duration", "such as duration = \"30s\""))?;
    let window = file.positive_time("window")?.unwrap_or(250 * MILLISECOND);
    let sample = file.positive_time("sample")?;
    for (key, step) in [("window", Some(window)), ("sample", sample)] {
        if step.is_some_and(|step| parts(duration, step) > Scenario::MAX_WINDOWS) {
            let message = format!(
                "`{key}` is too short for the duration: there would be more than a million"
            );
            return Err(file.wrong(key, message));
        }
    }
    let names = names(root)?;
    let nodes = tables(root, "element")?;
    let aggregates = aggregates(root)?;
    let mut senders = Vec::new();
    let mut taken = vec![0; aggregates.len()];
    let mut longest = vec![0; nodes.len()];
    for node in tables(root, "flow")? {
        let flows = Flows::read(node, &names, nodes, aggregates.len(), files)?;
        flows.check_lists(&aggregates, varied)?;
        // A setting may shorten the run so that it ends before some flows begin.
        let set = file.raw("duration").and_then(|node| setting_of(node.place));
        if set.is_none() {
            flows.begin_before(duration)?;
        }
        for &element in flows.forward.iter().chain(&flows.back) {
            longest[element] = longest[element].max(flows.rtt);
        }
        flows.add(
            &aggregates,
            (seed, duration),
            files,
            &mut taken,
            &mut senders,
        )?;
    }
    let flows = tables(root, "flow")?;
    let arrive = flows.iter().any(|flow| has(flow, "arrivals"));
    if senders.is_empty() && !arrive {
        return Err(match flows.first() {
            None => missing("flow", "at least one [[flow]]"),
            Some(first) => {
                let place = place_of(root, "flow", name(first, "a flow")?, "count");
                Mistake::new(
                    place,
                    "no flow sends: the `count` of every flow is 0".to_owned(),
                )
            }
        });
    }
    let network = Network::read(root)?;
    let elements = elements(nodes, &network, varied, &longest, files)?;
    check_classes(root, &elements, &senders)?;

    let plan = Plan {
        seed,
        duration,
        window,
        sample,
        connections: connections(&file)?,
        aggregates: Vec::new(),
        elements: Vec::new(),
        nodes: network.plans.clone(),
        flows: Vec::new(),
    };
    // This is done before taps are left out, because a run is the same with and without a capture.
    let together = together(aggregates.len(), &elements, &network, &senders);
    if !taps {
        let is_other = |index: &usize| !elements[*index].kind.is_tap();
        for sender in &mut senders {
            sender.forward.retain(is_other);
            sender.back.retain(is_other);
        }
    }
    let mut groups: BTreeMap<usize, Vec<&Sender>> = BTreeMap::new();
    for sender in &senders {
        groups
            .entry(together[sender.aggregate])
            .or_default()
            .push(sender);
    }
    let groups = groups.into_iter().map(|(first, senders)| {
        let mut plan = plan.clone();
        plan.seed = Draw::new(seed).name("plan").number(first as u64).bits();
        group(plan, &aggregates, &elements, &senders)
    });
    Ok(groups.collect())
}

/// The elements of a file. `longest` has the longest round trip of the flows that pass each of them.
fn elements<'a>(
    nodes: &'a [Node],
    network: &Network<'_>,
    varied: &[String],
    longest: &[Nanos],
    files: &Files,
) -> Result<Vec<Element<'a>>, Mistake> {
    let mut elements = Vec::new();
    for (node, &rtt) in nodes.iter().zip(longest) {
        let name = name(node, "an element")?;
        let varied = varied.iter().any(|other| other == name);
        let Value::Table(table) = &node.value else {
            continue;
        };
        let shared = match table.get("shared") {
            None => false,
            Some(Node {
                value: Value::Truth(shared),
                ..
            }) => *shared,
            Some(node) => return Err(node.wrong("`shared` is true or false")),
        };
        let kind = element::kind(node, varied, rtt, files)?;
        let node = network.above(table, &kind, varied)?;
        elements.push(Element {
            name,
            kind,
            shared,
            node,
        });
    }
    Ok(elements)
}

/// All names, and the kind of thing that each of them names.
fn names(root: &Table) -> Result<BTreeMap<&str, &'static str>, Mistake> {
    let mut names = BTreeMap::new();
    for (key, what) in TABLES {
        let list = tables(root, key)?;
        for node in list {
            let name = name(node, what)?;
            if let Some(other) = names.insert(name, what) {
                let message = format!("the name `{name}` is taken by {other}: choose another");
                return Err(node.wrong(message));
            }
        }
    }
    Ok(names)
}

/// Fails if a flow names a class or queue that a policy or a fair policer on its way does not have. Limiters check this too, but
/// they are built for a check only once for each name, and each aggregate may have other flows.
fn check_classes(
    root: &Table,
    elements: &[Element<'_>],
    senders: &[Sender],
) -> Result<(), Mistake> {
    for sender in senders {
        for &index in sender.forward.iter().chain(&sender.back) {
            let ElementKind::Limiter {
                config,
                classes: None,
                ..
            } = &elements[index].kind
            else {
                continue;
            };
            let found = match (config, config.program()) {
                (_, Some(program)) => missing_class(program, &sender.plan),
                (LimiterConfig::WaterFilling(config), None) => {
                    missing_queue(config.weights(), &sender.plan)
                }
                _ => None,
            };
            if let Some((key, what, there)) = found {
                let element = elements[index].name;
                let message = format!("there is no {what} `{element}`: {there}, from 0");
                let place = place_of(root, "flow", &sender.plan.name, key);
                return Err(Mistake::new(place, message));
            }
        }
    }
    Ok(())
}

/// The key of a flow that names what is missing, what that is, and what there is.
type Missing = (&'static str, String, String);

/// The class or queue of a flow that a policy does not have.
fn missing_class(program: &Program, flow: &FlowPlan) -> Option<Missing> {
    let wanted = flow.class.unwrap_or(0);
    let Some(class) = program.classes().get(usize::from(wanted)) else {
        return Some((
            "class",
            format!("class {wanted} in the policy of"),
            format!("it has {}", program.classes().len()),
        ));
    };
    let queue = flow.queue.filter(|&queue| queue >= class.queues)?;
    Some((
        "queue",
        format!("queue {queue} in class {wanted} of"),
        format!("it has {}", class.queues),
    ))
}

/// The queue of a flow that a fair policer with these weights does not have. Queues of different weights are its classes.
fn missing_queue(weights: &[u32], flow: &FlowPlan) -> Option<Missing> {
    let is_missing = |queue: &u16| usize::from(*queue) >= weights.len();
    let there = weights.len();
    if let Some(queue) = flow.queue {
        return is_missing(&queue).then(|| {
            (
                "queue",
                format!("queue {queue} in"),
                format!("it has {there}"),
            )
        });
    }
    let weighted = weights.iter().any(|&weight| weight != weights[0]);
    let class = flow.class.filter(|_| weighted).filter(is_missing)?;
    Some((
        "class",
        format!("class {class} in"),
        format!("its queues are its classes, and it has {there}"),
    ))
}

/// Collects the elements on the paths of flows. If a setting gives a path, it collects all
/// elements, because the file's elements were for another path.
pub(super) fn note_passed(root: &Table, passed: &mut BTreeSet<String>) -> Result<(), Mistake> {
    for flow in tables(root, "flow")? {
        let Value::Table(table) = &flow.value else {
            continue;
        };
        for way in ["path", "back"].iter().filter_map(|key| table.get(key)) {
            if setting_of(way.place).is_some() {
                for element in tables(root, "element")? {
                    passed.insert(name(element, "an element")?.to_owned());
                }
            }
        }
        for node in ["path", "back"].iter().flat_map(|key| values(table, key)) {
            passed.insert(node.to_string());
        }
    }
    Ok(())
}

/// Where the key of a flow or element of this name is, or else its table.
pub(super) fn place_of(root: &Table, tables: &str, wanted: &str, key: &str) -> Place {
    let list = super::tables(root, tables).unwrap_or(&[]);
    let node = list
        .iter()
        .find(|node| name(node, "a table").is_ok_and(|name| name == wanted));
    node.map_or(Place::default(), |node| match &node.value {
        Value::Table(table) => table.get(key).unwrap_or(node).place,
        _ => node.place,
    })
}
