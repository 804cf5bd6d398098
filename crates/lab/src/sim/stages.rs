//! The running elements of a plan, and those that the packets of a flow pass.

use std::sync::Arc;

use crate::RunError;
use crate::element::Element;
use crate::element::delay::Delay;
use crate::element::limiter::below::{Below, Network};
use crate::packet::wire::Wire;
use crate::plan::{FlowPlan, Plan};
use crate::record::ElementRecord;
use crate::sim::check;

/// An element with its counts.
#[derive(Debug)]
pub struct Stage {
    pub element: Element,
    pub record: ElementRecord,
}

impl Stage {
    fn new(element: Element) -> Self {
        Self {
            element,
            record: ElementRecord::default(),
        }
    }
}

/// The parts of a plan that packets need, with simulated and with real senders.
#[derive(Debug)]
pub struct Stages {
    /// The plan's elements, then two delays for each flow that has a delay of its own.
    pub stages: Vec<Stage>,
    /// The indices of the stages that packets of each flow pass, forward and back.
    pub routes: Vec<[Box<[u32]>; 2]>,
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
            stages.push(Stage::new(Element::new(plan, numbers, &wires)?));
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
        let flows = plan.flows.iter();
        let routes = flows.map(|flow| route(plan, flow, &mut stages)).collect();
        Ok(Self {
            stages,
            routes,
            wires,
        })
    }
}

/// The stages of a flow's two directions. The flow's delay becomes stages at the end, half of it each
/// way. It is placed after taps at the very front: they are beside the server and see what it sees.
fn route(plan: &Plan, flow: &FlowPlan, stages: &mut Vec<Stage>) -> [Box<[u32]>; 2] {
    let mut delay = |delay| {
        stages.push(Stage::new(Element::Delay(Delay::constant(delay))));
        stages.len() - 1
    };
    let half = flow.delay / 2;
    let delays = (flow.delay > 0).then(|| [delay(half), delay(flow.delay - half)]);
    let is_tap = |&&index: &&usize| plan.elements[index].kind.is_tap();
    let (mut forward, mut back) = (flow.forward.clone(), flow.back.clone());
    if let Some([there, home]) = delays {
        forward.insert(flow.forward.iter().take_while(is_tap).count(), there);
        let taps = flow.back.iter().rev().take_while(is_tap).count();
        back.insert(flow.back.len() - taps, home);
    }
    [forward, back].map(|path| path.into_iter().map(|index| index as u32).collect())
}
