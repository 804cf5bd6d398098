//! Errors of a testbed.

use std::io;
use std::path::PathBuf;

use tidegate_lab::RunError;

/// An error of a testbed.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// The process may not make namespaces or devices.
    #[error("{what}: not permitted. Run this as root, or with CAP_SYS_ADMIN and CAP_NET_ADMIN")]
    Rights {
        /// The step that failed.
        what: &'static str,
    },
    /// The system lets users have no namespaces.
    #[error(
        "this user may not make namespaces: run this as root, or let users make them (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)"
    )]
    UserNamespaces,
    /// There is no TUN driver.
    #[error("/dev/net/tun is missing: load the tun module, or give this container the device")]
    NoTun,
    /// The kernel lacks the algorithm.
    #[error("this kernel has no congestion control '{0}': load the module tcp_{0}")]
    Algorithm(&'static str),
    /// The plan has a part that only the virtual lab supports.
    #[error("{0}: only the virtual lab can do that, not the kernel's TCP in real time")]
    Unsupported(String),
    /// The plan contradicts itself.
    #[error(transparent)]
    Plan(#[from] RunError),
    /// Captures could not be written, or not to their end: each with the reason.
    #[error("{}", unwritten(.0))]
    Capture(Vec<(PathBuf, io::Error)>),
    /// A program failed: its name and arguments, and its output.
    #[error("{0}: {1}")]
    Command(String, String),
    /// Any other error of the system.
    #[error("{what}: {source}")]
    System {
        /// The step that failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// Says which captures could not be written.
fn unwritten(captures: &[(PathBuf, io::Error)]) -> String {
    let each = captures.iter().map(|(file, error)| {
        let file = file.display();
        format!("cannot write the capture {file}: {error}")
    });
    each.collect::<Vec<_>>().join("; ")
}

impl TestbedError {
    /// For `map_err`: the step at which the system refused.
    pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Rights { what },
            _ => Self::System { what, source },
        }
    }
}
