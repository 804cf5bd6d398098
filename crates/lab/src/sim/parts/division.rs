//! Whether a simulation can be divided, and into which windows of time.

use tidegate_limiter::Nanos;

use crate::plan::Plan;
use crate::sim::timers::MANY_FLOWS;

/// The shortest window is two to the power of this many nanoseconds, 131 µs: in shorter ones, threads would mostly wait.
const LEAST: u32 = 17;
/// The longest one, 4 ms: packets under way, and the caller's wish to stop, are looked at between windows.
const MOST: u32 = 22;
/// Most windows that a packet is under way.
const MOST_WINDOWS: Nanos = 10_000;

/// The division of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Division {
    /// A window lasts two to the power of this many nanoseconds.
    pub shift: u32,
}

impl Division {
    /// How a plan is divided, if it can be.
    ///
    /// The elements are one part, the flows, with server, client and application, are in others. Between them are only
    /// packets: those of servers reach the first element after half of the flow's round trip, and elements never depend on
    /// what clients do with the packets at once. So it can be divided if
    ///
    /// - it has [many flows](MANY_FLOWS): smaller plans have kept the order that they had ([`Ties`](crate::sim::timers::Ties)),
    /// - each flow has a delay of its own, of 524 µs or more, and the delays do not differ too much,
    /// - no flow has elements on its way back: there, what clients send would come at once,
    /// - it has no taps, whose packets would have to be shown in order,
    /// - states of connections are not noted: these would have to be taken from all flows at the same time.
    ///
    /// Any elements on the way there are possible, also those that aggregates share, and any traffic.
    pub fn of(plan: &Plan) -> Option<Self> {
        if plan.flows.len() < MANY_FLOWS {
            return None;
        }
        Self::possible(plan)
    }

    /// The same without the number of flows.
    pub fn possible(plan: &Plan) -> Option<Self> {
        let taps = plan.elements.iter().any(|element| element.kind.is_tap());
        let back = plan.flows.iter().any(|flow| !flow.back.is_empty());
        if taps || back || plan.connections.is_some() {
            return None;
        }
        let halves = plan.flows.iter().map(|flow| flow.delay / 2);
        // A packet is under way for two windows at least.
        let shift = (halves.min()? / 2).checked_ilog2()?.min(MOST);
        let longest = plan.flows.iter().map(|flow| flow.delay).max()?;
        (shift >= LEAST && longest >> shift < MOST_WINDOWS).then_some(Self { shift })
    }
}
