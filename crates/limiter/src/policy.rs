//! How the rate of an aggregate is shared among its queues.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// A sharing policy: a tree of queues, valid by construction.
///
/// ```
/// use tidegate_limiter::{PolicyTree, Program};
/// // Voice first; what it leaves is shared 4 to 1 by the web's flows and one bulk queue.
/// let policy = PolicyTree::priority(vec![
///     PolicyTree::queue(),
///     PolicyTree::weighted(vec![(4, PolicyTree::fair(8)?), (1, PolicyTree::queue())])?,
/// ])?;
/// let program = Program::new(&policy);
/// assert_eq!(program.queues(), 10);
/// assert_eq!(program.classes().len(), 3);
/// # Ok::<(), tidegate_limiter::PolicyError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(into = "Branch", try_from = "Branch"))]
pub struct PolicyTree {
    root: Branch,
    /// Nodes of the whole tree, its root included.
    nodes: usize,
    depth: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
enum Branch {
    Queue,
    Fair(u16),
    /// A number of hosts, and the queues of each.
    Hosts(u16, u16),
    Weighted(Vec<(u32, Branch)>),
    Priority(Vec<Branch>),
}

impl Default for PolicyTree {
    /// Sixteen queues with equal shares.
    fn default() -> Self {
        Self {
            root: Branch::Fair(16),
            nodes: 17,
            depth: 1,
        }
    }
}

#[cfg(feature = "serde")]
impl From<PolicyTree> for Branch {
    fn from(policy: PolicyTree) -> Self {
        policy.root
    }
}

#[cfg(feature = "serde")]
impl TryFrom<Branch> for PolicyTree {
    type Error = PolicyError;

    fn try_from(branch: Branch) -> Result<Self, PolicyError> {
        match branch {
            Branch::Queue => Ok(Self::queue()),
            Branch::Fair(queues) => Self::fair(queues),
            Branch::Hosts(hosts, queues) => Self::hosts(hosts, queues),
            Branch::Weighted(parts) => {
                let part = |(weight, part)| Ok((weight, Self::try_from(part)?));
                let parts: Result<_, PolicyError> = parts.into_iter().map(part).collect();
                Self::weighted(parts?)
            }
            Branch::Priority(parts) => {
                let parts: Result<_, _> = parts.into_iter().map(Self::try_from).collect();
                Self::priority(parts?)
            }
        }
    }
}

/// Why a policy cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A node without children.
    #[error("a policy needs at least one queue to share among")]
    Empty,
    /// A weight of 0, or above [`PolicyTree::MAX_WEIGHT`].
    #[error("{0} is not a weight: weights are whole numbers from 1 to {max}", max = PolicyTree::MAX_WEIGHT)]
    Weight(u32),
    /// More nodes than [`PolicyTree::MAX_NODES`].
    #[error("a policy has at most {max} nodes, this one would have {0}", max = PolicyTree::MAX_NODES)]
    Nodes(usize),
    /// Nested deeper than [`PolicyTree::MAX_DEPTH`].
    #[error("policies can be nested at most {max} deep", max = PolicyTree::MAX_DEPTH)]
    Depth,
}

impl PolicyTree {
    /// Most nodes of a tree: queues, and what shares among them.
    pub const MAX_NODES: usize = 1024;
    /// Levels below the root, at most.
    pub const MAX_DEPTH: usize = 8;
    /// The largest weight.
    pub const MAX_WEIGHT: u32 = 10_000;

    /// One queue for all.
    pub fn queue() -> Self {
        Self {
            root: Branch::Queue,
            nodes: 1,
            depth: 0,
        }
    }

    /// `queues` queues with equal shares, to which flows are spread by their hash.
    ///
    /// # Errors
    /// If there are none, or too many.
    pub fn fair(queues: u16) -> Result<Self, PolicyError> {
        if queues == 0 {
            return Err(PolicyError::Empty);
        }
        Self::checked(Branch::Fair(queues), 1 + usize::from(queues), 1)
    }

