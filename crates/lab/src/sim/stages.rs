//! The running elements of a plan, and those that the packets of a flow pass.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::element::Element;
use crate::element::delay::Delay;
use crate::element::limiter::below::{Below, Network};
use crate::outcome::ElementOutcome;
use crate::packet::wire::Wire;
use crate::packet::{Packet, PacketId, Packets};
use crate::plan::{ElementPlan, FlowPlan, Plan};
use crate::record::ElementRecord;
use crate::sim::check;
use crate::{Nanos, RunError};

/// An element with its counts. It fits into one line of the processor's cache, for each flow may have two delays.
#[derive(Debug)]
#[repr(align(64))]
pub struct Stage {
    pub element: Element,
    /// The delays of flows have none.
    pub record: Option<Box<ElementRecord>>,
}

/// What an element did to a packet with payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    Dropped,
    /// Marked with CE.
    Marked,
}

impl Stage {
    /// Counts a packet that comes to the element.
    #[inline]
    pub fn count(&mut self, bytes: u32) {
        if let Some(record) = &mut self.record {
            record.packets += 1;
            record.bytes += u64::from(bytes);
        }
    }

    /// Offers a packet to the element, and counts what follows. Returns whether the packet passed at once. `harm` hears of packets by the
    /// number of their flow.
    #[inline]
    pub fn offer(
        &mut self,
        now: Nanos,
        id: PacketId,
        packets: &mut Packets,
        drop_step: Nanos,
        mut harm: impl FnMut(usize, Harm),
    ) -> bool {
        let packet = packets.get(id);
        let (bytes, before) = (packet.bytes, (packet.dscp, packet.segment.ecn));
        self.count(bytes);
        let passed = self.element.offer(now, id, packets).is_some();
        self.count_harm(now, packets, drop_step, &mut harm);
        if !passed {
            return false;
        }
        let packet = packets.get(id);
        if (packet.dscp, packet.segment.ecn) != before {
            if let Some(record) = &mut self.record {
                record.marked += 1;
            }
            if packet.segment.ecn != before.1 && packet.is_data() {
                harm(packet.flow as usize, Harm::Marked);
            }
        }
        true
    }

    /// Counts the packets that the element has just marked in its queue, and counts and forgets those that it has dropped.
    #[inline]
    pub fn count_harm(
        &mut self,
        now: Nanos,
        packets: &mut Packets,
        drop_step: Nanos,
        mut harm: impl FnMut(usize, Harm),
    ) {
        // Delays neither mark nor drop.
        let Some(record) = &mut self.record else {
            return;
        };
        while let Some(id) = packets.next_marked() {
            let packet = packets.get(id);
            record.marked += 1;
            if packet.is_data() {
                harm(packet.flow as usize, Harm::Marked);
            }
        }
        while let Some(id) = packets.next_dropped() {
            let packet = packets.get(id);
            record.drop_packet((now / drop_step) as usize, packet.bytes);
            if packet.is_data() {
                harm(packet.flow as usize, Harm::Dropped);
            }
            packets.free(id);
        }
    }

    /// Notes how full the element is.
    pub fn sample(&mut self, now: Nanos) {
        if let Some(record) = &mut self.record {
            record.samples.extend(self.element.sample(now));
        }
    }

    /// The outcome of an element of the plan.
    pub fn outcome(self, plan: &ElementPlan) -> ElementOutcome {
        let overhead = self.element.overhead();
        let record = self.record.map_or_else(Default::default, |record| *record);
        record.outcome(&plan.name, overhead)
    }
}

// One line of the cache for each delay.
const _: () = assert!(size_of::<Stage>() <= 64 || cfg!(not(target_pointer_width = "64")));

/// The ways of all flows' packets, as places in one list. Flows with the same way share it, so that the list is small
/// enough to stay in the cache.
#[derive(Debug)]
pub struct Routes {
    /// The steps of a way, then `END`; and so for the other ways.
    steps: Vec<u32>,
    /// Where the ways of each flow begin, forward and back.
    begins: Vec<[u32; 2]>,
    /// The plan's elements: the delays of flows follow them.
    elements: usize,
}

/// Steps that are no element: the end of a way, and the flow's delay in this direction.
const END: u32 = u32::MAX;
const DELAY: u32 = u32::MAX - 1;

