//! Errors of the data path in the kernel.

use std::path::{Path, PathBuf};

use tidegate_limiter::Scheme;

use crate::maps::MapsError;

/// Why the data path in the kernel did not do something.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A gate is pinned there already.
    #[error(
        "a gate is up already, since {0} exists: remove it with `tidegate gate down`, or take it over with `tidegate gate run`"
    )]
    Exists(PathBuf),
    /// A limiter that holds packets, or has a table of flows.
    #[error(
        "the kernel's gate has no {0}: run the gate on DPDK (`tidegate gate run --dpdk`), or choose another scheme"
    )]
    Beside(Scheme),
    /// Nothing is pinned there.
    #[error("no gate is up: {0} is empty or missing")]
    Missing(PathBuf),
    /// The pins there are of another version.
    #[error(
        "{path} belongs to a gate of another version of tidegate: remove that gate with `tidegate gate down`, then start it again"
    )]
    Other {
        /// The map.
        path: PathBuf,
    },
    /// The process lacks privileges.
    #[error(
        "the kernel refused a BPF program for lack of privileges ({0}): run this as root, or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN, and with CAP_SYS_ADMIN if the BPF file system is not mounted yet"
    )]
    Rights(String),
    /// A mounted BPF file system would end with this process.
    #[error(
        "no BPF file system is mounted at /sys/fs/bpf. This command is in another mount namespace than the system, as `ip netns exec` makes one: \
         a file system that it mounts would end with it, and so would the limits, and it does not see a gate that is up. Use `nsenter --net=/run/netns/NAME tidegate gate …`"
    )]
    Mounts,
    /// Programs could not be loaded.
    #[error("the kernel refused to load the gate's programs ({0}): Linux 6.2 or later is needed")]
    Load(#[source] libbpf_rs::Error),
    /// The kernel does not answer questions about translated addresses.
    #[error(
        "the kernel does not tell which subscriber has a translated address ({0}): `nat` needs conntrack (`modprobe nf_conntrack`) and types of the \
         kernel (CONFIG_DEBUG_INFO_BTF). Without them, remove `nat` and limit at the interface towards subscribers, with ingress = \"up\" and egress = \"down\""
    )]
    Nat(#[source] libbpf_rs::Error),
    /// A file of the folder with pins cannot be made, opened or removed.
    #[error("{path}: {source}")]
    Pin {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A map cannot be read or written, or is full.
    #[error(transparent)]
    Maps(#[from] MapsError),
    /// There is no memory for limiters.
    #[error(
        "{subscribers} subscribers need {} MB of the kernel's memory, and it has not as much: {source}",
        *subscribers as u64 * 4096 / 1_000_000
    )]
    Memory {
        /// Number of subscribers.
        subscribers: u32,
        /// What the kernel says.
        source: libbpf_rs::Error,
    },
    /// No such interface.
    #[error("there is no interface {0}")]
    Interface(String),
    /// A program cannot be attached or detached.
    #[error("{what} on {interface}: {source}")]
    Attach {
        /// The step that failed.
        what: &'static str,
        /// The interface.
        interface: String,
        /// Why.
        source: std::io::Error,
    },
    /// Another gate is attached there.
    #[error(
        "another gate, with other pins, is attached to {0} already: both would limit the same packets. Take it down with \
         `tidegate gate down --pins FOLDER`, or write other-gates = \"allow\" in the file of this one"
    )]
    OtherGate(String),
    /// A process passes the packets on by DPDK.
    #[error(
        "process {process} passes the packets of {interface} on by DPDK, past every limit of the kernel: stop that gate or wire first \
         (`tidegate gate down`, with the --state of that one)"
    )]
    OnDpdk {
        /// The interface.
        interface: String,
        /// The number of the process.
        process: u32,
    },
    /// The hook is one of DPDK.
    #[error("the kernel has no hook {0}")]
    NoHook(&'static str),
    /// The gate is attached there already.
    #[error("the gate is attached to {0} already, at this hook and in this direction")]
    Attached(String),
}

impl KernelError {
    pub(super) fn room(what: &'static str, found: usize, room: usize) -> Self {
        MapsError::room(what, found, room).into()
    }

    pub(super) fn map(map: &'static str, source: libbpf_rs::Error) -> Self {
        MapsError::map(map, source).into()
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
