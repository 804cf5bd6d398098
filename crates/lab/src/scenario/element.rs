//! Elements of a file, checked.

use tidegate_limiter::Nanos;
use tidegate_notation::{Mistake, Node, Section, Value, quantity};

use super::fields::Fields;
use super::keys::{
    BC_PQP, DELAY, ELEMENT, FAIR_POLICER, LINK, LOSS, POLICER, PQP, REORDER, SHAPER, SRTCM, TAP,
    TRTCM,
};
use super::{limiter, queue, sizing};
use crate::plan::{ElementKind, QueueKind};

/// An element of the file.
pub(super) struct Element<'a> {
    pub(super) name: &'a str,
    pub(super) kind: ElementKind,
    /// Whether all aggregates pass the same one, instead of one each.
    pub(super) shared: bool,
}

/// The kinds of elements.
const KINDS: &[(&str, Section)] = &[
    ("policer", POLICER),
    ("srtcm", SRTCM),
    ("trtcm", TRTCM),
    ("fair-policer", FAIR_POLICER),
    ("pqp", PQP),
    ("bc-pqp", BC_PQP),
    ("shaper", SHAPER),
    ("link", LINK),
    ("delay", DELAY),
    ("loss", LOSS),
    ("reorder", REORDER),
    ("tap", TAP),
];

/// An element's kind, and the keys that it may have.
fn section(node: &Node) -> Result<(&'static str, Section), Mistake> {
    let kind = match &node.value {
        Value::Table(table) => table.get("kind"),
        _ => None,
    };
    let Some(kind) = kind else {
        // It may be there with a slip of the pen; the keys of all kinds are none.
        let all: Vec<Section> = KINDS.iter().map(|(_, section)| *section).collect();
        let fields = Fields::new(node, "an element", &[ELEMENT], &all)?;
        return Err(fields.missing("kind"));
    };
    let kinds: Vec<_> = KINDS.iter().map(|kind| (kind.0, *kind)).collect();
    kind.word("kind", &kinds)
}

/// Whether an element is of a kind that adds a constant delay: how much.
pub(super) fn delay(node: &Node) -> Result<Nanos, Mistake> {
    let (kind, _) = section(node)?;
    let Value::Table(table) = &node.value else {
        return Ok(0);
    };
    match table.get("delay") {
        Some(delay) if kind == "delay" => {
            super::fields::range(delay, "delay", quantity::time).map(|(delay, _)| delay)
        }
        _ => Ok(0),
    }
}

/// What an element does. `varied`: its kind is not that of the file alone, so that keys of other
/// kinds are passed over. `rtt`: the longest round trip of the flows that pass.
pub(super) fn kind(node: &Node, varied: bool, rtt: Nanos) -> Result<ElementKind, Mistake> {
    let (name, keys) = section(node)?;
    let others: Vec<Section> = KINDS.iter().map(|(_, section)| *section).collect();
    let what = format!("an element of kind {name}");
    let passed_over = if varied { others.as_slice() } else { &[] };
    let f = Fields::new(node, &what, &[ELEMENT, keys], passed_over)?;
    Ok(match name {
        "link" => {
            let rate = f.rate("rate")?.ok_or_else(|| f.missing("rate"))?;
            let queue = match f.node("queue")? {
                None => None,
                Some(node) => queue::queue(node)?,
            };
            let queue = queue.unwrap_or_else(|| QueueKind::DropTail {
                bytes: Some(sizing::bdp(rate, rtt)),
                packets: None,
            });
            ElementKind::Link { rate, queue }
        }
        "delay" => ElementKind::Delay {
            delay: f.delay("delay")?.ok_or_else(|| f.missing("delay"))?,
            jitter: f.delay("jitter")?.unwrap_or(0),
        },
        "loss" => ElementKind::Loss {
            probability: probability(&f)?,
            burst: f.real("burst", 1.0..=1e6)?.unwrap_or(1.0),
        },
        "reorder" => ElementKind::Reorder {
            probability: probability(&f)?,
            by: f.delay("by")?.ok_or_else(|| f.missing("by"))?,
        },
        "tap" => ElementKind::Tap {
            snaplen: f.small_bytes("snaplen", 1..=262_144)?.unwrap_or(128),
        },
        _ => limiter::limiter(name, &f, rtt)?,
    })
}

fn probability(f: &Fields<'_>) -> Result<f64, Mistake> {
    f.real("probability", 0.0..=1.0)?
        .ok_or_else(|| f.missing("probability"))
}
