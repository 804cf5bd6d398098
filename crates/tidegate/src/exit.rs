//! Exit codes, the same for all commands.

use crate::cli::{RightsError, UsageError};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All done.
    Done = 0,
    /// Some input was bad, or some output could not be written.
    Failed = 1,
    /// Wrong use: an option, an argument.
    Usage = 2,
    /// Rights or features of the kernel are missing.
    Rights = 3,
    /// Ctrl-C ended it. Results up to that point are reported.
    Interrupted = 130,
}

impl Exit {
    /// The code for an error that ended a command.
    pub fn of(error: &anyhow::Error) -> Self {
        if error.is::<UsageError>() {
            Self::Usage
        } else if error.is::<RightsError>() {
            Self::Rights
        } else {
            Self::Failed
        }
    }
}
