//! The limiters of `tidegate_limiter`, as elements that packets pass.

use std::sync::Arc;

use tidegate_limiter::{
    Class, Classifier, Ecn, Fate, FlowKey, LimiterConfig, Nanos, Occupancy, PacketMeta,
};

use self::below::Below;
use crate::RunError;
use crate::outcome::Sample;
use crate::packet::wire::{Wire, hash_key};
use crate::packet::{Packet, PacketId, Packets};
use crate::plan::{Classes, ElementKind, FlowPlan, Plan};

pub mod below;
#[cfg(test)]
mod tests;

/// The only queue.
const ONE: Class = Class {
    first: 0,
    queues: 1,
    hosts: 0,
};

/// A limiter, and the queues to which packets go.
#[derive(Debug)]
pub struct Limiter {
    limiter: tidegate_limiter::Limiter<PacketId>,
    overhead: u32,
    sorting: Sorting,
    /// Its place below a node.
    below: Option<Below>,
}

/// How packets find their queues.
#[derive(Debug)]
enum Sorting {
    /// By their flow of the plan: the queues from which each flow's hash chooses.
    Flows(Box<[Class]>, Arc<[Wire]>),
    /// By their headers.
    Rules(Box<Classifier>, Arc<[Wire]>),
}

impl Sorting {
    /// The queues of the limiter of this index in the plan.
    fn new(
        plan: &Plan,
        index: usize,
        config: &LimiterConfig,
        classes: Option<&Classes>,
        wires: &Arc<[Wire]>,
    ) -> Result<Self, String> {
        let flows = |class: &dyn Fn(&FlowPlan) -> Result<Class, String>| {
            let passes =
                |flow: &FlowPlan| flow.forward.contains(&index) || flow.back.contains(&index);
            let class = |flow: &FlowPlan| if passes(flow) { class(flow) } else { Ok(ONE) };
            let classes: Result<Box<[Class]>, String> = plan.flows.iter().map(class).collect();
            classes.map(|classes| Self::Flows(classes, Arc::clone(wires)))
        };
        match (config, config.program(), classes) {
            (_, Some(program), Some(classes)) => {
                let Classes { rules, default } = classes;
                let key = hash_key(plan.seed);
                let classifier = Classifier::new(program, rules.clone(), *default, key);
                let classifier = classifier.map_err(|error| error.to_string())?;
                Ok(Self::Rules(Box::new(classifier), Arc::clone(wires)))
            }
            (_, Some(program), None) => {
                flows(&|flow| queue_of(program.classes(), flow.class.unwrap_or(0), flow.queue))
            }
            (LimiterConfig::WaterFilling(config), ..) => {
                // It has no classes. The classes of other limiters' policies are its queues.
                let weights = config.weights();
                let weighted = weights.iter().any(|&weight| weight != weights[0]);
                let all = Class {
                    first: 0,
                    queues: weights.len() as u16,
                    hosts: 0,
                };
                flows(&|flow| {
                    let queue = flow.queue.or(flow.class.filter(|_| weighted));
                    queue_of(&[all], 0, queue)
                })
            }
            _ => flows(&|_| Ok(ONE)),
        }
    }
}

impl Limiter {
    /// The limiter of this index in the plan, whose flows have these headers.
    ///
    /// # Errors
    /// If the element is no limiter. Or if a rule, or a flow that passes it, belongs to a class or
    /// queue that its policy does not have.
    pub fn new(plan: &Plan, index: usize, wires: &Arc<[Wire]>) -> Result<Self, RunError> {
        let element = &plan.elements[index];
        let fails = |what: String| RunError::plan(format!("limiter '{}': {what}", element.name));
        let ElementKind::Limiter {
            config,
            classes,
            overhead,
        } = &element.kind
        else {
            return Err(fails("the element is no limiter".into()));
        };
        let sorting = Sorting::new(plan, index, config, classes.as_ref(), wires).map_err(fails)?;
        let limiter = match config {
            // The random values of a run come from its seed.
            LimiterConfig::FairPolicer(config) if config.is_sketched() => {
                tidegate_limiter::Limiter::new(&config.clone().with_sketch(plan.seed).into(), 0)
            }
            config => tidegate_limiter::Limiter::new(config, 0),
        };
        Ok(Self {
            limiter,
            overhead: *overhead,
            sorting,
            below: None,
        })
    }

    /// Puts it below a node, before the first packet. Only phantom queues follow the node.
    pub fn place_below(&mut self, below: Below) {
        self.below = Some(below);
    }

    /// Bytes that one takes up in a plan with this many flows, roughly.
    pub fn memory(config: &LimiterConfig, flows: usize) -> u64 {
        (config.memory() + flows * size_of::<Class>()) as u64
    }

