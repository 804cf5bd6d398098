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

/// An error and its causes on one line. Many errors name their cause themselves: it is not told twice.
pub fn words(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |told, cause| {
        let cause = cause.to_string();
        match (told.is_empty(), told.ends_with(&cause)) {
            (true, _) => cause,
            (false, true) => told,
            (false, false) => format!("{told}: {cause}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_cause_that_its_error_names_is_told_once() {
        let full = || io::Error::from_raw_os_error(28);
        let twice = anyhow::Error::new(full()).context(format!("cannot write f: {}", full()));
        assert_eq!(words(&twice), format!("cannot write f: {}", full()));
        let once = anyhow::Error::new(full()).context("cannot write f");
        assert_eq!(words(&once), words(&twice));
    }
}
