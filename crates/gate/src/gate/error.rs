//! Errors of a gate.

use std::io;
use std::path::{Path, PathBuf};

use tidegate_limiter::Scheme;

use crate::change::ChangeError;
use crate::config::{Config, ConfigErrors};
use crate::path::{DataPath, PathError};

/// Why a gate did not do something.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// No gate is up.
    #[error("no gate is up at {}: start one with `tidegate gate up` or `tidegate gate run`, or name the folder of its key `state` with --state", pins.display())]
    NotUp {
        /// The folder of its pins.
        pins: PathBuf,
    },
    /// A plan whose scheme runs elsewhere only.
    #[error(
        "plan `{plan}` has the scheme {scheme}, which the kernel's gate does not have: run the gate on DPDK (`tidegate gate run --dpdk`), or choose another scheme"
    )]
    Scheme {
        /// The plan's name.
        plan: String,
        /// Its scheme.
        scheme: Scheme,
    },
    /// A gate is up already.
    #[error("a gate is up at {} already: change it with `tidegate gate reload{}`, or remove it with `tidegate gate down{}`", pins.display(), named(state.as_deref(), None), named(state.as_deref(), Some(pins)))]
    AlreadyUp {
        /// The folder of its pins.
        pins: PathBuf,
        /// The folder of its state, if that is known.
        state: Option<PathBuf>,
    },
    /// Another process holds the lock.
    #[error("another process{} holds the lock of this gate in {}: try again when it has ended", process.map(|id| format!(" ({id})")).unwrap_or_default(), folder.display())]
    Busy {
        /// The folder of the state.
        folder: PathBuf,
        /// The other process, if it is known.
        process: Option<u32>,
    },
    /// Limits are in force, and the state that says whose they are is missing.
    #[error("a gate is up at {}, but its state is missing in {}: remove the gate with `tidegate gate down`, then start it again", pins.display(), folder.display())]
    Lost {
        /// The folder of its pins.
        pins: PathBuf,
        /// The folder of the state.
        folder: PathBuf,
    },
    /// The first start was interrupted.
    #[error("the start of the gate at {} was interrupted: `tidegate gate reload` completes it, and `tidegate gate down` removes it", pins.display())]
    Begun {
        /// The folder of its pins.
        pins: PathBuf,
    },
    /// The state belongs to another gate.
    #[error("{} holds the state of the gate at {}, not of the one at {}: give each gate its own `state` folder", folder.display(), other.display(), pins.display())]
    Elsewhere {
        /// The folder of the state.
        folder: PathBuf,
        /// The gate that it belongs to.
        other: PathBuf,
        /// The gate that was wanted.
        pins: PathBuf,
    },
    /// The interfaces of the gate are those of another network namespace.
    #[error(
        "the gate at {} limits in another network namespace than this command's: run it there, such as by `nsenter --net=/run/netns/NAME tidegate gate …`", pins.display()
    )]
    Network {
        /// The folder of its pins.
        pins: PathBuf,
    },
    /// A key that cannot change while the gate is up.
    #[error(
        "`{key}` cannot be changed while the gate is up: run `tidegate gate down`, then `tidegate gate up` with the new file"
    )]
    Fixed {
        /// Its name.
        key: &'static str,
    },
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// The configuration does not fit into a data path.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// There is no such subscriber.
    #[error("there is no subscriber `{name}`{meant}")]
    Subscriber {
        /// The name.
        name: String,
        /// A suggestion, if there is a similar name.
        meant: String,
    },
    /// A subscriber cannot be set to these values.
    #[error("{0}")]
    Setting(String),
    /// A file of the state cannot be read or written.
    #[error("{}: {source}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of the state is damaged.
    #[error("the state file {} is damaged ({message}): remove the gate with `tidegate gate down`, then start it again", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// The data path refused; everything is as it was before.
    #[error("{doing}: {source}")]
    Path {
        /// The change that failed.
        doing: String,
        /// Why it failed.
        source: PathError,
    },
    /// The data path refused a change and also refused to undo it.
    #[error(
        "{first}. The change could not be undone: {second}. A part of it is in force; the next change, or `tidegate gate reload`, tries again"
    )]
    Half {
        /// Why it was not done.
        first: Box<GateError>,
        /// Why it was not undone.
        second: Box<GateError>,
    },
}

/// The option that names a gate to a command: by its state, which is removed with it, or else by its pins.
fn named(state: Option<&Path>, pins: Option<&Path>) -> String {
    match (state, pins) {
        (Some(state), _) if state == Path::new(Config::STATE) => String::new(),
        (Some(state), _) => format!(" --state {}", state.display()),
        (None, Some(pins)) => format!(" --pins {}", pins.display()),
        (None, None) => String::new(),
    }
}

/// The error of a data path as a whole.
pub(super) fn path_error<D: DataPath>(pins: &Path, source: PathError) -> GateError {
    GateError::Path {
        doing: D::place(pins),
        source,
    }
}
