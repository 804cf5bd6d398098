//! What can go wrong in a testbed.

use std::io;
use std::path::PathBuf;

use tidegate_lab::RunError;

/// What can go wrong in a testbed.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// Not allowed to make namespaces or devices.
    #[error("{what}: not permitted. Run this as root, or with CAP_SYS_ADMIN and CAP_NET_ADMIN")]
    Rights {
        /// What was tried.
        what: &'static str,
    },
    /// There is no TUN driver.
    #[error("/dev/net/tun is missing: load the tun module, or give this container the device")]
    NoTun,
    /// The kernel lacks the algorithm.
    #[error("this kernel has no congestion control '{0}': load the module tcp_{0}")]
    Algorithm(&'static str),
    /// The plan has what is only in the virtual lab.
    #[error("{0}: only the virtual lab can do that, not the kernel's TCP in real time")]
    Unsupported(String),
    /// The plan contradicts itself.
    #[error(transparent)]
    Plan(#[from] RunError),
    /// A capture could not be written.
    #[error("cannot write the capture {}: {}", .0.display(), .1)]
    Capture(PathBuf, io::Error),
    /// A program failed: its name and arguments, and what it said.
    #[error("{0}: {1}")]
    Command(String, String),
    /// Anything else of the system.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What came of it.
        source: io::Error,
    },
}

impl TestbedError {
    /// For `map_err`: what was tried when the system refused.
    pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Rights { what },
            _ => Self::System { what, source },
        }
    }
}
