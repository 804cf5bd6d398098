//! Nodes of the network: capacities that subscribers share, such as an access point, its site and the site's backhaul.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tidegate_limiter::{NetworkNode, Rate};

use crate::table::{Direction, PerDirection};

#[cfg(test)]
mod tests;

/// Most nodes. Data paths have room for twice as many, for a change that replaces all of them.
pub const MAX_NODES: usize = 4000;

/// A node of the network, as it is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name; no two have the same.
    pub name: String,
    /// The node above it.
    pub parent: Option<String>,
    /// bit/s.
    pub capacity: PerDirection<u64>,
}

/// A node with its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its number, which it keeps.
    number: u32,
    /// The node above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// bit/s.
    pub capacity: PerDirection<u64>,
}

impl Member {
    /// The number in a data path, where each direction is a separate node and 0 is none.
    pub fn number(&self, direction: Direction) -> u32 {
        2 * (self.number + 1) + direction as u32
    }
}

/// The nodes of a gate, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nodes(BTreeMap<String, Member>);

impl Nodes {
    /// All nodes with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Member)> {
        self.0.iter().map(|(name, node)| (name.as_str(), node))
    }

    /// The number of a node in a data path; 0 if there is none of this name.
    pub(crate) fn number(&self, name: Option<&str>, direction: Direction) -> u32 {
        let node = name.and_then(|name| self.0.get(name));
        node.map_or(0, |node| node.number(direction))
    }

    fn node(&self, member: &Member, direction: Direction) -> NetworkNode {
        let above = self.number(member.parent.as_deref(), direction);
        NetworkNode {
            capacity: Rate::from_bits_per_second(member.capacity[direction]),
            above: (above > 0).then_some(above as usize),
        }
    }

    /// The nodes that are declared. Those that were there before keep their numbers, and no other node has a number
    /// that was in use.
    pub(crate) fn next(&self, declared: &[Node]) -> Self {
        let used: BTreeSet<u32> = self.0.values().map(|node| node.number).collect();
        let mut free = (0..).filter(|number| !used.contains(number));
        let number = |node: &Node| match self.0.get(&node.name) {
            Some(known) => known.number,
            // There are more numbers than nodes.
            None => free.next().unwrap_or_default(),
        };
        let numbers: Vec<u32> = declared.iter().map(number).collect();
        let member = |(node, number): (&Node, u32)| {
            let member = Member {
                number,
                parent: node.parent.clone(),
                capacity: node.capacity,
            };
            (node.name.clone(), member)
        };
        Self(declared.iter().zip(numbers).map(member).collect())
    }

    /// What a data path with these nodes must be given so that it has the others: the number of each, and whether it is
    /// another node than before.
    pub(crate) fn changes(&self, to: &Self) -> Vec<(u32, NetworkNode, bool)> {
        let mut changes = Vec::new();
        for (name, new) in &to.0 {
            let old = self.0.get(name).filter(|old| old.number == new.number);
            for direction in Direction::BOTH {
                let node = to.node(new, direction);
                if old.is_none_or(|old| self.node(old, direction) != node) {
                    changes.push((new.number(direction), node, old.is_none()));
                }
            }
        }
        changes
    }
}
