//! The limiters of `tidegate_limiter`, at a place in the network.

use std::sync::Arc;

use tidegate_limiter::{
    BurstControl, Class, Classifier, ColourMode, Decision, FairPolicer, Marking, Nanos, PacketMeta,
    PhantomQueues, PolicyTree, Program, Rate, Shaper, ShaperConfig, SingleRateMarker, TokenBucket,
    TwoRateMarker, WaterFillingPolicer,
};

use crate::outcome::Sample;
use crate::plan::{Classes, FairPolicerForm, FlowPlan, LimiterKind, Plan};
use crate::sim::RunError;
use crate::sim::packet::{Packet, PacketId, Packets};
use crate::sim::wire::{Wire, hash_key};

#[cfg(test)]
mod tests;

/// Flows that FairPolicer tells apart at a time.
const ACTIVE_FLOWS: u16 = 4096;
/// The only queue.
const ONE: Class = Class {
    first: 0,
    queues: 1,
};

/// A limiter, and to which of its queues packets go.
#[derive(Debug)]
pub struct Limiter {
    kind: Kind,
    overhead: u32,
    sorting: Sorting,
}

/// How packets find their queues.
#[derive(Debug)]
enum Sorting {
    /// By their flow of the plan: the queues that each one's hash chooses from.
    Flows(Box<[Class]>),
    /// By what they carry.
    Rules(Box<Classifier>, Arc<[Wire]>),
}

#[derive(Debug)]
enum Kind {
    Policer(TokenBucket),
    SingleRate(SingleRateMarker, u64),
    TwoRate(TwoRateMarker, u64),
    Fair(Box<FairPolicer>, u64),
    WaterFilling(WaterFillingPolicer, u16),
    Phantom(Phantom),
    Shaper(Box<Shaper<PacketId>>, u16),
}

/// Phantom queues in the sizes that their type is made for: small ones keep it in few cache lines,
/// as gates use it; the last one has room for every policy.
#[derive(Debug)]
enum Phantom {
    Flat(Box<PhantomQueues>),
    Nested(Box<PhantomQueues<64, 16>>),
    Any(Box<PhantomQueues<{ PolicyTree::MAX_NODES }, { PolicyTree::MAX_NODES }>>),
}

impl Limiter {
    /// The limiter of this index in the plan, whose flows look so on the wire.
    ///
    /// # Errors
    /// If its settings contradict each other, or a flow that passes it or a rule belongs to a class
    /// or queue that its policy does not have.
    pub fn new(
        plan: &Plan,
        index: usize,
        kind: &LimiterKind,
        overhead: u32,
        wires: &Arc<[Wire]>,
    ) -> Result<Self, RunError> {
        let name = &plan.elements[index].name;
        let fails = |what: String| RunError::plan(format!("limiter '{name}': {what}"));
        let one = |_: &FlowPlan| Ok(ONE);
        let each = |class: &dyn Fn(&FlowPlan) -> Result<Class, String>| {
            let passes =
                |flow: &FlowPlan| flow.forward.contains(&index) || flow.back.contains(&index);
            let class = |flow: &FlowPlan| if passes(flow) { class(flow) } else { Ok(ONE) };
            let classes: Result<Box<[Class]>, String> = plan.flows.iter().map(class).collect();
            classes.map_err(fails)
        };
        let by_policy = |program: &Program, classes: &Option<Classes>| match classes {
            None => {
                let class = |flow: &FlowPlan| {
                    queue_of(program.classes(), flow.class.unwrap_or(0), flow.queue)
                };
                each(&class).map(Sorting::Flows)
            }
            Some(Classes { rules, default }) => {
                let classifier =
                    Classifier::new(program, rules.clone(), *default, hash_key(plan.seed));
                let classifier = classifier.map_err(|error| fails(error.to_string()))?;
                Ok(Sorting::Rules(Box::new(classifier), Arc::clone(wires)))
            }
        };
        let mut sorting = Sorting::Flows(each(&one)?);
        let kind = match kind {
            LimiterKind::Policer { rate, burst } => {
                Kind::Policer(TokenBucket::new(*rate, *burst, 0))
            }
            LimiterKind::SrTcm {
                rate,
                committed,
                excess,
                yellow,
                red,
            } => {
                let marking = marking(*yellow, *red);
                let marker = SingleRateMarker::new(
                    *rate,
                    *committed,
                    *excess,
                    ColourMode::Blind,
                    marking,
                    0,
                );
                let both = committed.saturating_add(*excess);
                Kind::SingleRate(marker.map_err(|error| fails(error.to_string()))?, both)
            }
            LimiterKind::TrTcm {
                rate,
                committed,
                peak,
                peak_burst,
                yellow,
                red,
            } => {
                let marking = marking(*yellow, *red);
                let marker = TwoRateMarker::new(
                    (*peak, *peak_burst),
                    (*rate, *committed),
                    ColourMode::Blind,
                    marking,
                    0,
                );
                let both = committed.saturating_add(*peak_burst);
                Kind::TwoRate(marker.map_err(|error| fails(error.to_string()))?, both)
            }
            LimiterKind::FairPolicer {
                rate,
                burst,
                form,
                weights,
                queues,
            } => match form {
                FairPolicerForm::Exact => {
                    let fair = FairPolicer::exact(*rate, *burst, ACTIVE_FLOWS, 0);
                    Kind::Fair(Box::new(fair), *burst)
                }
                FairPolicerForm::Sketch => {
                    let fair = FairPolicer::sketched(*rate, *burst, ACTIVE_FLOWS, plan.seed, 0);
                    Kind::Fair(Box::new(fair), *burst)
                }
                FairPolicerForm::BcPqp => {
                    let equal = vec![1; usize::from(*queues)];
                    let weights = if weights.is_empty() { &equal } else { weights };
                    let count = weights.len() as u16;
                    let fair = WaterFillingPolicer::new(*rate, *burst, weights, 0);
                    let fair = fair.map_err(|error| fails(error.to_string()))?;
                    // It has no classes: those of other limiters' policies are its queues.
                    let weighted = weights.iter().any(|&weight| weight != weights[0]);
                    sorting = Sorting::Flows(each(&|flow| {
                        let own = flow.queue.or(flow.class.filter(|_| weighted));
                        queue_of(
                            &[Class {
                                first: 0,
                                queues: count,
                            }],
                            0,
                            own,
                        )
                    })?);
                    Kind::WaterFilling(fair, count)
                }
            },
            LimiterKind::Phantom {
                rate,
                policy,
                classes,
                queue,
                control,
            } => {
                let program = Arc::new(Program::new(policy));
                sorting = by_policy(&program, classes)?;
                Kind::Phantom(Phantom::new(program, *rate, *queue, *control).map_err(fails)?)
            }
            LimiterKind::Shaper {
                rate,
                policy,
                classes,
                burst,
                queue_bytes,
                queue_packets,
            } => {
                let program = Arc::new(Program::new(policy));
                sorting = by_policy(&program, classes)?;
                let queues = program.queues() as u16;
                let config = ShaperConfig {
                    rate: *rate,
                    burst: *burst,
                    queue_bytes: *queue_bytes,
                    queue_packets: *queue_packets,
                };
                Kind::Shaper(Box::new(Shaper::new(program, &config, 0)), queues)
            }
        };
        Ok(Self {
            kind,
            overhead,
            sorting,
        })
    }

