//! The same small scenarios with the TCP of this machine's kernel, in real time. They show how far
//! the senders of the virtual lab can be trusted.
//!
//! There are two network namespaces, one for the servers and one for the clients, each with a TUN device.
//! One thread holds the other ends of both devices. It treats packets as the plan's elements do: it
//! delays, queues and drops them. It counts its drops, so losses are known and not inferred. It watches
//! the servers' packets as a capture beside them would. So round-trip times and retransmissions are
//! measured as in the lab, independent of what the sender believes.
//!
//! Two things keep comparisons fair. Rates are at most 100 or 200 Mbit/s, because packets come late
//! at higher rates. And a link that is faster than the policer is before it, as on real paths.
//! Without one, whole windows leave at one moment. Then details of timing decide what a bucket
//! smaller than a window passes (goodput differs by a quarter from run to run).
//!
//! Namespaces and devices have no names in the file system. Only file descriptors hold them, so
//! they disappear with these, even if the process is killed. Nothing else on the machine is
//! changed.
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
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_lab::RunError;
use tidegate_lab::outcome::{Distribution, Outcome};
use tidegate_lab::plan::Plan;
use tidegate_trace::read::LinkType;

use crate::capture::Recording;
use crate::forward::{End, Forwarder};
use crate::{TestbedError, join};
use emulator::Emulator;
use host::Host;
use transfer::{Clock, PATIENCE};

/// From the moment when everything is ready to the beginning of a run: time for threads to start.
const LEAD: Duration = Duration::from_millis(20);

/// The result of a plan with the kernel's TCP.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelOutcome {
    /// As in the virtual lab. Timeouts are known only for a single flow, because the kernel counts
    /// those of all connections together. Elements have no samples.
    pub outcome: Outcome,
    /// How late packets left: the error of real time. It adds to round-trip times twice.
    pub lateness: Distribution,
    /// Whether the elements ran with real-time priority. Without it, lateness depends on other work
    /// on the machine.
    pub real_time: bool,
    /// Packets that were lost between the kernel's TCP and the elements, where none should be lost.
    /// Results with more than 0 are worthless.
    pub strays: u64,
    /// Retransmission timeouts of all flows.
    pub timeouts: u64,
}

/// Runs a plan in real time: it takes its duration, and a moment more. `captures` are the files of
/// its taps, in the order of the elements. If `stop` is set, the run ends at once with
/// [`RunError::Interrupted`].
///
/// # Errors
/// If the plan has a part that the kernel or this module does not support, if rights are missing,
/// or if the system refuses anything.
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
    let mut recording = Recording::new(kinds, captures, LinkType::RAW)?;
    let _awake = host::Awake::new();
    let outcome = thread::scope(|scope| {
        // Threads inherit the policy of the thread that starts them. Applications have it too: an
        // application that is interrupted while it holds its socket's lock delays the packets that
        // come.
        let conductor = scope.spawn(|| {
            let real_time = host::real_time();
            let clock = Clock::new(Instant::now() + LEAD, plan.duration, stop);
            conduct(plan, &mut recording, &clock, real_time, &server, &client)
        });
        let outcome = conductor.join();
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    recording.finish()?;
    outcome
}

/// Lets flows begin and end, and gathers their results.
fn conduct(
    plan: &Plan,
    recording: &mut Recording,
    clock: &Clock<'_>,
    real_time: bool,
    server: &Host,
    client: &Host,
) -> Result<KernelOutcome, TestbedError> {
    let mut emulator = Emulator::new(plan)?;
    let devices: [&dyn End; 2] = [&server.device, &client.device];
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
            forwarder.turn(&mut emulator, clock.time_left().min(PATIENCE))?;
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
