//! From the tables of a file to plans: aggregates that share no element are apart.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_limiter::{Nanos, Rate};
use tidegate_notation::{Mistake, Node, Place, Table, Value, instead, quantity};

use super::draw::Draw;
use super::error::setting_of;
use super::fields::{Choice, Fields, range};
use super::keys::{AGGREGATE, FILE, FLOW};
use super::{Group, Instance, Scenario, TABLES, element, flow, name, parts, tables};
use crate::MILLISECOND;
use crate::plan::{ElementKind, ElementPlan, FlowPlan, Plan};

/// An element of the file.
struct Element<'a> {
    name: &'a str,
    kind: ElementKind,
    shared: bool,
}

/// A flow with the elements of the file that it passes.
struct Sender {
    /// Index of its aggregate among all.
    aggregate: usize,
    forward: Vec<usize>,
    back: Vec<usize>,
    plan: FlowPlan,
    number: u32,
}

/// The simulations that the tables come to with a seed.
/// Taps are left out unless they are wanted.
pub(super) fn groups(
    root: &Table,
    varied: &[String],
    seed: u64,
    taps: bool,
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
            let message =
                format!("`{key}` is too short for so long a duration: more than a million");
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
        let flows = Flows::read(node, &names, nodes, aggregates.len())?;
        flows.lists(&aggregates, varied)?;
        // Who shortens a run by a setting knows that it ends earlier.
        let set = file.raw("duration").and_then(|node| setting_of(node.place));
        if set.is_none() {
            flows.begin_before(duration)?;
        }
        for &element in flows.forward.iter().chain(&flows.back) {
            longest[element] = longest[element].max(flows.rtt);
        }
        flows.add(&aggregates, seed, &mut taken, &mut senders)?;
    }
    if senders.is_empty() {
        return Err(match tables(root, "flow")?.first() {
            None => missing("flow", "at least one [[flow]]"),
            Some(first) => {
                let place = place_of(root, "flow", name(first, "a flow")?, "count");
                Mistake::new(
                    place,
                    "nobody sends: the `count` of every flow is 0".to_owned(),
                )
            }
        });
    }
    let mut elements = Vec::new();
    for (node, rtt) in nodes.iter().zip(longest) {
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
        let kind = element::kind(node, varied, rtt)?;
        elements.push(Element { name, kind, shared });
    }
    classes(root, &elements, &senders)?;

    let plan = Plan {
        seed,
        duration,
        window,
        sample,
        aggregates: Vec::new(),
        elements: Vec::new(),
        flows: Vec::new(),
    };
    // Before taps are left out: a run is the same whether it is captured or not.
    let together = together(aggregates.len(), &elements, &senders);
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

/// All names and what has them; each is of one thing.
fn names(root: &Table) -> Result<BTreeMap<&str, &'static str>, Mistake> {
    let mut names = BTreeMap::new();
    for (key, what) in TABLES {
        let list = tables(root, key)?;
        for node in list {
            let own = name(node, what)?;
            if let Some(other) = names.insert(own, what) {
                let message = format!("the name `{own}` is taken by {other}: choose another");
                return Err(node.wrong(message));
            }
        }
    }
    Ok(names)
}

/// An aggregate: its entry in the file, its number there, and its name in results.
struct Aggregate<'a> {
    entry: &'a str,
    number: usize,
    name: String,
}

fn aggregates(root: &Table) -> Result<Vec<Aggregate<'_>>, Mistake> {
    let list = tables(root, "aggregate")?;
    let mut aggregates = Vec::new();
    let mut names = BTreeSet::new();
    for node in list {
        let f = Fields::new(node, "an aggregate", &[AGGREGATE], &[])?;
        let entry = name(node, "an aggregate")?;
        let count = f.integer("count", 1..=Scenario::MAX_PARTS)?.unwrap_or(1) as usize;
        for number in 0..count {
            let name = match count {
                1 => entry.to_owned(),
                _ => format!("{entry}-{}", number + 1),
            };
            if !names.insert(name.clone()) {
                return Err(node.wrong(format!("two aggregates are called `{name}`")));
            }
            aggregates.push(Aggregate {
                entry,
                number,
                name,
            });
        }
        too_many(node, aggregates.len(), "aggregates")?;
    }
    if list.is_empty() {
        aggregates.push(Aggregate {
            entry: "all",
            number: 0,
            name: "all".to_owned(),
        });
    }
    Ok(aggregates)
}

fn too_many(node: &Node, count: usize, what: &str) -> Result<(), Mistake> {
    if count as u64 <= Scenario::MAX_PARTS {
        return Ok(());
    }
    Err(node.wrong(format!("too many {what}: at most {}", Scenario::MAX_PARTS)))
}

/// An entry of flows.
struct Flows<'a> {
    node: &'a Node,
    f: Fields<'a>,
    name: &'a str,
    /// Entries of aggregates; of all, if empty.
    aggregates: BTreeSet<&'a str>,
    count: usize,
    per_aggregate: Vec<&'a str>,
    forward: Vec<usize>,
    back: Vec<usize>,
    /// The longest round trip without queues.
    rtt: Nanos,
}