    /// Bytes that one takes up in a plan of so many flows, roughly.
    pub fn memory(kind: &LimiterKind, flows: usize) -> u64 {
        /// Of a queue: its node of the policy, and what is kept for it.
        const QUEUE: usize = 200;
        let own = match kind {
            LimiterKind::FairPolicer {
                form: FairPolicerForm::BcPqp,
                queues,
                ..
            } => usize::from(*queues) * QUEUE,
            // Twice the slots, of 16 bytes.
            LimiterKind::FairPolicer { .. } => usize::from(ACTIVE_FLOWS) * 2 * 16,
            LimiterKind::Phantom { policy, .. } | LimiterKind::Shaper { policy, .. } => {
                let program = Program::new(policy);
                let queues = program.queues() * QUEUE;
                match kind {
                    LimiterKind::Phantom { .. } => queues + Phantom::memory(&program),
                    _ => queues,
                }
            }
            _ => 0,
        };
        (own + flows * size_of::<Class>()) as u64
    }

    /// What it adds to the length of an IP packet.
    pub fn overhead(&self) -> u32 {
        self.overhead
    }

    /// A packet comes; it is given back if it goes on at once.
    #[inline]
    pub fn offer(&mut self, now: Nanos, id: PacketId, packets: &mut Packets) -> Option<PacketId> {
        let meta = self.meta(packets.get(id));
        let decision = match &mut self.kind {
            Kind::Policer(bucket) => bucket.offer(now, &meta),
            Kind::SingleRate(marker, _) => marker.offer(now, &meta),
            Kind::TwoRate(marker, _) => marker.offer(now, &meta),
            Kind::Fair(policer, _) => policer.offer(now, &meta),
            Kind::WaterFilling(policer, _) => policer.offer(now, &meta),
            Kind::Phantom(Phantom::Flat(queues)) => queues.offer(now, &meta),
            Kind::Phantom(Phantom::Nested(queues)) => queues.offer(now, &meta),
            Kind::Phantom(Phantom::Any(queues)) => queues.offer(now, &meta),
            Kind::Shaper(shaper, _) => {
                if let Err(id) = shaper.offer(now, &meta, id) {
                    packets.drop(id);
                }
                return None;
            }
        };
        match decision {
            Decision::Pass => Some(id),
            Decision::Mark(dscp) => {
                packets.get_mut(id).dscp = dscp;
                Some(id)
            }
            Decision::Drop => {
                packets.drop(id);
                None
            }
        }
    }

