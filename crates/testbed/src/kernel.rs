//! The same small scenarios with this machine's own TCP, in real time: to see how far the senders
//! of the virtual lab can be trusted.
//!
//! Two network namespaces, one for the servers and one for the clients, each with a TUN device.
//! The other ends of both devices are in the hands of one thread that does to packets what the
//! plan's elements do: delay them, queue them, drop them. It counts what it drops, so losses are
//! known and not inferred, and watches the servers' packets as a capture beside them would, so
//! round-trip times and retransmissions come out as the lab's do, independent of what the sender believes.
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

mod emulator;
pub(crate) mod host;
mod path;
mod transfer;
mod watch;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_lab::RunError;
use tidegate_lab::outcome::{Distribution, Outcome};
use tidegate_lab::plan::Plan;
use tidegate_trace::read::LinkType;

use crate::capture::Recording;
use crate::forward::Forwarder;
use crate::{TestbedError, join};
use emulator::Emulator;
use host::Host;
use transfer::{Clock, PATIENCE};

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

/// Runs a plan in real time: as long as its duration, and a moment. `captures` are the files of its
/// taps, in the order of the elements. If `stop` is set the run ends at once, with
/// [`RunError::Interrupted`].
///
/// # Errors
/// If the plan has what the kernel or this module cannot do, if rights are missing, or if the
/// system refuses anything.
pub fn run(
    plan: &Plan,
    captures: &[PathBuf],
    stop: &AtomicBool,
) -> Result<KernelOutcome, TestbedError> {
    path::check(plan)?;
    run_checked(plan, captures, stop)
}

fn run_checked(
    plan: &Plan,
    captures: &[PathBuf],
    stop: &AtomicBool,
) -> Result<KernelOutcome, TestbedError> {
    let (server, client) = (Host::server(plan)?, Host::client(plan)?);
    let kinds = plan.elements.iter().map(|element| &element.kind);
    let recording = Recording::new(kinds, captures, LinkType::RAW)?;
    let over = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        // Threads inherit the policy of the one that starts them. Applications have it too: one
        // that is put aside while it holds its socket's lock holds up the packets that come.
        let conductor = scope.spawn(|| {
            let real_time = host::real_time();
            let clock = Clock::new(Instant::now() + LEAD, plan.duration, stop);
            conduct(plan, &recording, &clock, real_time, &server, &client)
        });
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| host::keep_awake(&over));
        }
        let outcome = conductor.join();
        over.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    recording.finish()?;
    outcome
}

/// Lets flows begin and end, and gathers what came of them.
fn conduct(
    plan: &Plan,
    recording: &Recording,
    clock: &Clock<'_>,
    real_time: bool,
    server: &Host,
    client: &Host,
) -> Result<KernelOutcome, TestbedError> {
    let mut emulator = Emulator::new(plan)?;
    let devices = [&server.device, &client.device];
    let mut forwarder = Forwarder::new(clock.origin, devices, recording, 0);
    let received = thread::scope(|scope| {
        let flows: Vec<_> = (plan.flows.iter().enumerate())
            .map(|(i, flow)| {
                let serve = scope.spawn(move || transfer::serve(server, i, flow, clock));
                let fetch = scope.spawn(move || transfer::fetch(client, i, flow, clock));
                (serve, fetch)
            })
            .collect();
        while !clock.is_over() {
            forwarder.turn(&mut emulator, clock.left().min(PATIENCE))?;
        }
        (flows.into_iter())
            .map(|(serve, fetch)| join(serve).and_then(|()| join(fetch)))
            .collect::<Result<Vec<_>, TestbedError>>()
    })?;
    if clock.is_stopped() {
        return Err(RunError::Interrupted.into());
    }
    let timeouts = server.timeouts()?;
    Ok(KernelOutcome {
        outcome: emulator.finish(&received, timeouts),
        lateness: forwarder.lateness.distribution(),
        real_time,
        strays: server.lost()? + client.lost()? + forwarder.refused,
        timeouts,
    })
}
