//! What can go wrong with a gate.

use std::io;
use std::path::{Path, PathBuf};

use crate::change::ChangeError;
use crate::config::ConfigErrors;
use crate::path::PathError;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// There is none.
    #[error("no gate is up at {}: start one with `tidegate gate up`", pins.display())]
    NotUp {
        /// Where it would be.
        pins: PathBuf,
    },
    /// There is one already.
    #[error("a gate is up at {} already: `tidegate gate reload` changes it, `tidegate gate down` takes it off", pins.display())]
    AlreadyUp {
        /// Where it is.
        pins: PathBuf,
    },
    /// Another process is at it.
    #[error("another process{} drives this gate (lock in {})", process.map(|id| format!(" ({id})")).unwrap_or_default(), folder.display())]
    Busy {
        /// The folder of the state.
        folder: PathBuf,
        /// The other process, if it is known.
        process: Option<u32>,
    },
    /// Limits hold, and nobody knows whose.
    #[error("a gate is up at {}, and what it holds is not written in {}: `tidegate gate down` takes it off, then start it again", pins.display(), folder.display())]
    Lost {
        /// Where it is.
        pins: PathBuf,
        /// The folder of the state.
        folder: PathBuf,
    },
    /// The state is of a gate elsewhere.
    #[error("{} holds the state of a gate at {}, not at {}: give each gate a `state` of its own", folder.display(), other.display(), pins.display())]
    Elsewhere {
        /// The folder of the state.
        folder: PathBuf,
        /// The gate it is of.
        other: PathBuf,
        /// The gate that was wanted.
        pins: PathBuf,
    },
    /// A key that holds as long as the gate is up.
    #[error(
        "`{key}` cannot be changed while the gate is up: take it `down` with the old file, and `up` with the new one"
    )]
    Fixed {
        /// Its name.
        key: &'static str,
    },
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// The configuration has no place.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// There is no such subscriber.
    #[error("there is no subscriber `{name}`{meant}")]
    Subscriber {
        /// The name.
        name: String,
        /// What may have been meant.
        meant: String,
    },
    /// What is to be set cannot be.
    #[error("{0}")]
    Setting(String),
    /// A file of the state.
    #[error("{}: {source}", path.display())]
    State {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of the state is none.
    #[error("{} cannot be read: {message}; `tidegate gate down` takes the gate off, then start it again", path.display())]
    Corrupt {
        /// Which.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// The data path would not do it; all is as it was before.
    #[error("{doing}: {source}")]
    Path {
        /// What was to be done.
        doing: String,
        /// Why not.
        source: PathError,
    },
    /// The data path would neither do it nor undo it.
    #[error(
        "{first}; and it could not be undone: {second}. What was done of it holds; the rest is tried again with the next change"
    )]
    Half {
        /// Why it was not done.
        first: Box<GateError>,
        /// Why it was not undone.
        second: Box<GateError>,
    },
}

/// That the data path as a whole would not.
pub(super) fn path_error(pins: &Path, source: PathError) -> GateError {
    GateError::Path {
        doing: format!("gate at {}", pins.display()),
        source,
    }
}
