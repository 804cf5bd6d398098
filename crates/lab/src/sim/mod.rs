//! The engine: virtual time, packets, and the way they take.
//!
//! A simulation is a set of actors (elements, ends of connections, applications), each with at
//! most one deadline. The engine takes the earliest, moves time there, lets the actor act, and
//! follows every packet that comes of it as far as it gets without time passing.

pub(crate) mod check;
mod endpoint;
pub(crate) mod engine;
pub(crate) mod histogram;
pub(crate) mod packet;
pub(crate) mod random;
pub(crate) mod record;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod timers;
pub(crate) mod wire;

use std::io;
use std::path::{Path, PathBuf};

use tidegate_limiter::Nanos;

use crate::outcome::Outcome;
use crate::plan::Plan;

#[cfg(test)]
mod tests;

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The plan cannot be run: what of it, and why.
    #[error("{0}")]
    Plan(String),
    /// A capture could not be written.
    #[error("cannot write the capture {}: {error}", file.display())]
    Tap {
        /// The capture.
        file: PathBuf,
        /// The system's reason; said already, and so not the source.
        error: io::Error,
    },
    /// The caller ended the run.
    #[error("interrupted")]
    Interrupted,
}

impl RunError {
    pub(crate) fn plan(what: impl Into<String>) -> Self {
        Self::Plan(what.into())
    }

    pub(crate) fn tap(file: &Path, error: io::Error) -> Self {
        Self::Tap {
            file: file.to_owned(),
            error,
        }
    }
}

/// Runs a simulation to its end. `watch` is called now and then with the virtual time; if it
/// answers false, the run ends.
///
/// The same plan gives the same outcome, and the same captures byte for byte, on every machine.
///
/// # Errors
/// If the plan contradicts itself or is too large, a capture cannot be written, or `watch` ended
/// the run. Captures are then not there.
pub fn run(plan: &Plan, watch: &mut dyn FnMut(Nanos) -> bool) -> Result<Outcome, RunError> {
    let mut engine = engine::Engine::new(plan)?;
    engine.run(watch)?;
    engine.finish()
}