    /// The bytes that it adds to the length of an IP packet.
    pub fn overhead(&self) -> u32 {
        self.overhead
    }

    /// A packet comes. It is returned if it passes at once.
    #[inline]
    pub fn offer(&mut self, now: Nanos, id: PacketId, packets: &mut Packets) -> Option<PacketId> {
        let meta = self.meta(packets.get(id), None);
        self.decide(now, id, meta, packets)
    }

    /// The same for a packet with these headers, as they are on the way to the client. Rules and hosts follow from them,
    /// and not from those of the flow in the plan.
    #[inline]
    pub fn offer_as(
        &mut self,
        now: Nanos,
        id: PacketId,
        key: &FlowKey,
        packets: &mut Packets,
    ) -> Option<PacketId> {
        let meta = self.meta(packets.get(id), Some(key));
        self.decide(now, id, meta, packets)
    }

    #[inline]
    fn decide(
        &mut self,
        now: Nanos,
        id: PacketId,
        meta: PacketMeta,
        packets: &mut Packets,
    ) -> Option<PacketId> {
        if let (Some(below), tidegate_limiter::Limiter::PhantomQueues(queues)) =
            (&self.below, &mut self.limiter)
        {
            queues.set_share(below.share(now));
        }
        let fate = self.limiter.offer(now, &meta, id);
        if let Some(below) = &mut self.below
            && !matches!(fate, Fate::Drop(_) | Fate::Wait)
        {
            below.count(meta.bytes.into());
        }
        if let (Some(below), tidegate_limiter::Limiter::PhantomQueues(queues)) =
            (&self.below, &mut self.limiter)
        {
            below.tell(queues);
        }
        match fate {
            Fate::Pass(id) => Some(id),
            Fate::Mark(id, dscp) => {
                packets.get_mut(id).dscp = dscp;
                Some(id)
            }
            Fate::Ce(id) => {
                packets.get_mut(id).segment.ecn = Ecn::Ce;
                Some(id)
            }
            Fate::Drop(id) => {
                packets.drop(id);
                None
            }
            Fate::Wait => None,
        }
    }

    #[inline]
    fn meta(&self, packet: &Packet, key: Option<&FlowKey>) -> PacketMeta {
        let (bytes, ecn) = (packet.bytes + self.overhead, packet.segment.ecn);
        let class = match &self.sorting {
            Sorting::Flows(classes, _) => classes[packet.flow as usize],
            Sorting::Rules(classifier, wires) => {
                let key = match key {
                    Some(&key) => FlowKey {
                        dscp: packet.dscp,
                        ..key
                    },
                    None => wires[packet.flow as usize].key(packet.connection, packet.dscp),
                };
                return PacketMeta {
                    ecn,
                    ..classifier.classify(&key, bytes)
                };
            }
        };
        // As the classifier does: the hash as a fraction of the class's queues.
        let share = (u64::from(packet.hash) * u64::from(class.queues)) >> 32;
        let host = match &self.sorting {
            Sorting::Flows(_, wires) if class.hosts > 0 => {
                let wire = &wires[packet.flow as usize];
                key.map_or_else(
                    || wire.host_hash(),
                    |key| key.host_hash(wire.hash_key(), false),
                )
            }
            _ => 0,
        };
        PacketMeta {
            bytes,
            queue: class.first + share as u16,
            class,
            dscp: packet.dscp,
            ecn,
            flow: packet.hash,
            host,
        }
    }

    /// A packet that the limiter held and that leaves now.
    #[inline]
    pub fn poll(&mut self, now: Nanos) -> Option<PacketId> {
        self.limiter.poll_release(now)
    }

    /// When the next one may leave.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.limiter.poll_timeout()
    }

    /// Tokens missing from buckets, or bytes in queues.
    pub fn sample(&mut self, now: Nanos) -> Sample {
        let Occupancy { queues, magic } = self.limiter.occupancy(now);
        Sample {
            at: now,
            queues,
            magic,
        }
    }
}

/// The queues from which a flow's hash chooses: those of its class, or just the queue that the flow
/// names.
fn queue_of(classes: &[Class], class: u16, queue: Option<u16>) -> Result<Class, String> {
    let Some(&all) = classes.get(usize::from(class)) else {
        let count = classes.len();
        return Err(format!("a flow is of class {class}, and there are {count}"));
    };
    match queue {
        None => Ok(all),
        Some(queue) if queue < all.queues => Ok(Class {
            first: all.first + queue,
            queues: 1,
            hosts: 0,
        }),
        Some(queue) => {
            let count = all.queues;
            Err(format!(
                "a flow names queue {queue} of class {class}, which has only {count} queues"
            ))
        }
    }
}