/// Texts of a list, or the one text in its place.
fn texts<'a>(f: &Fields<'a>, key: &str) -> Result<Vec<(&'a Node, &'a str)>, Mistake> {
    let text = |node: &'a Node| match &node.value {
        Value::Text(text) => Ok((node, text.as_str())),
        _ => Err(node.wrong(format!("`{key}` holds names in quotes"))),
    };
    match f.raw(key) {
        None => Ok(Vec::new()),
        Some(Node {
            value: Value::List(list),
            ..
        }) => list.iter().map(text).collect(),
        Some(node) => Ok(vec![text(node)?]),
    }
}

impl<'a> Flows<'a> {
    fn read(
        node: &'a Node,
        names: &BTreeMap<&'a str, &'static str>,
        elements: &'a [Node],
        aggregates: usize,
    ) -> Result<Self, Mistake> {
        let f = Fields::new(node, "a flow", &[FLOW], &[])?;
        let of = |what: &str| -> Vec<&str> {
            let these = names.iter().filter(|(_, is)| **is == what);
            these.map(|(name, _)| *name).collect()
        };
        let path = |key: &str| -> Result<Vec<usize>, Mistake> {
            let mut way = Vec::new();
            for (node, wanted) in texts(&f, key)? {
                let is_it =
                    |element: &Node| name(element, "an element").is_ok_and(|own| own == wanted);
                let Some(index) = elements.iter().position(is_it) else {
                    let meant = instead(wanted, of("an element"));
                    return Err(node.wrong(format!("there is no element `{wanted}`{meant}")));
                };
                if way.contains(&index) {
                    let message = format!("`{key}` has `{wanted}` already: packets pass it once");
                    return Err(node.wrong(message));
                }
                way.push(index);
            }
            Ok(way)
        };
        let (forward, back) = (path("path")?, path("back")?);
        if forward.is_empty() {
            return Err(match f.raw("path") {
                None => f.missing("path"),
                Some(node) => node.wrong("the path of a flow is empty: name at least one element"),
            });
        }
        let mut own = BTreeSet::new();
        for (node, wanted) in texts(&f, "aggregate")? {
            let known = of("an aggregate");
            if !known.contains(&wanted) {
                let message = format!("there is no aggregate `{wanted}`{}", instead(wanted, known));
                return Err(node.wrong(message));
            }
            own.insert(wanted);
        }
        let mut per_aggregate = Vec::new();
        for (node, key) in texts(&f, "per-aggregate")? {
            let keys: Vec<&str> = FLOW.keys.iter().map(|key| key.name).collect();
            if !keys.contains(&key) {
                return Err(node.wrong(format!("there is no key `{key}`{}", instead(key, keys))));
            }
            per_aggregate.push(key);
        }
        let mut rtt = match &node.value {
            Value::Table(table) => flow::longest_rtt(table)?,
            _ => 0,
        };
        for &element in forward.iter().chain(&back) {
            // A delay that is too long is reported where the element is read.
            rtt = rtt.saturating_add(element::delay(&elements[element])?);
        }
        let count = f.integer("count", 0..=Scenario::MAX_PARTS)?.unwrap_or(1) as usize;
        // All aggregates have them, if none is named.
        too_many(node, count.saturating_mul(aggregates), "flows")?;
        Ok(Self {
            node,
            f,
            name: name(node, "a flow")?,
            aggregates: own,
            count,
            per_aggregate,
            forward,
            back,
            rtt,
        })
    }

    /// Whether all of them can begin before the end.
    fn begin_before(&self, end: Nanos) -> Result<(), Mistake> {
        let Value::Table(table) = &self.node.value else {
            return Ok(());
        };
        for node in flow::values(table, "start") {
            let (earliest, _) = range(node, "start", quantity::time)?;
            if earliest >= end {
                return Err(node.wrong("`start` is not before the end of the run"));
            }
        }
        Ok(())
    }

