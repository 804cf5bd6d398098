//! Sockets and their target rates.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use tidegate_limiter::pacing::Hold;

use crate::clamp::Clamp;
use crate::clamp::wire::Record;
use crate::error::{OpenError, PaceError};
use crate::fallback::Fallback;
use crate::socket;
use crate::stats::{Stats, hold};
use crate::target::Target;

/// How a [`Pacer`] is opened.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// The cgroup whose sockets may be paced; the process's own if `None`. A socket belongs to the
    /// cgroup of the process that made it, or its listening socket.
    pub cgroup: Option<PathBuf>,
    /// Do not load anything into the kernel: pace by the fallback.
    pub without_kernel: bool,
}

/// How sockets are paced.
#[derive(Debug)]
#[non_exhaustive]
pub enum Mode {
    /// By the clamp, in the kernel.
    Kernel,
    /// By application pacing, with SO_MAX_PACING_RATE below it.
    Fallback {
        /// Why the clamp is not available; `None` if it was not wanted.
        why: Option<OpenError>,
    },
}

/// Paces sockets for as long as it lives.
///
/// All descriptors of a socket stand for the same socket. When this is dropped, or the process dies,
/// the programs leave the kernel. Limits end with their sockets. Dropping this also ends the limits
/// of all sockets that the process still has open.
#[derive(Debug)]
pub struct Pacer {
    means: Means,
    mode: Mode,
}

#[derive(Debug)]
enum Means {
    Clamp(Clamp),
    Fallback(Fallback),
}

impl Pacer {
    /// Attaches the clamp to this process's own cgroup, or falls back; see [`Pacer::mode`].
    #[must_use]
    pub fn open() -> Self {
        Self::open_with(&Options::default())
    }

    /// As [`Pacer::open`], with options.
    #[must_use]
    pub fn open_with(options: &Options) -> Self {
        let attached = if options.without_kernel {
            Err(None)
        } else {
            attach(options).map_err(Some)
        };
        match attached {
            Ok(clamp) => Self {
                means: Means::Clamp(clamp),
                mode: Mode::Kernel,
            },
            Err(why) => Self {
                means: Means::Fallback(Fallback::default()),
                mode: Mode::Fallback { why },
            },
        }
    }

    /// How sockets are paced.
    #[must_use]
    pub fn mode(&self) -> &Mode {
        &self.mode
    }

    /// The kernel's numbers of the attached programs; the kernel counts their cost by these.
    #[must_use]
    pub fn programs(&self) -> &[u32] {
        match &self.means {
            Means::Clamp(clamp) => &clamp.programs,
            Means::Fallback(_) => &[],
        }
    }

    /// Begins the throttling phase of a connected socket. Data written before is still sent at full
    /// speed, and the phase begins when it is acknowledged.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn pace(&self, socket: impl AsFd, target: &Target) -> Result<(), PaceError> {
        let socket = socket.as_fd();
        match &self.means {
            Means::Clamp(clamp) => {
                let failed = PaceError::of(socket);
                let queued = socket::unacknowledged(socket).map_err(failed)?;
                clamp
                    .set(socket, &target.request(clamp.owner, queued))
                    .map_err(failed)
            }
            Means::Fallback(fallback) => fallback.pace(socket, target),
        }
    }

    /// Gives a paced socket another target, in the same phase.
    ///
    /// # Errors
    /// If the target is out of bounds, or the socket is not paced.
    pub fn change(&self, socket: impl AsFd, target: &Target) -> Result<(), PaceError> {
        let socket = socket.as_fd();
        match &self.means {
            Means::Clamp(clamp) => clamp
                .change(socket, &target.request(clamp.owner, 0))
                .map_err(PaceError::of(socket)),
            Means::Fallback(fallback) => fallback.change(socket, target),
        }
    }

    /// Ends the pacing of a socket. Its clamp is removed in the next round trips, not at once: that
    /// would also remove the slow start threshold, and start a slow start into congestion.
    ///
    /// # Errors
    /// If it is not paced.
    pub fn remove(&self, socket: impl AsFd) -> Result<(), PaceError> {
        let socket = socket.as_fd();
        match &self.means {
            Means::Clamp(clamp) => {
                record(clamp, socket)?;
                clamp.remove(socket).map_err(PaceError::of(socket))
            }
            Means::Fallback(fallback) => fallback.remove(socket),
        }
    }

    /// The figures of a paced socket.
    ///
    /// # Errors
    /// If it is not paced, or is no TCP socket.
    pub fn stats(&self, socket: impl AsFd) -> Result<Stats, PaceError> {
        let socket = socket.as_fd();
        match &self.means {
            Means::Clamp(clamp) => {
                let record = record(clamp, socket)?;
                let info = socket::tcp_info(socket).map_err(PaceError::of(socket))?;
                Ok(Stats::clamped(&record, &info))
            }
            Means::Fallback(fallback) => fallback.stats(socket),
        }
    }

    /// What bounds the rate of a paced socket. One system call, for writers to make before they
    /// write. In the fallback, a call after the start-up is acknowledged also begins the throttling phase.
    ///
    /// # Errors
    /// If it is not paced.
    pub fn hold(&self, socket: impl AsFd) -> Result<Hold, PaceError> {
        let socket = socket.as_fd();
        match &self.means {
            Means::Clamp(clamp) => record(clamp, socket).map(|record| hold(&record)),
            Means::Fallback(fallback) => fallback.hold(socket),
        }
    }
}

impl Drop for Pacer {
    /// Frees the sockets that this process has open, because a clamp otherwise stays.
    fn drop(&mut self) {
        // A socket that cannot be freed no longer exists; without /proc none can be found.
        let _ = match &self.means {
            Means::Clamp(clamp) => socket::each_open(|socket| {
                if clamp.holds(socket) {
                    let _ = clamp.free(socket);
                }
            }),
            Means::Fallback(fallback) => fallback.free_all(),
        };
    }
}

#[cfg(feature = "clamp")]
fn attach(options: &Options) -> Result<Clamp, OpenError> {
    let cgroup = match &options.cgroup {
        Some(cgroup) => cgroup.clone(),
        None => crate::clamp::cgroup::own_cgroup()?,
    };
    let clamp = Clamp::attach(&cgroup).map_err(OpenError::Load)?;
    if clamp.works() {
        Ok(clamp)
    } else {
        Err(OpenError::Callback)
    }
}

#[cfg(not(feature = "clamp"))]
fn attach(_: &Options) -> Result<Clamp, OpenError> {
    Err(OpenError::NotBuilt)
}

fn record(clamp: &Clamp, socket: BorrowedFd<'_>) -> Result<Record, PaceError> {
    let record = clamp.record(socket);
    record
        .map_err(PaceError::of(socket))?
        .ok_or_else(|| PaceError::not_paced(socket))
}

#[cfg(test)]
mod tests;
