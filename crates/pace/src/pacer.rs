//! Sockets and their target rates.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_limiter::pacing::Hold;

use crate::clamp::Clamp;
use crate::clamp::cgroup::CgroupError;
use crate::clamp::wire::{CLAMP_ONLY, HOLD_AVERAGE, RATE_MOST, Record, Request};
use crate::socket::{self, TcpInfo};

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

/// By which means sockets are paced.
#[derive(Debug)]
#[non_exhaustive]
pub enum Mode {
    /// By the clamp, in the kernel.
    Kernel,
    /// By application pacing, with SO_MAX_PACING_RATE below it.
    Fallback {
        /// Why the clamp cannot be had; `None` if it was not wanted.
        why: Option<OpenError>,
    },
}

/// Why the clamp cannot be had.
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
    /// The kernel took the programs, and does not let them be called for a socket that exists.
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
    /// A target out of bounds.
    #[error("{0}")]
    Target(&'static str),
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
        /// What the kernel said.
        source: io::Error,
    },
}

/// What a socket is to be paced to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    rate: u64,
    headroom: u32,
    floor: u32,
    credit: u64,
    flags: u32,
}

impl Target {
    /// This target rate R in bit/s (125 % of the encoding rate, in the paper), with 20 % headroom and
    /// a floor of 10 segments.
    #[must_use]
    pub fn new(bits_per_second: u64) -> Self {
        let rate = bits_per_second.div_ceil(8);
        Self {
            rate,
            headroom: 1200,
            floor: 10,
            credit: u64::MAX,
            flags: 0,
        }
    }

    /// The clamp in thousandths of R · RTT, 1000 to 10,000.
    #[must_use]
    pub fn headroom(self, per_mille: u32) -> Self {
        Self {
            headroom: per_mille,
            ..self
        }
    }

    /// The least clamp, in segments, 1 to 65,535.
    #[must_use]
    pub fn floor(self, segments: u32) -> Self {
        Self {
            floor: segments,
            ..self
        }
    }

    /// How many bytes may be caught up at most after congestion; all of them otherwise.
    #[must_use]
    pub fn credit(self, bytes: u64) -> Self {
        Self {
            credit: bytes,
            ..self
        }
    }

    /// Leaves the headroom away while the transfer is ahead of R, so that its average is R. The
    /// paper's clamp lets it run at up to headroom · R.
    #[must_use]
    pub fn hold_average(self, hold: bool) -> Self {
        self.flag(HOLD_AVERAGE, hold)
    }

    /// The paper's algorithm alone: no pacing by the kernel where the window is above the clamp and
    /// something else limits the transfer.
    #[must_use]
    pub fn clamp_only(self, only: bool) -> Self {
        self.flag(CLAMP_ONLY, only)
    }

    fn flag(self, flag: u32, on: bool) -> Self {
        let flags = if on {
            self.flags | flag
        } else {
            self.flags & !flag
        };
        Self { flags, ..self }
    }

    /// R in bytes per second.
    #[must_use]
    pub fn bytes_per_second(&self) -> u64 {
        self.rate
    }

    fn check(&self) -> Result<(), PaceError> {
        let Self {
            rate,
            headroom,
            floor,
            ..
        } = *self;
        let problem = if rate == 0 || rate > RATE_MOST {
            "the target rate must be between 1 bit/s and 100 Gbit/s"
        } else if !(1000..=10_000).contains(&headroom) {
            "the headroom must be between 1000 and 10000 per mille of R * RTT"
        } else if !(1..=65_535).contains(&floor) {
            "the floor must be between 1 and 65535 segments"
        } else {
            return Ok(());
        };
        Err(PaceError::Target(problem))
    }

    /// Bytes per second.
    fn with_headroom(&self) -> u64 {
        let rate = u128::from(self.rate) * u128::from(self.headroom) / 1000;
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    fn request(&self, owner: u64, queued: u32) -> Request {
        Request {
            owner,
            rate: self.rate,
            credit: self.credit,
            headroom: self.headroom,
            floor: self.floor,
            flags: self.flags,
            queued,
        }
    }
}

/// How a paced socket is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// What holds it.
    pub hold: Hold,
    /// Target rate, bytes per second.
    pub rate: u64,
    /// headroom · R · RTT / MSS, at least the floor, in segments; 0 before the first round trip.
    pub clamp: u32,
    /// Congestion window, segments.
    pub window: u32,
    /// Smoothed round-trip time, µs.
    pub srtt: u32,
    /// Largest segment, bytes of payload.
    pub mss: u32,
    /// Data segments sent on this connection, with retransmissions.
    pub sent: u32,
    /// Segments retransmitted on this connection.
    pub retransmitted: u32,
    /// Bytes acknowledged since the throttling phase began, at the last round trip.
    pub delivered: u64,
    /// Bytes that R asked for until then.
    pub due: u64,
    /// Round trips that the clamp was looked at.
    pub round_trips: u32,
    /// How often the clamp was set.
    pub sets: u32,
    /// How often goodput fell behind R.
    pub lifts: u32,
    /// Bytes per second that the kernel paces at, while the window is above the clamp because
    /// something else limits the transfer (the client's window, or a lack of data), and in the
    /// fallback; 0 otherwise.
    pub pacing: u64,
}