    #[inline]
    fn meta(&self, packet: &Packet) -> PacketMeta {
        let bytes = packet.bytes + self.overhead;
        let class = match &self.sorting {
            Sorting::Flows(classes) => classes[packet.flow as usize],
            Sorting::Rules(classifier, wires) => {
                let wire = &wires[packet.flow as usize];
                return classifier.classify(&wire.key(packet.connection, packet.dscp), bytes);
            }
        };
        // As the classifier does: the hash as a fraction of the class's queues.
        let share = (u64::from(packet.hash) * u64::from(class.queues)) >> 32;
        PacketMeta {
            bytes,
            queue: class.first + share as u16,
            dscp: packet.dscp,
            flow: packet.hash,
        }
    }

    /// A packet that it held and that leaves now.
    #[inline]
    pub fn poll(&mut self, now: Nanos) -> Option<PacketId> {
        match &mut self.kind {
            Kind::Shaper(shaper, _) => shaper.poll_release(now),
            _ => None,
        }
    }

    /// When the next one may leave.
    #[inline]
    pub fn next_timeout(&self) -> Option<Nanos> {
        match &self.kind {
            Kind::Shaper(shaper, _) => shaper.poll_timeout(),
            _ => None,
        }
    }

    /// Tokens missing from buckets, or bytes in queues.
    pub fn sample(&mut self, now: Nanos) -> Sample {
        // A packet of no bytes takes nothing and brings buckets up to date.
        let nothing = PacketMeta::default();
        let mut magic = Vec::new();
        let mut phantom = |(bytes, of_these)| {
            magic.push(of_these);
            bytes
        };
        let queues = match &mut self.kind {
            Kind::Fair(policer, burst) => vec![*burst - policer.tokens_at(now)],
            Kind::WaterFilling(policer, queues) => {
                let mut held = policer.occupancy(now);
                held.truncate((*queues).into());
                held
            }
            Kind::Phantom(Phantom::Flat(queues)) => {
                queues.occupancy(now).map(&mut phantom).collect()
            }
            Kind::Phantom(Phantom::Nested(queues)) => {
                queues.occupancy(now).map(&mut phantom).collect()
            }
            Kind::Phantom(Phantom::Any(queues)) => {
                queues.occupancy(now).map(&mut phantom).collect()
            }
            Kind::Shaper(shaper, queues) => (0..*queues)
                .map(|queue| shaper.backlog(queue).bytes)
                .collect(),
            Kind::Policer(bucket) => {
                bucket.offer(now, &nothing);
                vec![bucket.burst() - bucket.tokens()]
            }
            Kind::SingleRate(marker, both) => {
                marker.offer(now, &nothing);
                vec![missing(*both, marker.tokens())]
            }
            Kind::TwoRate(marker, both) => {
                marker.offer(now, &nothing);
                vec![missing(*both, marker.tokens())]
            }
        };
        Sample {
            at: now,
            queues,
            magic,
        }
    }
}

impl Phantom {
    /// Bytes of the type that a policy is given.
    fn memory(program: &Program) -> usize {
        match (program.queues(), program.shares()) {
            (..=16, ..=1) => size_of::<PhantomQueues>(),
            (..=64, ..=16) => size_of::<PhantomQueues<64, 16>>(),
            _ => size_of::<PhantomQueues<{ PolicyTree::MAX_NODES }, { PolicyTree::MAX_NODES }>>(),
        }
    }

    fn new(
        program: Arc<Program>,
        rate: Rate,
        size: u64,
        control: Option<BurstControl>,
    ) -> Result<Self, String> {
        let (queues, shares) = (program.queues(), program.shares());
        let made = if queues <= 16 && shares <= 1 {
            PhantomQueues::new(program, rate, size, control, 0).map(|it| Self::Flat(Box::new(it)))
        } else if queues <= 64 && shares <= 16 {
            PhantomQueues::new(program, rate, size, control, 0).map(|it| Self::Nested(Box::new(it)))
        } else {
            PhantomQueues::new(program, rate, size, control, 0).map(|it| Self::Any(Box::new(it)))
        };
        made.map_err(|error| error.to_string())
    }
}

/// The queues that a flow's hash chooses from: those of its class, or just its own.
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
        }),
        Some(queue) => {
            let count = all.queues;
            Err(format!(
                "a flow is of queue {queue} of class {class}, which has {count}"
            ))
        }
    }
}

/// Tokens missing from two buckets that hold so many together.
fn missing(both: u64, tokens: (u64, u64)) -> u64 {
    both - tokens.0.saturating_add(tokens.1)
}

/// Re-marks, or drops where there is no code point; what is green passes as it is.
fn marking(yellow: Option<u8>, red: Option<u8>) -> Marking {
    let decision = |dscp: Option<u8>| dscp.map_or(Decision::Drop, Decision::Mark);
    Marking {
        green: Decision::Pass,
        yellow: decision(yellow),
        red: decision(red),
    }
}
