//! The same small scenarios with this machine's own TCP, in real time: to see how far the senders
//! of the virtual lab can be trusted.
//!
//! Two network namespaces, one for the servers and one for the clients, each with a TUN device.
//! The other ends of both devices are in the hands of one thread that does to packets what the
//! plan's elements do: delay them, queue them, drop them. It counts what it drops, so losses are
//! known and not inferred, and watches the servers' packets as a capture beside them would, so
//! round-trip times and retransmissions come out as the lab's do, whatever the sender thinks.
//!
//! Two things keep comparisons fair. Rates up to 100 or 200 Mbit/s: packets beyond that come late.
//! And a link in front of a policer, faster than it, as real paths have: without any, whole windows
//! leave at one moment, and what a bucket smaller than a window passes of them hangs on details of
//! timing (goodput differs by a quarter from run to run).
//!
//! Namespaces and devices have no names in the file system: they are held by file descriptors
//! alone and go with them, however the process ends. Nothing else of the machine is changed.
//!
//! Needs Linux, the capabilities `CAP_SYS_ADMIN` and `CAP_NET_ADMIN`, and `/dev/net/tun`.

pub mod compare;
mod element;
mod emulator;
mod host;
pub mod iperf;
pub mod link;
pub mod namespace;
mod path;
pub mod site;
mod tap;
mod transfer;
mod watch;
mod way;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_trace::read::LinkType;

use crate::RunError;
use crate::outcome::{Distribution, Outcome};
use crate::plan::{ElementKind, Plan};
use emulator::Emulator;
use host::Host;
use tap::{Passing, Tap};
use transfer::Clock;

/// From the moment when all is there to the beginning of a run: for threads to start.
const LEAD: Duration = Duration::from_millis(20);

/// What came of a plan with the kernel's TCP.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelOutcome {
    /// As of the virtual lab. Timeouts are known for a single flow only: the kernel counts those
    /// of all connections together. Elements have no samples.
    pub outcome: Outcome,
    /// How much later than they should have packets left: real time's own error. It adds to
    /// round-trip times twice.
    pub lateness: Distribution,
    /// Whether the elements ran with real-time priority. Without it, lateness depends on what else
    /// the machine does.
    pub real_time: bool,
    /// Packets that were lost between the kernel's TCP and the elements, where no element should
    /// lose any: results with more than 0 are worth nothing.
    pub strays: u64,
    /// Retransmission timeouts of all flows.
    pub timeouts: u64,
}

/// Why a plan could not be run.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
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

impl KernelError {
    /// For `map_err`: what was tried when the system refused.
    fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Rights { what },
            _ => Self::System { what, source },
        }
    }
}

/// Runs a plan in real time: as long as its duration, and a moment. If `stop` is raised it ends at
/// once, with [`RunError::Interrupted`].
///
/// # Errors
/// If the plan has what the kernel or this module cannot do, if rights are missing, or if the
/// system refuses anything.
pub fn run(plan: &Plan, stop: &AtomicBool) -> Result<KernelOutcome, KernelError> {
    path::check(plan)?;
    run_checked(plan, stop)
}

fn run_checked(plan: &Plan, stop: &AtomicBool) -> Result<KernelOutcome, KernelError> {
    let (server, client) = (Host::server(plan)?, Host::client(plan)?);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Writing captures may wait for a disk, which nothing else here may.
        let (mut taps, mut writers) = (Vec::new(), Vec::new());
        for element in &plan.elements {
            if let ElementKind::Tap { file, snaplen } = &element.kind {
                let tap = Tap::create(file, *snaplen, LinkType::RAW)?;
                let (to, from) = mpsc::channel();
                taps.push(to);
                writers.push((file, scope.spawn(move || tap.write(0, &from))));
            }
        }
        // Threads inherit the policy of the one that starts them. Applications have it too: one
        // that is put aside while it holds its socket's lock holds up the packets that come.
        let conductor = scope.spawn(|| {
            let real_time = host::real_time();
            let clock = Clock::new(Instant::now() + LEAD, plan.duration, stop);
            conduct(plan, taps, &clock, real_time, &server, &client)
        });
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| host::keep_awake(&over));
        }
        let outcome = conductor.join();
        over.store(true, Ordering::Relaxed);
        let outcome = outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        for (file, writer) in writers {
            join(writer).map_err(|error| KernelError::Capture(file.clone(), error))?;
        }
        outcome
    })
}

/// Lets flows begin and end, and gathers what came of them.
fn conduct(
    plan: &Plan,
    taps: Vec<mpsc::Sender<Passing>>,
    clock: &Clock<'_>,
    real_time: bool,
    server: &Host,
    client: &Host,
) -> Result<KernelOutcome, KernelError> {
    let mut emulator = Emulator::new(plan, taps)?;
    let (service, received) = thread::scope(|scope| {
        let flows: Vec<_> = (plan.flows.iter().enumerate())
            .map(|(i, flow)| {
                let serve = scope.spawn(move || transfer::serve(server, i, flow, clock));
                let fetch = scope.spawn(move || transfer::fetch(client, i, flow, clock));
                (serve, fetch)
            })
            .collect();
        let service = element::run(&mut emulator, clock, server, client)?;
        let received: Result<Vec<_>, KernelError> = (flows.into_iter())
            .map(|(serve, fetch)| join(serve).and_then(|()| join(fetch)))
            .collect();
        Ok::<_, KernelError>((service, received?))
    })?;
    if clock.is_stopped() {
        return Err(RunError::Interrupted.into());
    }
    let timeouts = server.timeouts()?;
    Ok(KernelOutcome {
        outcome: emulator.finish(&received, timeouts),
        lateness: service.lateness.distribution(),
        real_time,
        strays: server.lost()? + client.lost()? + service.refused,
        timeouts,
    })
}

/// An error of a file of the kernel's that is not as known.
fn unreadable(file: &str) -> KernelError {
    KernelError::System {
        what: "read the namespace's counters",
        source: io::Error::new(
            io::ErrorKind::InvalidData,
            format!("unknown form of {file}"),
        ),
    }
}

/// What an open file of the kernel's counters says now. Clones share a position, which is why it
/// is not used.
fn again(file: &File) -> Result<String, KernelError> {
    let failed = KernelError::system("read the namespace's counters");
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let read = file.read_at(&mut buffer, bytes.len() as u64);
        match read.map_err(&failed)? {
            0 => break,
            read => bytes.extend_from_slice(&buffer[..read]),
        }
    }
    String::from_utf8(bytes).map_err(|_| unreadable("/proc/net"))
}

/// The thread's result; its panic is passed on.
fn join<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    let result = thread.join();
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