/// Paces sockets for as long as it lives.
///
/// A socket is the same by whichever of its descriptors. With the last reference to this, or when the
/// process dies, the programs leave the kernel. Limits go away with their sockets, or with this from
/// all that the process still has open.
#[derive(Debug)]
pub struct Pacer {
    clamp: Option<Clamp>,
    mode: Mode,
    /// Which sockets are paced without the clamp; of others the kernel knows.
    paced: Mutex<Paced>,
}

/// Sockets by the kernel's numbers, which no others ever get.
#[derive(Debug, Default)]
struct Paced {
    sockets: HashMap<u64, Fallback>,
    /// At how many of them those that are closed are looked for.
    full: usize,
}

#[derive(Debug, Clone, Copy)]
struct Fallback {
    target: Target,
    /// Bytes acknowledged when the phase began.
    begin: u64,
}

impl Paced {
    /// Few enough to be looked through often.
    const LEAST: usize = 1000;

    fn insert(&mut self, cookie: u64, paced: Fallback) {
        if self.sockets.len() >= self.full.max(Self::LEAST) {
            // Nobody tells when a socket is closed.
            let mut open = HashSet::new();
            let looked = socket::each_open(|socket| open.extend(socket::cookie(socket)));
            if looked.is_ok() {
                self.sockets.retain(|cookie, _| open.contains(cookie));
            }
            self.full = 2 * self.sockets.len();
        }
        self.sockets.insert(cookie, paced);
    }
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
        let (clamp, mode) = if options.without_kernel {
            (None, Mode::Fallback { why: None })
        } else {
            match attach(options) {
                Ok(clamp) => (Some(clamp), Mode::Kernel),
                Err(why) => (None, Mode::Fallback { why: Some(why) }),
            }
        };
        Self {
            clamp,
            mode,
            paced: Mutex::default(),
        }
    }

    /// By which means sockets are paced.
    #[must_use]
    pub fn mode(&self) -> &Mode {
        &self.mode
    }

    /// The kernel's numbers of the attached programs, by which it counts their cost.
    #[must_use]
    pub fn programs(&self) -> &[u32] {
        self.clamp.as_ref().map_or(&[], |clamp| &clamp.programs)
    }

    /// Begins the throttling phase of a connected socket. What was written before still goes out at
    /// full speed, and the phase begins when it is acknowledged.
    ///
    /// # Errors
    /// If the target is out of bounds, or the kernel refuses.
    pub fn pace(&self, socket: impl AsFd, target: &Target) -> Result<(), PaceError> {
        let socket = socket.as_fd();
        target.check()?;
        let failed = |source| failed(socket, source);
        match &self.clamp {
            Some(clamp) => {
                let queued = socket::unacknowledged(socket).map_err(failed)?;
                clamp
                    .set(socket, &target.request(clamp.owner, queued))
                    .map_err(failed)
            }
            None => {
                let cookie = socket::cookie(socket).map_err(failed)?;
                fall_back(socket, target).map_err(failed)?;
                let begin = socket::tcp_info(socket).map_err(failed)?.acked;
                let paced = Fallback {
                    target: *target,
                    begin,
                };
                self.paced().insert(cookie, paced);
                Ok(())
            }
        }
    }

    /// Gives a paced socket another target, in the same phase.
    ///
    /// # Errors
    /// If the target is out of bounds, or the socket is not paced.
    pub fn change(&self, socket: impl AsFd, target: &Target) -> Result<(), PaceError> {
        let socket = socket.as_fd();
        target.check()?;
        let failed = |source| failed(socket, source);
        match &self.clamp {
            Some(clamp) => clamp
                .change(socket, &target.request(clamp.owner, 0))
                .map_err(failed),
            None => {
                let (cookie, before) = self.fallen_back(socket)?;
                fall_back(socket, target).map_err(failed)?;
                let paced = Fallback {
                    target: *target,
                    ..before
                };
                self.paced().insert(cookie, paced);
                Ok(())
            }
        }
    }

    /// Paces a socket no more. Its clamp goes away with the next round trips, not at once: the slow
    /// start threshold goes with it, and would open a slow start where there was congestion.
    ///
    /// # Errors
    /// If it is not paced.
    pub fn remove(&self, socket: impl AsFd) -> Result<(), PaceError> {
        let socket = socket.as_fd();
        let failed = |source| failed(socket, source);
        match &self.clamp {
            Some(clamp) => {
                record(clamp, socket)?;
                clamp.remove(socket).map_err(failed)
            }
            None => {
                let (cookie, _) = self.fallen_back(socket)?;
                socket::set_max_pacing_rate(socket, None).map_err(failed)?;
                self.paced().sockets.remove(&cookie);
                Ok(())
            }
        }
    }

    /// How a paced socket is doing.
    ///
    /// # Errors
    /// If it is not paced, or is no TCP socket.
    pub fn stats(&self, socket: impl AsFd) -> Result<Stats, PaceError> {
        let socket = socket.as_fd();
        let info = || socket::tcp_info(socket).map_err(|source| failed(socket, source));
        match &self.clamp {
            Some(clamp) => {
                let record = record(clamp, socket)?;
                Ok(clamped(&record, &info()?))
            }
            None => {
                let (_, paced) = self.fallen_back(socket)?;
                Ok(fallen_back(&paced, &info()?))
            }
        }
    }

    /// What holds a paced socket: one system call, for writers to ask before they write.
    ///
    /// # Errors
    /// If it is not paced.
    pub fn hold(&self, socket: impl AsFd) -> Result<Hold, PaceError> {
        let socket = socket.as_fd();
        match &self.clamp {
            Some(clamp) => record(clamp, socket).map(|record| hold(&record)),
            None => self.fallen_back(socket).map(|_| Hold::Fallback),
        }
    }

    fn paced(&self) -> MutexGuard<'_, Paced> {
        self.paced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fallen_back(&self, socket: BorrowedFd<'_>) -> Result<(u64, Fallback), PaceError> {
        let cookie = socket::cookie(socket).map_err(|source| failed(socket, source))?;
        let paced = self.paced().sockets.get(&cookie).copied();
        paced
            .map(|paced| (cookie, paced))
            .ok_or_else(|| not_paced(socket))
    }
}

