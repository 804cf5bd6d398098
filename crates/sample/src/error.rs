//! Why nothing is sampled.

use std::io;
use std::path::PathBuf;

use crate::key::KeyError;

/// Why a [`Consumer`](crate::Consumer) takes nothing more.
pub type Refused = Box<dyn std::error::Error + Send + Sync>;

/// An error of a sampler.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// The kernel refused a step.
    #[error("{step}: {source}")]
    System {
        /// What was tried.
        step: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A right is missing.
    #[error(
        "{0}: not permitted. Run this as root, or with the capabilities CAP_BPF and CAP_NET_RAW (at traffic control, CAP_NET_ADMIN)"
    )]
    Rights(String),
    /// The kernel does not take the filter.
    #[error("cannot load the filter into the kernel: {0}")]
    Filter(String),
    /// The kernel has no hooks that are given back when a process ends.
    #[error(
        "the filter cannot be linked to traffic control: that needs Linux 6.6. Look at packets at a packet socket instead"
    )]
    OldKernel,
    /// There is no such interface.
    #[error("there is no interface {0} here. `ip link` lists the interfaces")]
    NoInterface(String),
    /// The interface was there before.
    #[error("the interface {0} went away")]
    Gone(String),
    /// Its frames cannot be read.
    #[error(
        "the interface {0} has link layer {1}, which cannot be sampled: take an Ethernet, loopback or TUN interface"
    )]
    LinkLayer(String, u16),
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Another sampler has the folder.
    #[error(
        "another sampler of this interface already writes to {}: end that one, or name another folder",
        .0.display()
    )]
    Busy(PathBuf),
    /// The consumer takes nothing more.
    #[error("{0}")]
    Refused(#[from] Refused),
    /// There is no key.
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl SampleError {
    /// For `map_err`: what the kernel refused.
    pub(crate) fn system(step: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let step = step.into();
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Rights(step),
            _ => Self::System { step, source },
        }
    }

    /// For `map_err`: what could not be written.
    pub(crate) fn write(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Write { path, source }
    }
}
