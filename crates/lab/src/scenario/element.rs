//! Elements of a file, checked.

use tidegate_limiter::{Nanos, Scheme};
use tidegate_notation::{Mistake, Node, Section, Value, quantity};

use super::fields::Fields;
use super::files::Files;
use super::keys::{
    BC_PQP, BC_PQP_PAPER, DELAY, ELEMENT, FAIR_POLICER, LINK, LOSS, POLICER, PQP, REORDER, SHAPER,
    SRTCM, TAP, TRTCM,
};
use super::{capacity, limiter, queue, sizing};
use crate::plan::{ElementKind, QueueKind};

/// An element of the file.
pub(super) struct Element<'a> {
    pub(super) name: &'a str,
    pub(super) kind: ElementKind,
    /// Whether all aggregates pass the same element. Otherwise each has a separate one.
    pub(super) shared: bool,
    /// The node above it.
    pub(super) node: Option<usize>,
}

/// What an element is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Limiter(Scheme),
    Link,
    Delay,
    Loss,
    Reorder,
    Tap,
}

/// The kinds of elements, and the keys of each.
const KINDS: &[(&str, Kind, Section)] = &[
    limited(Scheme::Policer, POLICER),
    limited(Scheme::SingleRate, SRTCM),
    limited(Scheme::TwoRate, TRTCM),
    limited(Scheme::FairPolicer, FAIR_POLICER),
    limited(Scheme::Pqp, PQP),
    limited(Scheme::BcPqp, BC_PQP),
    limited(Scheme::BcPqpPaper, BC_PQP_PAPER),
    limited(Scheme::Shaper, SHAPER),
    ("link", Kind::Link, LINK),
    ("delay", Kind::Delay, DELAY),
    ("loss", Kind::Loss, LOSS),
    ("reorder", Kind::Reorder, REORDER),
    ("tap", Kind::Tap, TAP),
];

/// A limiter is of a kind that has its scheme's name.
const fn limited(scheme: Scheme, keys: Section) -> (&'static str, Kind, Section) {
    (scheme.name(), Kind::Limiter(scheme), keys)
}

/// An element's kind with its name, and the keys that it may have.
fn section(node: &Node) -> Result<(&'static str, Kind, Section), Mistake> {
    let kind = match &node.value {
        Value::Table(table) => table.get("kind"),
        _ => None,
    };
    let Some(kind) = kind else {
        // The key may be there but misspelt. The keys of all kinds together are not suggested.
        let all: Vec<Section> = KINDS.iter().map(|kind| kind.2).collect();
        let fields = Fields::new(node, "an element", &[ELEMENT], &all)?;
        return Err(fields.missing("kind"));
    };
    let kinds: Vec<_> = KINDS.iter().map(|kind| (kind.0, *kind)).collect();
    kind.word("kind", &kinds)
}

/// The keys of a kind of elements, those of all kinds left out; `None` if there is no such kind.
pub(super) fn keys(name: &str) -> Option<Section> {
    let kind = KINDS.iter().find(|kind| kind.0 == name);
    kind.map(|kind| kind.2)
}

/// The names of the kinds.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.0)
}

/// The delay of an element, if it is of a kind that adds a constant delay.
pub(super) fn delay(node: &Node) -> Result<Nanos, Mistake> {
    let (_, kind, _) = section(node)?;
    let Value::Table(table) = &node.value else {
        return Ok(0);
    };
    match table.get("delay") {
        Some(delay) if kind == Kind::Delay => {
            super::fields::range(delay, "delay", quantity::time).map(|(delay, _)| delay)
        }
        _ => Ok(0),
    }
}

/// The kind of an element. `varied`: its kind is not only that of the file, so keys of other kinds
/// are ignored. `rtt`: the longest round trip of the flows that pass.
pub(super) fn kind(
    node: &Node,
    varied: bool,
    rtt: Nanos,
    files: &Files,
) -> Result<ElementKind, Mistake> {
    let (name, kind, keys) = section(node)?;
    let others: Vec<Section> = KINDS.iter().map(|kind| kind.2).collect();
    let what = format!("an element of kind {name}");
    let passed_over = if varied { others.as_slice() } else { &[] };
    let f = Fields::new(node, &what, &[ELEMENT, keys], passed_over)?;
    Ok(match kind {
        Kind::Link => {
            let capacity = capacity::varying(&f, files)?;
            let rate = match &capacity {
                Some(capacity) => capacity.nominal(),
                None => f.rate("rate")?.ok_or_else(|| f.missing("rate"))?,
            };
            let queue = match f.node("queue")? {
                None => None,
                Some(node) => queue::queue(node)?,
            };
            let queue = queue.unwrap_or_else(|| QueueKind::DropTail {
                bytes: Some(sizing::bdp(rate, rtt)),
                packets: None,
            });
            match capacity {
                Some(capacity) => ElementKind::Varying { capacity, queue },
                None => ElementKind::Link { rate, queue },
            }
        }
        Kind::Delay => ElementKind::Delay {
            delay: f.delay("delay")?.ok_or_else(|| f.missing("delay"))?,
            jitter: f.delay("jitter")?.unwrap_or(0),
        },
        Kind::Loss => ElementKind::Loss {
            probability: probability(&f)?,
            burst: f.real("burst", 1.0..=1e6)?.unwrap_or(1.0),
        },
        Kind::Reorder => ElementKind::Reorder {
            probability: probability(&f)?,
            by: f.delay("by")?.ok_or_else(|| f.missing("by"))?,
        },
        Kind::Tap => ElementKind::Tap {
            snaplen: f.small_bytes("snaplen", 1..=262_144)?.unwrap_or(128),
        },
        Kind::Limiter(scheme) => limiter::limiter(scheme, &f, rtt)?,
    })
}

fn probability(f: &Fields<'_>) -> Result<f64, Mistake> {
    if let Some(node) = f.node("probability")?
        && let Value::Text(text) = &node.value
        && let Some(percent) = text
            .strip_suffix('%')
            .and_then(|text| text.trim().parse::<f64>().ok())
    {
        let share = percent / 100.0;
        return Err(node.wrong(format!(
            "`probability` is a number from 0 to 1: write {share} instead of {text}"
        )));
    }
    f.real("probability", 0.0..=1.0)?
        .ok_or_else(|| f.missing("probability"))
}