impl Routes {
    fn new(plan: &Plan) -> Self {
        let mut routes = Self {
            steps: Vec::new(),
            begins: Vec::new(),
            elements: plan.elements.len(),
        };
        let mut known = HashMap::new();
        for flow in &plan.flows {
            let begins = ways(plan, flow).map(|way| match known.entry(way) {
                Entry::Occupied(begin) => *begin.get(),
                Entry::Vacant(new) => {
                    let begin = routes.steps.len() as u32;
                    routes.steps.extend(new.key());
                    routes.steps.push(END);
                    *new.insert(begin)
                }
            });
            routes.begins.push(begins);
        }
        routes
    }

    /// The places where the ways of a flow begin, forward and back, if there is this flow.
    pub fn begins(&self, flow: usize) -> Option<[u32; 2]> {
        self.begins.get(flow).copied()
    }

    /// The index of the stage where a packet is, unless its way ends there. The place after it is the next one.
    #[inline]
    pub fn stage(&self, packet: &Packet) -> Option<usize> {
        match self.steps[packet.place as usize] {
            END => None,
            DELAY => Some(self.delays(packet.flow as usize) + usize::from(!packet.forward)),
            element => Some(element as usize),
        }
    }

    /// The index of the first of a flow's two delays.
    #[inline]
    pub fn delays(&self, flow: usize) -> usize {
        self.elements + 2 * flow
    }

    /// The flow that has this stage as a delay.
    #[inline]
    pub fn owner(&self, stage: usize) -> Option<(usize, Way)> {
        let delay = stage.checked_sub(self.elements)?;
        let way = if delay % 2 == 0 {
            Way::There
        } else {
            Way::Home
        };
        Some((delay / 2, way))
    }
}

/// The way from the server to the client, or back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    There,
    Home,
}

/// The parts of a plan that packets need, with simulated and with real senders.
#[derive(Debug)]
pub struct Stages {
    /// The plan's elements, then two delays for each flow.
    pub stages: Vec<Stage>,
    /// The stages that packets of each flow pass, forward and back.
    pub routes: Routes,
    /// The headers of each flow's packets.
    pub wires: Arc<[Wire]>,
}

impl Stages {
    /// The stages of a plan, which no packet has passed yet.
    ///
    /// # Errors
    /// If flows do not fit the policy of a limiter, or limiters not their nodes.
    pub fn new(plan: &Plan) -> Result<Self, RunError> {
        let wires: Arc<[Wire]> = (0..plan.flows.len())
            .map(|flow| Wire::new(plan, flow))
            .collect();
        let mut stages = Vec::new();
        for (numbers, _) in plan.numbered() {
            stages.push(Stage {
                element: Element::new(plan, numbers, &wires)?,
                record: Some(Box::default()),
            });
        }
        if let Some(network) =
            Network::new(plan).map_err(|error| RunError::plan(error.to_string()))?
        {
            for (number, node) in plan.nodes.iter().enumerate() {
                for &index in &node.limiters {
                    let rate = check::below(plan, index)?;
                    if let Element::Limiter(limiter) = &mut stages[index].element {
                        limiter.place_below(Below::new(&network, number, rate, index));
                    }
                }
            }
        }
        for flow in &plan.flows {
            // Half of it each way. Flows without delay do not pass them.
            let half = flow.delay / 2;
            for delay in [half, flow.delay - half] {
                stages.push(Stage {
                    element: Element::Delay(Delay::constant(delay)),
                    record: None,
                });
            }
        }
        Ok(Self {
            stages,
            routes: Routes::new(plan),
            wires,
        })
    }
}

/// The steps of a flow's two directions. The flow's delay is a step of both. It is placed after taps at the very front:
/// they are beside the server and see what it sees.
fn ways(plan: &Plan, flow: &FlowPlan) -> [Vec<u32>; 2] {
    let steps = |path: &[usize]| path.iter().map(|&index| index as u32).collect::<Vec<_>>();
    let (mut forward, mut back) = (steps(&flow.forward), steps(&flow.back));
    if flow.delay > 0 {
        let is_tap = |&&index: &&usize| plan.elements[index].kind.is_tap();
        forward.insert(flow.forward.iter().take_while(is_tap).count(), DELAY);
        let taps = flow.back.iter().rev().take_while(is_tap).count();
        back.insert(flow.back.len() - taps, DELAY);
    }
    [forward, back]
}
