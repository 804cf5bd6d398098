//! The engine: virtual time, packets, and their paths.
//!
//! A simulation is a set of actors (elements, ends of connections, applications), each with at most
//! one deadline. The engine takes the earliest deadline, moves time there, lets the actor act, and
//! moves every resulting packet on as far as it gets without passing of time.

pub(crate) mod check;
mod endpoint;
mod engine;
mod flow;
mod parts;
pub(crate) mod stages;
pub(crate) mod timers;

pub use check::check;

use crate::RunError;
use crate::observer::Observer;
use crate::outcome::Outcome;
use crate::plan::Plan;
use parts::Workers;
use parts::division::Division;

#[cfg(test)]
mod tests;

/// Runs a simulation on this many threads if it can be divided, and otherwise as [`run`] does. The outcome is that of `run`. It
/// can be divided if it has 300 flows or more, each with a delay of its own, and no taps, no elements on the way back and no
/// states of connections to be noted.
///
/// The observer is called on this thread. [`counted`](Observer::counted) is not called in a simulation that is divided. That
/// too many packets are under way is found between windows of milliseconds, and so maybe later than by `run`.
///
/// # Errors
/// As [`run`].
pub fn run_on(
    plan: &Plan,
    observer: &mut dyn Observer,
    threads: usize,
) -> Result<Outcome, RunError> {
    match Division::of(plan) {
        Some(division) => parts::run(plan, observer, division, Workers::new(threads)),
        None => run(plan, observer),
    }
}

/// Runs a simulation to its end. The same plan gives the same outcome and shows the observer the
/// same packets, on every machine.
///
/// # Errors
/// If the plan contradicts itself or is too large, or the observer ended the run.
pub fn run(plan: &Plan, observer: &mut dyn Observer) -> Result<Outcome, RunError> {
    let mut engine = engine::Engine::new(plan)?;
    engine.run(observer)?;
    Ok(engine.finish())
}
