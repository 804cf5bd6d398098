//! What is watched.

use tidegate_notation::{Mistake, Node, quantity};

use super::fields::Fields;
use super::keys::WATCH;
use super::problem::Sink;
use crate::quality::{Range, Requirement, Watch};

/// Flows that are watched by default.
const FLOWS: u32 = 1 << 16;

pub(super) fn watch<'a>(node: &'a Node, sink: &'a Sink) -> Option<Watch> {
    let f = Fields::new(node, "`watch`", &[WATCH], sink)?;
    let default = Requirement::default();
    let time = |node: &Node, key: &str| node.quantity(key, quantity::time);
    let share = |node: &Node, key: &str| {
        let percent = node.real(key, 0.0..=100.0)?;
        Ok((percent * 1e4).round() as u32)
    };
    Some(Watch {
        flows: f
            .integer("flows", 1 << 10..=1 << 24)
            .map_or(FLOWS, |flows| flows as u32),
        requirement: Requirement {
            p50: range(&f, "p50", time).unwrap_or(default.p50),
            p95: range(&f, "p95", time).unwrap_or(default.p95),
            again: range(&f, "again", share).unwrap_or(default.again),
        },
    })
}

/// Two values, the lower one first.
fn range<T: Copy + PartialOrd>(
    f: &Fields<'_>,
    key: &str,
    read: impl Fn(&Node, &str) -> Result<T, Mistake>,
) -> Option<Range<T>> {
    let node = f.node(key)?;
    let [good, useless] = node.values() else {
        f.wrong(
            node,
            format!("`{key}` is a list of two values: what is good, and what is useless"),
        );
        return None;
    };
    let good = f.sink.note(read(good, key));
    let useless = f.sink.note(read(useless, key));
    let (good, useless) = (good?, useless?);
    if good >= useless {
        f.wrong(
            node,
            format!("`{key}` begins with the lower value: what is good, then what is useless"),
        );
        return None;
    }
    Some(Range { good, useless })
}