    /// Equal shares for `hosts` hosts, each with `queues` queues that share equally, to which its flows are spread. It is
    /// one class. Where more hosts are busy, some share a host's part.
    ///
    /// # Errors
    /// If there are none, or too many.
    pub fn hosts(hosts: u16, queues: u16) -> Result<Self, PolicyError> {
        if hosts == 0 || queues == 0 {
            return Err(PolicyError::Empty);
        }
        let nodes = 1 + usize::from(hosts) * (1 + usize::from(queues));
        Self::checked(Branch::Hosts(hosts, queues), nodes, 2)
    }

    /// Parts that share in proportion to their weights, as far as they have anything to send.
    ///
    /// # Errors
    /// If there are none, or too many, or a weight is out of range.
    pub fn weighted(parts: Vec<(u32, Self)>) -> Result<Self, PolicyError> {
        if let Some(&(weight, _)) = parts
            .iter()
            .find(|(weight, _)| !(1..=Self::MAX_WEIGHT).contains(weight))
        {
            return Err(PolicyError::Weight(weight));
        }
        let (nodes, depth) = Self::size(parts.iter().map(|(_, part)| part))?;
        let parts = parts.into_iter().map(|(weight, part)| (weight, part.root));
        Self::checked(Branch::Weighted(parts.collect()), nodes, depth)
    }

    /// Parts of which the first that has anything to send gets everything.
    ///
    /// # Errors
    /// If there are none, or too many.
    pub fn priority(parts: Vec<Self>) -> Result<Self, PolicyError> {
        let (nodes, depth) = Self::size(parts.iter())?;
        let parts = parts.into_iter().map(|part| part.root);
        Self::checked(Branch::Priority(parts.collect()), nodes, depth)
    }

    fn size<'a>(parts: impl Iterator<Item = &'a Self>) -> Result<(usize, usize), PolicyError> {
        let sizes = parts.map(|part| (part.nodes, part.depth));
        sizes
            .reduce(|all, one| (all.0 + one.0, all.1.max(one.1)))
            .map(|(nodes, depth)| (nodes + 1, depth + 1))
            .ok_or(PolicyError::Empty)
    }

    fn checked(root: Branch, nodes: usize, depth: usize) -> Result<Self, PolicyError> {
        if nodes > Self::MAX_NODES {
            return Err(PolicyError::Nodes(nodes));
        }
        if depth > Self::MAX_DEPTH {
            return Err(PolicyError::Depth);
        }
        Ok(Self { root, nodes, depth })
    }
}

/// What a node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Holds packets, phantom or real: the queue of this number.
    Queue(u16),
    /// Shares by weight. Fair sharing is sharing by weights of 1.
    Weighted,
    /// Serves the first child that has anything.
    Priority,
}

/// A node of a [`Program`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Node {
    /// What it does.
    pub kind: Kind,
    /// The node above; the root is its own.
    pub parent: u16,
    /// Its weight where its parent shares by weight, or 1.
    pub weight: u32,
    /// The first of its children, which follow each other.
    pub first: u16,
    /// Number of its children.
    pub count: u16,
    /// Its number among the queues, or among the nodes that share: both from 0 and without gaps.
    pub slot: u16,
}

impl Node {
    /// Its children.
    pub fn children(&self) -> Range<usize> {
        usize::from(self.first)..usize::from(self.first) + usize::from(self.count)
    }
}

/// A leaf of the policy as it was written: one queue, or the queues that its flows or hosts are spread to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Class {
    /// The first of its queues.
    pub first: u16,
    /// Number of its queues, at least 1.
    pub queues: u16,
    /// The number of hosts that its queues are for, as many for each; 0 if they are for flows of any host.
    pub hosts: u16,
}

