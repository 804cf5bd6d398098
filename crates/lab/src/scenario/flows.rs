//! The entries of flows: the elements that they pass, and the flows that each aggregate has of them.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_limiter::Nanos;
use tidegate_notation::{Mistake, Node, Value, instead, quantity};

use super::aggregate::{Aggregate, too_many};
use super::arrivals::Arrivals;
use super::draw::Draw;
use super::fields::{Choice, Fields, range, values};
use super::files::Files;
use super::keys::{ARRIVALS, FLOW};
use super::{Scenario, element, flow, name};
use crate::plan::{FlowPlan, Traffic};
use crate::random::exponential;

/// A flow with the elements of the file that it passes.
pub(super) struct Sender {
    /// Index of its aggregate among all.
    pub(super) aggregate: usize,
    pub(super) forward: Vec<usize>,
    pub(super) back: Vec<usize>,
    pub(super) plan: FlowPlan,
    /// Its number among the flows of its entry and aggregate.
    pub(super) number: u32,
}

/// An entry of flows.
pub(super) struct Flows<'a> {
    node: &'a Node,
    f: Fields<'a>,
    name: &'a str,
    /// The names of its aggregates; empty for all aggregates.
    aggregates: BTreeSet<&'a str>,
    count: usize,
    /// When they begin, if they are not counted.
    arrivals: Option<Arrivals>,
    per_aggregate: Vec<&'a str>,
    pub(super) forward: Vec<usize>,
    pub(super) back: Vec<usize>,
    /// The longest round trip without queues.
    pub(super) rtt: Nanos,
}

/// The texts of a list, or the single text.
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

/// The value of `arrivals`.
fn arrivals(f: &Fields<'_>, files: &Files) -> Result<Option<Arrivals>, Mistake> {
    let Some(node) = f.raw("arrivals") else {
        return Ok(None);
    };
    let Value::Table(table) = &node.value else {
        return Ok(f.positive_time("arrivals")?.map(Arrivals::Poisson));
    };
    let known = Fields::of(table, node.place, "arrivals", &[ARRIVALS], &[])?;
    let trace = known.raw("trace").ok_or_else(|| known.missing("trace"))?;
    files.arrivals(trace).map(Arrivals::Trace).map(Some)
}

