//! Sockets that are paced without the clamp: by SO_MAX_PACING_RATE, and by the writer.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_limiter::pacing::Hold;

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
    /// Bytes acknowledged when it begins: before, data of the start-up is under way.
    begin: u64,
    has_begun: bool,
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
    /// Nothing informs the library when data of the start-up is acknowledged: the first call afterwards sets the rate.
    pub(crate) fn pace(&self, socket: BorrowedFd<'_>, target: &Target) -> Result<(), PaceError> {
        let failed = PaceError::of(socket);
        let cookie = socket::cookie(socket).map_err(failed)?;
        // First what fails for sockets that are not of TCP: they stay as they are. What is acknowledged meanwhile makes the
        // phase begin early, and not never.
        let acked = socket::tcp_info(socket).map_err(failed)?.acked;
        let queued = socket::unacknowledged(socket).map_err(failed)?;
        if queued == 0 {
            spread(socket, target).map_err(failed)?;
        } else if self.paced().sockets.contains_key(&cookie) {
            // The rate of the video before does not hold for a new start-up.
            socket::set_max_pacing_rate(socket, None).map_err(failed)?;
        }
        let phase = Phase {
            target: *target,
            begin: acked + u64::from(queued),
            has_begun: queued == 0,
        };
        self.paced().insert(cookie, phase);
        Ok(())
    }

    pub(crate) fn change(&self, socket: BorrowedFd<'_>, target: &Target) -> Result<(), PaceError> {
        let (cookie, before) = self.phase(socket)?;
        if before.has_begun {
            spread(socket, target).map_err(PaceError::of(socket))?;
        }
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
        let hold = self.hold(socket)?;
        let (_, phase) = self.phase(socket)?;
        let info = socket::tcp_info(socket).map_err(PaceError::of(socket))?;
        Ok(Stats {
            hold,
            rate: phase.target.bytes_per_second(),
            delivered: info.acked.saturating_sub(phase.begin),
            pacing: match hold {
                Hold::StartUp => 0,
                _ => phase.target.with_headroom(),
            },
            ..Stats::unclamped(&info)
        })
    }

    /// What bounds its rate. Begins the throttling phase when the start-up is acknowledged.
    pub(crate) fn hold(&self, socket: BorrowedFd<'_>) -> Result<Hold, PaceError> {
        let (cookie, phase) = self.phase(socket)?;
        if phase.has_begun {
            return Ok(Hold::Fallback);
        }
        let failed = PaceError::of(socket);
        if socket::tcp_info(socket).map_err(failed)?.acked < phase.begin {
            return Ok(Hold::StartUp);
        }
        spread(socket, &phase.target).map_err(failed)?;
        if let Some(phase) = self.paced().sockets.get_mut(&cookie) {
            phase.has_begun = true;
        }
        Ok(Hold::Fallback)
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
