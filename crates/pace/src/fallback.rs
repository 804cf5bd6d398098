//! Sockets that are paced without the clamp: by SO_MAX_PACING_RATE, and by the writer.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::PaceError;
use crate::socket;
use crate::stats::Stats;
use crate::target::Target;

/// All sockets that are paced without the clamp. The kernel keeps the records of the others.
#[derive(Debug, Default)]
pub(crate) struct Fallback(Mutex<Paced>);

/// Sockets by the kernel's numbers, which no others ever get.
#[derive(Debug, Default)]
struct Paced {
    sockets: HashMap<u64, Phase>,
    /// When there are this many, closed ones are searched for and removed.
    full: usize,
}

/// The throttling phase of a socket.
#[derive(Debug, Clone, Copy)]
struct Phase {
    target: Target,
    /// Bytes acknowledged when it began.
    begin: u64,
}

impl Paced {
    /// Fewer can be searched often.
    const LEAST: usize = 1000;

    fn insert(&mut self, cookie: u64, phase: Phase) {
        if self.sockets.len() >= self.full.max(Self::LEAST) {
            // The library is not informed when a socket is closed.
            let mut open = HashSet::new();
            let listed = socket::each_open(|socket| open.extend(socket::cookie(socket)));
            if listed.is_ok() {
                self.sockets.retain(|cookie, _| open.contains(cookie));
            }
            self.full = 2 * self.sockets.len();
        }
        self.sockets.insert(cookie, phase);
    }
}

impl Fallback {
    pub(crate) fn pace(&self, socket: BorrowedFd<'_>, target: &Target) -> Result<(), PaceError> {
        let failed = PaceError::of(socket);
        let cookie = socket::cookie(socket).map_err(failed)?;
        // First what fails for sockets that are not of TCP: they stay as they are.
        let begin = socket::tcp_info(socket).map_err(failed)?.acked;
        spread(socket, target).map_err(failed)?;
        let phase = Phase {
            target: *target,
            begin,
        };
        self.paced().insert(cookie, phase);
        Ok(())
    }

    pub(crate) fn change(&self, socket: BorrowedFd<'_>, target: &Target) -> Result<(), PaceError> {
        let (cookie, before) = self.phase(socket)?;
        spread(socket, target).map_err(PaceError::of(socket))?;
        let phase = Phase {
            target: *target,
            ..before
        };
        self.paced().insert(cookie, phase);
        Ok(())
    }

    pub(crate) fn remove(&self, socket: BorrowedFd<'_>) -> Result<(), PaceError> {
        let (cookie, _) = self.phase(socket)?;
        socket::set_max_pacing_rate(socket, None).map_err(PaceError::of(socket))?;
        self.paced().sockets.remove(&cookie);
        Ok(())
    }

    pub(crate) fn stats(&self, socket: BorrowedFd<'_>) -> Result<Stats, PaceError> {
        let (_, phase) = self.phase(socket)?;
        let info = socket::tcp_info(socket).map_err(PaceError::of(socket))?;
        Ok(Stats {
            rate: phase.target.bytes_per_second(),
            delivered: info.acked.saturating_sub(phase.begin),
            pacing: phase.target.with_headroom(),
            ..Stats::unclamped(&info)
        })
    }

    /// An error if the socket is not paced.
    pub(crate) fn check(&self, socket: BorrowedFd<'_>) -> Result<(), PaceError> {
        self.phase(socket).map(drop)
    }

    /// Frees the sockets that this process has open.
    pub(crate) fn free_all(&self) -> io::Result<()> {
        let paced = std::mem::take(&mut self.paced().sockets);
        let is_ours = |cookie: u64| paced.contains_key(&cookie);
        socket::each_open(|socket| {
            if socket::cookie(socket).is_ok_and(is_ours) {
                // A socket that cannot be freed no longer exists.
                let _ = socket::set_max_pacing_rate(socket, None);
            }
        })
    }

    fn paced(&self) -> MutexGuard<'_, Paced> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn phase(&self, socket: BorrowedFd<'_>) -> Result<(u64, Phase), PaceError> {
        let cookie = socket::cookie(socket).map_err(PaceError::of(socket))?;
        let phase = self.paced().sockets.get(&cookie).copied();
        phase
            .map(|phase| (cookie, phase))
            .ok_or_else(|| PaceError::not_paced(socket))
    }
}

/// Headroom for the kernel's pacing as for the clamp: the writer keeps the average, and may catch up.
fn spread(socket: BorrowedFd<'_>, target: &Target) -> io::Result<()> {
    socket::set_max_pacing_rate(socket, Some(target.with_headroom()))
}

#[cfg(test)]
mod tests;