impl Branch {
    /// The same tree, with each host's part written out.
    fn spelt_out(&self) -> Self {
        match self {
            Self::Queue => Self::Queue,
            Self::Fair(queues) => Self::Fair(*queues),
            Self::Hosts(hosts, queues) => {
                Self::Weighted(vec![(1, Self::Fair(*queues)); usize::from(*hosts)])
            }
            Self::Weighted(parts) => {
                let part = |(weight, part): &(u32, Self)| (*weight, part.spelt_out());
                Self::Weighted(parts.iter().map(part).collect())
            }
            Self::Priority(parts) => Self::Priority(parts.iter().map(Self::spelt_out).collect()),
        }
    }
}

/// A policy as flat tables, as data paths use it. Parents come before their children, children of
/// a node follow each other (and in order of priority), the root is node 0 and always shares.
#[derive(Debug, Clone)]
pub struct Program {
    nodes: Box<[Node]>,
    leaves: Box<[Leaf]>,
    /// The node of each slot of those that share.
    sharing: Box<[u16]>,
    classes: Box<[Class]>,
    fair: bool,
    policy: PolicyTree,
}

/// Policies that are written differently may come to the same tables.
impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        (&self.nodes, &self.classes) == (&other.nodes, &other.classes)
    }
}

impl Eq for Program {}

impl Hash for Program {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.nodes, &self.classes).hash(state);
    }
}

impl From<&PolicyTree> for Arc<Program> {
    fn from(policy: &PolicyTree) -> Self {
        Self::new(Program::new(policy))
    }
}

/// Where a queue is in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Leaf {
    node: u16,
    depth: u16,
    path: [Step; PolicyTree::MAX_DEPTH],
}

/// A step from a node up to the one above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Step {
    /// The weight of the node below.
    pub weight: u32,
    /// The node below.
    pub below: u16,
    /// The slot of the node above, among the nodes that share.
    pub slot: u16,
    /// It serves by priority, not by weight.
    pub priority: bool,
}

/// How large a policy a data path has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Most queues.
    pub queues: usize,
    /// Most nodes that share, the root among them.
    pub shares: usize,
}

impl Program {
    /// The tables of a policy. Queues and classes are numbered in the order in which the policy
    /// was written, from the left.
    pub fn new(policy: &PolicyTree) -> Self {
        let blank = |kind, parent, weight| Node {
            kind,
            parent,
            weight,
            first: 0,
            count: 0,
            slot: 0,
        };
        // One queue alone is a share of all.
        let root = match &policy.root {
            Branch::Queue => &Branch::Fair(1),
            other => other,
        };
        let spelt_out = root.spelt_out();
        // Level by level, so that siblings follow each other.
        let mut nodes = vec![blank(Kind::Weighted, 0, 1)];
        let mut level = vec![(0u16, &spelt_out)];
        let mut below = Vec::new();
        while !level.is_empty() {
            for (number, branch) in level.drain(..) {
                let first = nodes.len() as u16;
                let mut child = |weight, branch| {
                    if let Some(branch) = branch {
                        below.push((nodes.len() as u16, branch));
                    }
                    nodes.push(blank(Kind::Queue(0), number, weight));
                };
                let kind = match branch {
                    Branch::Queue => Kind::Queue(0),
                    Branch::Fair(queues) => {
                        (0..*queues).for_each(|_| child(1, None));
                        Kind::Weighted
                    }
                    Branch::Weighted(parts) => {
                        for (weight, part) in parts {
                            child(*weight, Some(part));
                        }
                        Kind::Weighted
                    }
                    Branch::Priority(parts) => {
                        parts.iter().for_each(|part| child(1, Some(part)));
                        Kind::Priority
                    }
                    Branch::Hosts(..) => unreachable!("hosts are spelt out"),
                };
                let count = nodes.len() as u16 - first;
                let node = &mut nodes[usize::from(number)];
                (node.kind, node.first, node.count) = (kind, first, count);
            }
            std::mem::swap(&mut level, &mut below);
        }
        let (mut leaves, mut classes) = (Vec::new(), Vec::new());
        number(root, 0, &mut nodes, &mut leaves, &mut classes);
        let mut sharing = Vec::new();
        for (number, node) in nodes.iter_mut().enumerate() {
            if !matches!(node.kind, Kind::Queue(_)) {
                node.slot = sharing.len() as u16;
                sharing.push(number as u16);
            }
        }
        let leaves = leaves.into_iter().map(|leaf| locate(&nodes, leaf));
        let (root, others) = (&nodes[0], &nodes[1..]);
        Self {
            fair: matches!(root.kind, Kind::Weighted)
                && others
                    .iter()
                    .all(|node| node.parent == 0 && node.weight == 1 && node.count == 0),
            leaves: leaves.collect(),
            nodes: nodes.into(),
            sharing: sharing.into(),
            classes: classes.into(),
            policy: policy.clone(),
        }
    }