impl Drop for Pacer {
    /// Frees the sockets that this process has open, since a clamp stays where it was last set.
    fn drop(&mut self) {
        // What cannot be freed is a socket that no longer is; without /proc none can be found.
        let _ = match &self.clamp {
            Some(clamp) => socket::each_open(|socket| {
                if clamp.holds(socket) {
                    let _ = clamp.free(socket);
                }
            }),
            None => {
                let paced = std::mem::take(&mut self.paced().sockets);
                let is_ours = |cookie: u64| paced.contains_key(&cookie);
                socket::each_open(|socket| {
                    if socket::cookie(socket).is_ok_and(is_ours) {
                        let _ = socket::set_max_pacing_rate(socket, None);
                    }
                })
            }
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

/// Headroom for the kernel's pacing as for the clamp: the writer keeps the average, and may catch up.
fn fall_back(socket: BorrowedFd<'_>, target: &Target) -> io::Result<()> {
    socket::set_max_pacing_rate(socket, Some(target.with_headroom()))
}

fn hold(record: &Record) -> Hold {
    match record.state {
        0 => Hold::StartUp,
        1 => Hold::Clamped,
        2 => Hold::Floor,
        _ => Hold::Behind,
    }
}

fn record(clamp: &Clamp, socket: BorrowedFd<'_>) -> Result<Record, PaceError> {
    let record = clamp.record(socket);
    record
        .map_err(|source| failed(socket, source))?
        .ok_or_else(|| not_paced(socket))
}

fn clamped(record: &Record, info: &TcpInfo) -> Stats {
    Stats {
        hold: hold(record),
        rate: record.rate,
        clamp: record.target,
        window: info.window,
        srtt: info.srtt,
        mss: info.mss,
        sent: info.sent,
        retransmitted: info.retransmitted,
        delivered: record.delivered,
        due: record.due,
        round_trips: record.calls,
        sets: record.sets,
        lifts: record.lifts,
        pacing: record.pacing.into(),
    }
}

fn fallen_back(paced: &Fallback, info: &TcpInfo) -> Stats {
    Stats {
        hold: Hold::Fallback,
        rate: paced.target.rate,
        clamp: 0,
        window: info.window,
        srtt: info.srtt,
        mss: info.mss,
        sent: info.sent,
        retransmitted: info.retransmitted,
        delivered: info.acked.saturating_sub(paced.begin),
        due: 0,
        round_trips: 0,
        sets: 0,
        lifts: 0,
        pacing: paced.target.with_headroom(),
    }
}

fn not_paced(socket: BorrowedFd<'_>) -> PaceError {
    PaceError::NotPaced {
        socket: socket.as_raw_fd(),
    }
}

fn failed(socket: BorrowedFd<'_>, source: io::Error) -> PaceError {
    match source.raw_os_error() {
        Some(libc::ENOENT) => not_paced(socket),
        Some(libc::ENOPROTOOPT) => PaceError::OtherCgroup {
            socket: socket.as_raw_fd(),
        },
        _ => PaceError::Socket {
            socket: socket.as_raw_fd(),
            source,
        },
    }
}

#[cfg(test)]
mod tests;
