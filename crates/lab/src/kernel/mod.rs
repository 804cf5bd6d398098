//! The same small scenarios with this machine's own TCP, in real time: to see how far the senders
//! of the virtual lab can be trusted.
//!
//! Two network namespaces, one for the servers and one for the clients, each with a TUN device.
//! The other ends of both devices are in the hands of one thread that does to packets what the
//! plan's elements do: delay them, queue them, drop them. It counts what it drops, so losses are
//! known and not inferred, and watches the servers' packets as a capture beside them would, so
//! round-trip times and retransmissions come out as the lab's do, whatever the sender thinks.
//!
//! Namespaces and devices have no names in the file system: they are held by file descriptors
//! alone and go with them, however the process ends. Nothing else of the machine is changed.
//!
//! Needs Linux, the capabilities `CAP_SYS_ADMIN` and `CAP_NET_ADMIN`, and `/dev/net/tun`.

mod element;
mod emulator;
mod host;
mod path;
mod transfer;
mod watch;

#[cfg(test)]
mod tests;

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_limiter::Nanos;

use crate::outcome::{AggregateOutcome, Distribution, Outcome};
use crate::plan::Plan;
use emulator::Emulator;
use host::Host;
use path::Tap;
use transfer::{Clock, Received};

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

/// Runs a plan in real time: as long as its duration, and a moment.
///
/// # Errors
/// If the plan has what the kernel or this module cannot do, if rights are missing, or if the
/// system refuses anything.
pub fn run(plan: &Plan) -> Result<KernelOutcome, KernelError> {
    path::check(plan)?;
    let (server, client) = (Host::server(plan)?, Host::client(plan)?);
    let mut emulator = Emulator::new(plan);

    // Writing captures may wait for a disk, which nothing else here may.
    thread::scope(|scope| {
        let mut writers = Vec::new();
        for tap in Tap::all(plan)? {
            let (sender, receiver) = mpsc::channel();
            emulator.connect(tap.element, sender);
            writers.push(scope.spawn(move || tap.write(&receiver)));
        }
        let result = transfers(plan, emulator, &server, &client);
        // The emulator is gone, and with it the taps' channels.
        for writer in writers {
            join(writer).map_err(KernelError::system("write a capture"))?;
        }
        result
    })
}

/// Lets flows begin and end, and gathers what came of them.
fn transfers(
    plan: &Plan,
    emulator: Emulator,
    server: &Host,
    client: &Host,
) -> Result<KernelOutcome, KernelError> {
    thread::scope(|scope| {
        // Threads inherit the policy of the one that starts them. Applications are in it too: one
        // that is put aside while it holds its socket's lock holds up the packets that come.
        let conductor = scope.spawn(|| {
            let real_time = host::real_time();
            let clock = Clock::new(Instant::now() + Duration::from_millis(20), plan.duration);
            let done = thread::scope(|scope| {
                let element = scope.spawn(|| element::run(emulator, clock, server, client));
                let flows: Vec<_> = (plan.flows.iter().enumerate())
                    .map(|(i, flow)| {
                        let serve = scope.spawn(move || transfer::serve(server, i, flow, clock));
                        let fetch = scope.spawn(move || transfer::fetch(client, i, flow, clock));
                        (serve, fetch)
                    })
                    .collect();
                let mut received = Vec::new();
                for (serve, fetch) in flows {
                    join(serve)?;
                    received.push(join(fetch)?);
                }
                Ok::<_, KernelError>((join(element)?, received))
            });
            done.map(|(done, received)| gather(plan, done, &received, real_time, server, client))
        });
        join(conductor)?
    })
}

/// The thread's result; its panic is passed on.
fn join<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    let result = thread.join();
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn gather(
    plan: &Plan,
    done: element::Done,
    received: &[Received],
    real_time: bool,
    server: &Host,
    client: &Host,
) -> Result<KernelOutcome, KernelError> {
    let mut lateness = done.lateness;
    let timeouts = server.timeouts()?;
    let mut outcome = done.emulator.outcome(plan.window);
    for (flow, received) in outcome.flows.iter_mut().zip(received) {
        flow.delivered = received.bytes;
        flow.end = received.last;
        flow.completions = received.completion.into_iter().collect();
    }
    if let [flow] = &mut outcome.flows[..] {
        flow.timeouts = timeouts;
    }
    outcome.aggregates = plan.aggregates.iter().map(|name| aggregate(name)).collect();
    for flow in &outcome.flows {
        let windows = &mut outcome.aggregates[flow.aggregate].windows;
        windows.resize(windows.len().max(flow.windows.len()), 0);
        for (sum, bytes) in windows.iter_mut().zip(&flow.windows) {
            *sum += bytes;
        }
    }
    Ok(KernelOutcome {
        outcome,
        lateness: distribution(&mut lateness),
        real_time,
        strays: server.lost()? + client.lost()? + done.refused,
        timeouts,
    })
}

fn aggregate(name: &str) -> AggregateOutcome {
    AggregateOutcome {
        name: name.to_owned(),
        windows: Vec::new(),
    }
}

/// Percentiles by nearest rank. Sorts the values.
fn distribution(values: &mut [Nanos]) -> Distribution {
    values.sort_unstable();
    let [min, .., max] = *values else {
        let only = values.first().copied().unwrap_or(0);
        return Distribution {
            count: values.len() as u64,
            min: only,
            mean: only,
            p50: only,
            p95: only,
            p99: only,
            max: only,
        };
    };
    let n = values.len();
    let rank = |percent: usize| values[(n * percent).div_ceil(100) - 1];
    let sum: u128 = values.iter().map(|&value| u128::from(value)).sum();
    Distribution {
        count: n as u64,
        min,
        mean: (sum / n as u128) as Nanos,
        p50: rank(50),
        p95: rank(95),
        p99: rank(99),
        max,
    }
}
