//! The nodes of a file: capacities that limiters share.

use std::collections::BTreeMap;

use tidegate_limiter::{Hierarchy, LimiterConfig};
use tidegate_notation::{Mistake, Node, Table, Value};

use super::fields::Fields;
use super::keys::NODE;
use super::{name, tables};
use crate::plan::{ElementKind, NodePlan};

/// The nodes of a file, in its order.
pub(super) struct Network<'a> {
    /// Without limiters.
    pub(super) plans: Vec<NodePlan>,
    names: BTreeMap<&'a str, usize>,
}

impl<'a> Network<'a> {
    /// Reads them.
    pub(super) fn read(root: &'a Table) -> Result<Self, Mistake> {
        let list = tables(root, "node")?;
        let mut names = BTreeMap::new();
        for (index, node) in list.iter().enumerate() {
            names.insert(name(node, "a node")?, index);
        }
        let mut network = Self {
            plans: Vec::new(),
            names,
        };
        let mut parents = Vec::new();
        for node in list {
            let f = Fields::new(node, "a node", &[NODE], &[])?;
            let capacity = f.rate("rate")?.ok_or_else(|| f.missing("rate"))?;
            let parent = f.raw("parent");
            network.plans.push(NodePlan {
                name: name(node, "a node")?.to_owned(),
                capacity,
                above: parent
                    .map(|parent| network.find("parent", parent))
                    .transpose()?,
                limiters: Vec::new(),
            });
            parents.push(parent);
        }
        for (index, parent) in parents.iter().enumerate() {
            if let (None, Some(parent)) = (network.root(index), parent) {
                let most = Hierarchy::LEVELS;
                let message = format!(
                    "the way up from `{}` does not end within {most} nodes: take out a node, or a circle",
                    network.plans[index].name
                );
                return Err(parent.wrong(message));
            }
        }
        Ok(network)
    }

    /// The node that the value of a key names.
    fn find(&self, key: &str, named: &Node) -> Result<usize, Mistake> {
        let Value::Text(text) = &named.value else {
            return Err(named.wrong(format!("`{key}` is the name of a node")));
        };
        let found = self.names.get(text.as_str());
        found.copied().ok_or_else(|| {
            named.wrong(format!(
                "there is no node `{text}`: add [[node]] with this name"
            ))
        })
    }

    /// The topmost node of the way up from a node; `None` if the way is too long.
    pub(super) fn root(&self, node: usize) -> Option<usize> {
        let mut at = node;
        for _ in 0..Hierarchy::LEVELS {
            match self.plans[at].above {
                None => return Some(at),
                Some(above) => at = above,
            }
        }
        None
    }

    /// The node above an element. `varied`: its kind is not only that of the file, and `node` is only for some kinds.
    pub(super) fn above(
        &self,
        element: &Table,
        kind: &ElementKind,
        varied: bool,
    ) -> Result<Option<usize>, Mistake> {
        let Some(named) = element.get("node") else {
            return Ok(None);
        };
        let node = self.find("node", named)?;
        match kind {
            ElementKind::Limiter {
                config: LimiterConfig::PhantomQueues(_),
                ..
            } => Ok(Some(node)),
            _ if varied => Ok(None),
            _ => Err(named.wrong(
                "only limiters of kind `pqp`, `bc-pqp` or `bc-pqp-paper` can be below a node: take out `node`",
            )),
        }
    }
}