impl<'a> Flows<'a> {
    /// Reads an entry. `names` has the meaning of each name of the file; `aggregates` is their
    /// number.
    pub(super) fn read(
        node: &'a Node,
        names: &BTreeMap<&'a str, &'static str>,
        elements: &'a [Node],
        aggregates: usize,
        files: &Files,
    ) -> Result<Self, Mistake> {
        let f = Fields::new(node, "a flow", &[FLOW], &[])?;
        let of = |what: &str| -> Vec<&str> {
            let these = names.iter().filter(|(_, is)| **is == what);
            these.map(|(name, _)| *name).collect()
        };
        let path = |key: &str| -> Result<Vec<usize>, Mistake> {
            if let Some(node) = f.raw(key)
                && let Value::Text(name) = &node.value
            {
                let message = format!("`{key}` is a list of names: write {key} = [\"{name}\"]");
                return Err(node.wrong(message));
            }
            let mut way = Vec::new();
            for (node, wanted) in texts(&f, key)? {
                let is_it =
                    |element: &Node| name(element, "an element").is_ok_and(|name| name == wanted);
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
        let mut owners = BTreeSet::new();
        for (node, wanted) in texts(&f, "aggregate")? {
            let known = of("an aggregate");
            if !known.contains(&wanted) {
                let message = format!("there is no aggregate `{wanted}`{}", instead(wanted, known));
                return Err(node.wrong(message));
            }
            owners.insert(wanted);
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
        let arrivals = arrivals(&f, files)?;
        if arrivals.is_some() && f.raw("count").is_some() {
            return Err(f.wrong("count", "flows have `count` or `arrivals`: leave one out"));
        }
        // All aggregates have them, if none is named.
        too_many(node, count.saturating_mul(aggregates), "flows")?;
        Ok(Self {
            node,
            f,
            name: name(node, "a flow")?,
            aggregates: owners,
            count,
            arrivals,
            per_aggregate,
            forward,
            back,
            rtt,
        })
    }

    /// Whether the aggregate has flows of this entry.
    fn is_in(&self, aggregate: &Aggregate<'_>) -> bool {
        self.aggregates.is_empty() || self.aggregates.contains(aggregate.entry)
    }

    /// Fails if one of them begins after the end.
    pub(super) fn begin_before(&self, end: Nanos) -> Result<(), Mistake> {
        let Value::Table(table) = &self.node.value else {
            return Ok(());
        };
        for node in values(table, "start") {
            let (earliest, _) = range(node, "start", quantity::time)?;
            if earliest >= end {
                return Err(node.wrong("`start` is not before the end of the run"));
            }
        }
        Ok(())
    }

    /// Fails if a list has more values than there are flows. If their number is varied, there may be
    /// more flows at another point.
    pub(super) fn check_lists(
        &self,
        aggregates: &[Aggregate<'_>],
        varied: &[String],
    ) -> Result<(), Mistake> {
        let is_varied = |name: &str| varied.iter().any(|other| other == name);
        let (mut entries, mut most) = (false, 0);
        for aggregate in aggregates.iter().filter(|aggregate| self.is_in(aggregate)) {
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
                false => (
                    self.count,
                    self.arrivals.is_some() || is_varied(self.name),
                    "flow",
                ),
            };
            // Lists that are one value.
            let names = [
                "path",
                "back",
                "aggregate",
                "per-aggregate",
                "ladder",
                "preface",
                "segment-sizes",
            ];
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

    /// Adds the flows of all of its aggregates that begin before the end. `taken` has the flows that each of them has.
    pub(super) fn add(
        &self,
        aggregates: &[Aggregate<'_>],
        (seed, end): (u64, Nanos),
        files: &Files,
        taken: &mut [usize],
        senders: &mut Vec<Sender>,
    ) -> Result<(), Mistake> {
        for (index, aggregate) in aggregates.iter().enumerate() {
            if !self.is_in(aggregate) {
                continue;
            }
            // When the first one begins, and the time from then to the next one's arrival.
            let (mut begin, mut since) = (0, 0);
            for number in 0.. {
                if self.arrivals.is_none() && number >= self.count {
                    break;
                }
                let whole = Draw::new(seed)
                    .name(aggregate.entry)
                    .number(aggregate.number as u64);
                let one = whole.name(self.name).number(number as u64);
                let choose = |key: &str| match self.per_aggregate.contains(&key) {
                    true => Choice {
                        turn: aggregate.number,
                        draw: whole.name(key),
                    },
                    false => Choice {
                        turn: number,
                        draw: one.name(key),
                    },
                };
                let mut plan =
                    flow::flow(&self.f.choosing(&choose), self.name, taken[index], files)?;
                if number == 0 {
                    begin = plan.start;
                }
                match &self.arrivals {
                    None => {}
                    Some(Arrivals::Poisson(mean)) => {
                        plan.start = begin.saturating_add(since);
                        let gap = *mean as f64 * exponential(one.name("arrivals").uniform());
                        since = since.saturating_add(gap as Nanos);
                    }
                    Some(Arrivals::Trace(trace)) => {
                        let Some(arrival) = trace.get(number) else {
                            break;
                        };
                        plan.start = begin.saturating_add(arrival.at);
                        if arrival.bytes.is_some() {
                            let Traffic::Bulk { bytes } = &mut plan.traffic else {
                                let message = "the trace of `arrivals` has sizes, which only traffic of kind `bulk` has";
                                return Err(self.f.wrong("arrivals", message));
                            };
                            *bytes = arrival.bytes;
                        }
                    }
                }
                if self.arrivals.is_some() && plan.start >= end {
                    break;
                }
                taken[index] += 1;
                senders.push(Sender {
                    aggregate: index,
                    forward: self.forward.clone(),
                    back: self.back.clone(),
                    plan,
                    number: number as u32,
                });
                too_many(self.node, senders.len(), "flows")?;
            }
        }
        Ok(())
    }
}