    /// Whether there are flows for all values of its lists; where their number is varied, there may
    /// be at another point.
    fn lists(&self, aggregates: &[Aggregate<'_>], varied: &[String]) -> Result<(), Mistake> {
        let own = |entry: &str| self.aggregates.is_empty() || self.aggregates.contains(entry);
        let own = aggregates.iter().filter(|aggregate| own(aggregate.entry));
        let is_varied = |name: &str| varied.iter().any(|other| other == name);
        let (mut entries, mut most) = (false, 0);
        for aggregate in own {
            entries |= is_varied(aggregate.entry);
            most = most.max(aggregate.number + 1);
        }
        let Value::Table(table) = &self.node.value else {
            return Ok(());
        };
        let inner = table.0.iter().filter_map(|(key, node)| match &node.value {
            Value::Table(inner) if key.text == "traffic" => Some(&inner.0),
            _ => None,
        });
        for (key, node) in table.0.iter().chain(inner.flatten()) {
            let Value::List(list) = &node.value else {
                continue;
            };
            let (number, unknown, whose) = match self.per_aggregate.contains(&key.text.as_str()) {
                true => (most, entries, "aggregate"),
                false => (self.count, is_varied(self.name), "flow"),
            };
            let names = ["path", "back", "aggregate", "per-aggregate"];
            if !names.contains(&key.text.as_str())
                && !unknown
                && number > 0
                && let Some(beyond) = list.get(number)
            {
                let (values, s) = (list.len(), if number == 1 { "" } else { "s" });
                let message = format!("`{}` has {values} values for {number} {whose}{s}", key.text);
                return Err(beyond.wrong(message));
            }
        }
        Ok(())
    }

    /// Adds the flows of all of its aggregates. `taken`: the flows that each of them has.
    fn add(
        &self,
        aggregates: &[Aggregate<'_>],
        seed: u64,
        taken: &mut [usize],
        senders: &mut Vec<Sender>,
    ) -> Result<(), Mistake> {
        for (index, aggregate) in aggregates.iter().enumerate() {
            if !self.aggregates.is_empty() && !self.aggregates.contains(aggregate.entry) {
                continue;
            }
            for number in 0..self.count {
                let choose = |key: &str| {
                    let whole = self.per_aggregate.contains(&key);
                    let draw = Draw::new(seed)
                        .name(aggregate.entry)
                        .number(aggregate.number as u64);
                    Choice {
                        turn: if whole { aggregate.number } else { number },
                        draw: if whole {
                            draw.name(key)
                        } else {
                            draw.name(self.name).number(number as u64).name(key)
                        },
                    }
                };
                let plan = flow::flow(&self.f.choosing(&choose), self.name, taken[index])?;
                taken[index] += 1;
                senders.push(Sender {
                    aggregate: index,
                    forward: self.forward.clone(),
                    back: self.back.clone(),
                    plan,
                    number: number as u32,
                });
            }
            too_many(self.node, senders.len(), "flows")?;
        }
        Ok(())
    }
}

/// Whether flows find their classes and queues in all policies on their way.
fn classes(root: &Table, elements: &[Element<'_>], senders: &[Sender]) -> Result<(), Mistake> {
    let policies: Vec<_> = elements
        .iter()
        .map(|element| match &element.kind {
            ElementKind::Limiter {
                config, classes, ..
            } => config.program().map(|program| (program, classes.is_some())),
            _ => None,
        })
        .collect();
    for sender in senders {
        for &index in sender.forward.iter().chain(&sender.back) {
            let Some((program, false)) = &policies[index] else {
                continue;
            };
            let wanted = sender.plan.class.unwrap_or(0);
            let class = program.classes().get(usize::from(wanted));
            let queue = sender.plan.queue.unwrap_or(0);
            let element = elements[index].name;
            let (key, message) = match class {
                None => (
                    "class",
                    format!(
                        "there is no class {wanted} in the policy of `{element}`: it has {}, from 0",
                        program.classes().len()
                    ),
                ),
                Some(class) if queue >= class.queues => (
                    "queue",
                    format!(
                        "there is no queue {queue} in class {wanted} of `{element}`: it has {}, from 0",
                        class.queues
                    ),
                ),
                Some(_) => continue,
            };
            let place = place_of(root, "flow", &sender.plan.name, key);
            return Err(Mistake::new(place, message));
        }
    }
    Ok(())
}

/// Notes the elements on the paths of flows; all of them where a setting says what a path is, since
/// the file's elements were for another one then.
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
        for node in ["path", "back"]
            .iter()
            .flat_map(|key| flow::values(table, key))
        {
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

/// For each aggregate the first of those that it shares elements with, directly or through others.
fn together(aggregates: usize, elements: &[Element<'_>], senders: &[Sender]) -> Vec<usize> {
    fn first(of: &mut [usize], mut at: usize) -> usize {
        while of[at] != at {
            of[at] = of[of[at]];
            at = of[at];
        }
        at
    }
    let mut of: Vec<usize> = (0..aggregates).collect();
    let mut user: Vec<Option<usize>> = vec![None; elements.len()];
    for sender in senders {
        for &index in sender.forward.iter().chain(&sender.back) {
            if !elements[index].shared {
                continue;
            }
            let own = first(&mut of, sender.aggregate);
            match user[index] {
                None => user[index] = Some(own),
                Some(other) => {
                    let other = first(&mut of, other);
                    of[own.max(other)] = own.min(other);
                }
            }
        }
    }
    (0..aggregates).map(|at| first(&mut of, at)).collect()
}

/// A group's plan.
fn group(
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
            let own = (!element.shared).then_some(aggregate);
            *placed.entry((*index, own)).or_insert_with(|| {
                let of = own.filter(|_| !alone).map(|own| &plan.aggregates[own]);
                let kind = element.kind.clone();
                let name = match of {
                    Some(aggregate) => format!("{}:{aggregate}", element.name),
                    None => element.name.to_owned(),
                };
                plan.elements.push(ElementPlan { name, kind });
                instances.push(Instance {
                    name: element.name.to_owned(),
                    aggregate: own,
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

/// The rate of a limiter: what it lets through in the long run.
fn rate(kind: &ElementKind) -> Option<Rate> {
    match kind {
        ElementKind::Limiter { config, .. } => config.rate(),
        _ => None,
    }
}
