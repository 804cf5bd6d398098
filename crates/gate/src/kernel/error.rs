//! What can go wrong between the gate and the kernel.

use std::path::{Path, PathBuf};

/// Why the kernel's side cannot do something.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A gate is pinned there already.
    #[error("a gate is running already ({0} is there): take it down first, or take it over")]
    Exists(PathBuf),
    /// Nothing is pinned there.
    #[error("no gate is running: there is nothing in {0}")]
    Missing(PathBuf),
    /// What is pinned there is of another version.
    #[error(
        "{path} is of another version of the gate: take it down with that one, then bring it up with this one"
    )]
    Other {
        /// Which map.
        path: PathBuf,
    },
    /// No rights.
    #[error(
        "BPF programs need root, or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN, and CAP_SYS_ADMIN if the BPF file system is still to be mounted: {0}"
    )]
    Rights(String),
    /// Programs could not be loaded.
    #[error("the kernel does not load the gate's programs (6.2 or later is needed): {0}")]
    Load(#[source] libbpf_rs::Error),
    /// Something with the folder of pins.
    #[error("{path}: {source}")]
    Pin {
        /// What it is about.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A map does not take or give something.
    #[error("the kernel's table of {map}: {source}")]
    Map {
        /// Its name.
        map: &'static str,
        /// Why.
        source: libbpf_rs::Error,
    },
    /// More of something than there is room for.
    #[error("{found} {what} are needed, and there is room for {room}")]
    Room {
        /// Of what.
        what: &'static str,
        /// How many are wanted.
        found: usize,
        /// How many there may be.
        room: usize,
    },
    /// More different policies or sets of rules than there is room for.
    #[error(
        "there is room for {room} {what} at once, those of before a change and after it together"
    )]
    Kept {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        room: usize,
    },
    /// A plan that limiters cannot run under.
    #[error("{0}")]
    Plan(String),
    /// No such interface.
    #[error("there is no interface {0}")]
    Interface(String),
    /// A program is not attached or detached.
    #[error("{what} on {interface}: {source}")]
    Attach {
        /// What was tried.
        what: &'static str,
        /// Where.
        interface: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is attached there already.
    #[error("{0} is attached already in this place")]
    Attached(String),
}

impl KernelError {
    pub(super) fn room(what: &'static str, found: usize, room: usize) -> Self {
        Self::Room { what, found, room }
    }

    pub(super) fn map(map: &'static str, source: libbpf_rs::Error) -> Self {
        Self::Map { map, source }
    }

    pub(super) fn pin(
        path: &Path,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Pin {
            path: path.into(),
            source: std::io::Error::other(source),
        }
    }
}
