//! Why the clamp is not available, and why a socket cannot be paced.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use crate::clamp::cgroup::CgroupError;
use crate::target::TargetError;

/// Why the clamp is not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no cgroup to attach to.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The kernel did not take the programs.
    #[cfg(feature = "clamp")]
    #[error(
        "the clamp needs Linux 6.12 with BTF and cgroup BPF, and the capabilities CAP_BPF, \
        CAP_PERFMON and CAP_NET_ADMIN; the kernel says: {0:#}"
    )]
    Load(libbpf_rs::Error),
    /// The kernel loaded the programs, but they cannot be called for an existing socket.
    #[error("this kernel cannot turn on the round trip callback of a connection; Linux 6.12 can")]
    Callback,
    /// The library was built without its feature `clamp`.
    #[error(
        "tidegate was built without the clamp; build it with the feature `clamp`, which needs clang \
        and libelf"
    )]
    NotBuilt,
}

/// Why a socket cannot be paced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PaceError {
    /// A target that no socket can have.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A target of the C interface that cannot be read.
    #[error("{0}")]
    Unreadable(&'static str),
    /// The socket is in another cgroup.
    #[error(
        "socket {socket} is not of the cgroup that the clamp is attached to; a socket has the \
        cgroup of the process that made it or its listening socket (with socket activation, that is \
        the service manager's): attach to a cgroup above both"
    )]
    OtherCgroup {
        /// The file descriptor.
        socket: RawFd,
    },
    /// The socket is not paced.
    #[error("socket {socket} is not paced")]
    NotPaced {
        /// The file descriptor.
        socket: RawFd,
    },
    /// The kernel refused.
    #[error("socket {socket}: {source}")]
    Socket {
        /// The file descriptor.
        socket: RawFd,
        /// The kernel's error.
        source: io::Error,
    },
}

impl PaceError {
    /// Of a socket that is not paced.
    pub(crate) fn not_paced(socket: BorrowedFd<'_>) -> Self {
        Self::NotPaced {
            socket: socket.as_raw_fd(),
        }
    }

    /// For `map_err`: the kernel's error for a socket, in the words of this library if it has some.
    pub(crate) fn of(socket: BorrowedFd<'_>) -> impl Fn(io::Error) -> Self + Copy {
        let socket = socket.as_raw_fd();
        move |source| match source.raw_os_error() {
            Some(libc::ENOENT) => Self::NotPaced { socket },
            Some(libc::ENOPROTOOPT) => Self::OtherCgroup { socket },
            _ => Self::Socket { socket, source },
        }
    }
}
