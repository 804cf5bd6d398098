//! One large simulation, divided into parts that several threads simulate.
//!
//! The elements of the plan are one part, the [`middle`]. The flows are in other parts, the [`ends`], some in each. A
//! packet reaches the elements half a round trip after its server sent it. So all parts work in windows of time that are
//! shorter than a quarter of the shortest round trip. What the middle needs in a window was sent two windows before, and what
//! the ends need in a window reached clients in this window, by the work of the middle. So the middle is one window ahead
//! of the ends, and threads always find a part that is ready ([`schedule`]).
//!
//! The outcome does not depend on the division. What is at the same time is ordered by [`Key`](super::timers::Key), which any part knows
//! without the others. [`Engine`](super::engine::Engine) has the same order for plans that can be divided.
//!
//! Packets under way are kept in a list for each window, which is put in order once. So the calendar has only timers, and it is known
//! far ahead which memory is needed. This is faster than the engine also on one thread.

pub mod division;
mod ends;
mod middle;
mod schedule;
mod transit;

use crate::RunError;
use crate::observer::Observer;
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::sim::check::check;
use crate::sim::flow::aggregates;
use crate::sim::stages::Stages;
use division::Division;
use ends::Ends;
use middle::{MOST_PARTS, Middle};
use schedule::Schedule;

/// Parts for each thread, so that none waits long for the last one.
const PARTS: usize = 4;

/// Threads, and the parts of the flows.
#[derive(Debug, Clone, Copy)]
pub struct Workers {
    pub threads: usize,
    pub parts: usize,
}

impl Workers {
    /// This many threads, and enough parts for them.
    pub fn new(threads: usize) -> Self {
        let threads = threads.clamp(1, MOST_PARTS / PARTS);
        let parts = if threads == 1 { 1 } else { threads * PARTS };
        Self { threads, parts }
    }
}

/// Runs a divided simulation to its end.
///
/// # Errors
/// If the plan contradicts itself or is too large, or the observer ended the run.
pub fn run(
    plan: &Plan,
    observer: &mut dyn Observer,
    division: Division,
    workers: Workers,
) -> Result<Outcome, RunError> {
    check(plan)?;
    let stages = Stages::new(plan)?;
    let share = plan.flows.len().div_ceil(workers.parts).max(1);
    let firsts = (0..plan.flows.len()).step_by(share);
    let ends = firsts.map(|first| {
        let flows = first..plan.flows.len().min(first + share);
        Ends::new(plan, &stages, flows, division.shift)
    });
    let ends: Vec<_> = ends.collect();
    let middle = Middle::new(plan, stages, share);
    let schedule = Schedule::new(middle, ends, division.shift, plan.duration);
    let (middle, ends) = schedule.run(observer, workers.threads)?;
    let mut outcome = Outcome {
        window: plan.window,
        ..Outcome::default()
    };
    for part in ends {
        let (packets, flows) = part.finish();
        outcome.packets += packets;
        outcome.flows.extend(flows);
    }
    let (elements, harm) = middle.finish();
    for (flow, harm) in outcome.flows.iter_mut().zip(harm) {
        (flow.dropped, flow.marked) = (harm.dropped, harm.marked);
    }
    outcome.elements = elements;
    outcome.aggregates = aggregates(plan, &outcome.flows);
    Ok(outcome)
}
