//! Why a simulation has no outcome.

use std::io;

/// Why a simulation has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The plan cannot be run. The text says which part, and why.
    #[error("{0}")]
    Plan(String),
    /// A capture could not be written.
    #[error("cannot write the capture {file}: {error}")]
    Capture {
        /// The capture, as [`Captures::describe`](crate::capture::Captures::describe) calls it.
        file: String,
        /// The writer's reason. The message contains it already, so it is not the source.
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
}
