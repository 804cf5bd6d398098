//! Limiters below nodes of a network, as in the gate: a node that is full leaves each of them the same part of its rate.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_limiter::{Hierarchy, HierarchyError, Nanos, NetworkNode, PhantomQueues, Rate, Share};

use crate::plan::Plan;

/// The nodes of a plan, which its limiters share.
#[derive(Debug, Clone)]
pub struct Network(Arc<Mutex<Hierarchy>>);

impl Network {
    /// The nodes of a plan; `None` if it has none.
    ///
    /// # Errors
    /// If a capacity is too small or too large, or the way up from a node is longer than [`Hierarchy::LEVELS`].
    pub fn new(plan: &Plan) -> Result<Option<Self>, HierarchyError> {
        if plan.nodes.is_empty() {
            return Ok(None);
        }
        let nodes = plan.nodes.iter().map(|node| NetworkNode {
            capacity: node.capacity,
            above: node.above,
        });
        let network = Hierarchy::new(&nodes.collect::<Vec<_>>())?;
        Ok(Some(Self(Arc::new(Mutex::new(network)))))
    }

    fn lock(&self) -> MutexGuard<'_, Hierarchy> {
        // Nothing is left half done by a thread that panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A limiter's place below a node.
#[derive(Debug)]
pub struct Below {
    network: Network,
    node: usize,
    grain: u32,
    /// Bytes that passed, from a number on that differs between limiters, see [`Hierarchy::counted`].
    passed: u64,
}

impl Below {
    /// A place below this node, for a limiter of this rate.
    pub fn new(network: &Network, node: usize, rate: Rate, number: usize) -> Self {
        let grain = Hierarchy::grain(rate);
        Self {
            network: network.clone(),
            node,
            grain,
            // Multiples of the golden section are spread evenly.
            passed: (number as u64).wrapping_mul(0x9e37_79b9) & ((1 << grain) - 1),
        }
    }

    /// The share of its rate that the limiter may use now.
    pub fn share(&self, now: Nanos) -> Share {
        self.network.lock().share(self.node, now)
    }

    /// Tells the nodes which part of its rate the limiter used lately.
    pub fn tell(&self, queues: &mut PhantomQueues) {
        let used = match queues.knows_used() {
            true => queues.take_used(),
            false => Some(Share::WHOLE),
        };
        if let Some(used) = used {
            self.network.lock().tell(self.node, used);
        }
    }

    /// Counts what the limiter let pass.
    pub fn count(&mut self, bytes: u64) {
        let before = self.passed;
        self.passed += bytes;
        let counted = Hierarchy::counted(before, self.passed, self.grain);
        if counted > 0 {
            self.network.lock().count(self.node, counted);
        }
    }
}