    /// The policy that these are the tables of.
    pub fn policy(&self) -> &PolicyTree {
        &self.policy
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Number of queues, at least 1.
    pub fn queues(&self) -> usize {
        self.leaves.len()
    }

    /// The node of a queue.
    ///
    /// # Panics
    /// If there is no such queue.
    #[inline]
    pub fn leaf(&self, queue: u16) -> usize {
        usize::from(self.leaves[usize::from(queue)].node)
    }

    /// The way from a queue to the root.
    ///
    /// # Panics
    /// If there is no such queue.
    #[inline]
    pub fn path(&self, queue: u16) -> &[Step] {
        let leaf = &self.leaves[usize::from(queue)];
        &leaf.path[..usize::from(leaf.depth)]
    }

    /// Number of nodes that share, the root (in slot 0) among them.
    pub fn shares(&self) -> usize {
        self.sharing.len()
    }

    /// The sharing node of a slot.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn share(&self, slot: usize) -> &Node {
        &self.nodes[usize::from(self.sharing[slot])]
    }

    /// Whether the root shares evenly among queues, and there is nothing else: queue 0 is node 1,
    /// and so on.
    #[inline]
    pub fn is_fair(&self) -> bool {
        self.fair
    }

    /// Where packets are classified to, in the order of the policy.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }
}

/// Where the leaf of this node is.
fn locate(nodes: &[Node], node: u16) -> Leaf {
    let mut leaf = Leaf {
        node,
        ..Leaf::default()
    };
    let mut below = node;
    for step in &mut leaf.path {
        if below == 0 {
            break;
        }
        let from = &nodes[usize::from(below)];
        let above = &nodes[usize::from(from.parent)];
        *step = Step {
            weight: from.weight,
            below,
            slot: above.slot,
            priority: matches!(above.kind, Kind::Priority),
        };
        leaf.depth += 1;
        below = from.parent;
    }
    leaf
}

/// Numbers the queues and classes of a branch, from the left.
fn number(
    branch: &Branch,
    node: usize,
    nodes: &mut [Node],
    leaves: &mut Vec<u16>,
    classes: &mut Vec<Class>,
) {
    let children = nodes[node].children();
    let (queues, hosts): (Vec<usize>, u16) = match branch {
        Branch::Queue => (vec![node], 0),
        Branch::Fair(_) => (children.collect(), 0),
        Branch::Hosts(hosts, _) => {
            let of = |host: usize| nodes[host].children();
            (children.flat_map(of).collect(), *hosts)
        }
        Branch::Weighted(parts) => {
            for ((_, part), child) in parts.iter().zip(children) {
                number(part, child, nodes, leaves, classes);
            }
            return;
        }
        Branch::Priority(parts) => {
            for (part, child) in parts.iter().zip(children) {
                number(part, child, nodes, leaves, classes);
            }
            return;
        }
    };
    classes.push(Class {
        first: leaves.len() as u16,
        queues: queues.len() as u16,
        hosts,
    });
    for leaf in queues {
        nodes[leaf].kind = Kind::Queue(leaves.len() as u16);
        nodes[leaf].slot = leaves.len() as u16;
        leaves.push(leaf as u16);
    }
}
