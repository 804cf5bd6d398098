//! The thread between the two ends.

use std::io;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use tidegate_lab::record::Histogram;
use tidegate_limiter::Nanos;
use tun_rs::SyncDevice;

use super::emulator::{Emulator, Toward};
use super::host::Host;
use super::transfer::{Clock, PATIENCE};
use crate::TestbedError;
use crate::capture::Recording;

/// Packets taken from one side before it is the other's turn.
const BATCH: usize = 64;
/// Longer than any packet of the devices.
const LONGEST: usize = 9216;

/// How well the thread did.
#[derive(Default)]
pub(super) struct Service {
    /// Of every packet, how much later than it should have it left.
    pub(super) lateness: Histogram,
    /// Packets that the devices did not take.
    pub(super) refused: u64,
}

/// Moves packets between the ends until time is up.
pub(super) fn run(
    emulator: &mut Emulator<'_>,
    recording: &Recording,
    clock: &Clock<'_>,
    server: &Host,
    client: &Host,
) -> Result<Service, TestbedError> {
    let mut buffer = vec![0; LONGEST];
    let mut service = Service::default();
    while !clock.is_over() {
        while let Some(departure) = emulator.leave(clock.now()) {
            let device = match departure.toward {
                Toward::Client => &client.device,
                Toward::Server => &server.device,
            };
            // The kernel's TCP works on the packet within the call, so the time is taken before.
            let at = clock.now();
            service.lateness.record(at.saturating_sub(departure.due));
            emulator.arrived(at, &departure);
            match device.send(&departure.bytes) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => service.refused += 1,
                Err(error) => {
                    return Err(TestbedError::system("hand a packet to the kernel")(error));
                }
            }
        }
        while let Some(captured) = emulator.take_captured() {
            recording.write(captured.element, captured.at, captured.bytes);
        }
        wait(clock, emulator.next(), server, client)?;
        take(emulator, clock, &server.device, Toward::Client, &mut buffer)?;
        take(emulator, clock, &client.device, Toward::Server, &mut buffer)?;
    }
    Ok(service)
}

/// Sleeps until a packet comes, or one has to go, or time is up.
fn wait(
    clock: &Clock<'_>,
    next: Option<Nanos>,
    server: &Host,
    client: &Host,
) -> Result<(), TestbedError> {
    let end = next.map_or(clock.duration, |next| next.min(clock.duration));
    let left = std::time::Duration::from_nanos(end.saturating_sub(clock.now())).min(PATIENCE);
    let mut ends = [server, client].map(|host| PollFd::new(host.device.as_fd(), PollFlags::POLLIN));
    match ppoll(&mut ends, Some(TimeSpec::from(left)), None) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(TestbedError::system("wait for packets")(error.into())),
    }
}

/// Takes what packets there are at one end.
fn take(
    emulator: &mut Emulator<'_>,
    clock: &Clock<'_>,
    device: &SyncDevice,
    toward: Toward,
    buffer: &mut [u8],
) -> Result<(), TestbedError> {
    for _ in 0..BATCH {
        match device.recv(buffer) {
            Ok(bytes) => emulator.arrive(clock.now(), toward, &buffer[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(TestbedError::system("take a packet from the kernel")(error)),
        }
    }
    Ok(())
}
