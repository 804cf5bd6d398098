//! The aggregates of a scenario.

use std::collections::BTreeSet;

use tidegate_notation::{Mistake, Node, Table};

use super::fields::Fields;
use super::keys::AGGREGATE;
use super::{Scenario, name, tables};

/// An aggregate: its entry in the file, its number there, and its name in results.
pub(super) struct Aggregate<'a> {
    pub(super) entry: &'a str,
    pub(super) number: usize,
    pub(super) name: String,
}

/// The aggregates of a file; one for all flows, if it names none.
pub(super) fn aggregates(root: &Table) -> Result<Vec<Aggregate<'_>>, Mistake> {
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

/// Fails at this table if there are more of something than a scenario may have.
pub(super) fn too_many(node: &Node, count: usize, what: &str) -> Result<(), Mistake> {
    if count as u64 <= Scenario::MAX_PARTS {
        return Ok(());
    }
    Err(node.wrong(format!("too many {what}: at most {}", Scenario::MAX_PARTS)))
}
