//! The loop that moves packets between two devices, for everything that runs in real time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use tidegate_lab::path::{Captured, Leaving};
use tidegate_lab::record::Histogram;
use tidegate_limiter::Nanos;
use tun_rs::SyncDevice;

use crate::TestbedError;
use crate::capture::Recording;

/// Packets taken from one device before the other one has its turn.
const BATCH: usize = 64;
/// Packets taken from one device even if another packet must leave meanwhile, so that its queue becomes shorter: a full queue drops packets.
const LEAST: usize = 4;
/// Longer than any packet or frame of the devices.
const LONGEST: usize = 9216;

/// Delays, queues and drops packets between the devices. Times count from the origin of the
/// [`Forwarder`].
pub(crate) trait Between {
    /// A packet came from one of the devices; forward is from the near one to the far one.
    fn arrive(&mut self, at: Nanos, forward: bool, bytes: &[u8]);

    /// The time of the next action.
    fn next(&self) -> Option<Nanos>;

    /// The next packet that must leave by now.
    fn leave(&mut self, now: Nanos) -> Option<Leaving>;

    /// The next packet that passed a tap.
    fn take_captured(&mut self) -> Option<Captured>;

    /// A packet is handed to its device at this time.
    fn hand_over(&mut self, at: Nanos, leaving: &Leaving) {
        let _ = (at, leaving);
    }
}

/// Where packets come from and go to. Calls never wait.
pub(crate) trait End: Send {
    /// It can be read when a packet is there.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Takes a packet. `WouldBlock` if there is none.
    fn take(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Hands a packet over. `WouldBlock` if there is no room.
    fn hand(&self, packet: &[u8]) -> io::Result<()>;

    /// Whether there is a packet that the descriptor does not show.
    fn has_more(&self) -> bool {
        false
    }

    /// Packets that were lost so far because this process did not take them in time.
    fn lost(&self) -> u64 {
        0
    }
}

impl End for SyncDevice {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn take(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv(buffer)
    }

    fn hand(&self, packet: &[u8]) -> io::Result<()> {
        self.send(packet).map(drop)
    }
}

/// Moves packets between two devices, and counts how well it does.
pub(crate) struct Forwarder<'a> {
    origin: Instant,
    /// Near and far.
    devices: [&'a dyn End; 2],
    pub(crate) recording: &'a mut Recording,
    /// The time of the origin, for captures.
    epoch: Nanos,
    buffer: Vec<u8>,
    /// Packets that came in, forward and back.
    pub(crate) packets: [u64; 2],
    /// Packets that went out.
    pub(crate) passed: [u64; 2],
    /// Bytes of these.
    pub(crate) bytes: [u64; 2],
    /// Packets that the devices did not take.
    pub(crate) refused: u64,
    /// How late each packet left.
    pub(crate) lateness: Histogram,
}

impl<'a> Forwarder<'a> {
    /// Captures have the time `epoch` at the origin.
    pub(crate) fn new(
        origin: Instant,
        devices: [&'a dyn End; 2],
        recording: &'a mut Recording,
        epoch: Nanos,
    ) -> Self {
        Self {
            origin,
            devices,
            recording,
            epoch,
            buffer: vec![0; LONGEST],
            packets: [0; 2],
            passed: [0; 2],
            bytes: [0; 2],
            refused: 0,
            lateness: Histogram::default(),
        }
    }

    /// Time since the origin; 0 before it.
    pub(crate) fn now(&self) -> Nanos {
        let elapsed = Instant::now().saturating_duration_since(self.origin);
        elapsed.as_nanos() as Nanos
    }

    /// Hands over the packets that are due. Then sleeps until a packet comes or must leave, but no
    /// longer than `most`, and takes the packets that have come.
    pub(crate) fn turn(
        &mut self,
        between: &mut impl Between,
        most: Duration,
    ) -> Result<(), TestbedError> {
        while let Some(leaving) = between.leave(self.now()) {
            let way = usize::from(!leaving.forward);
            // The kernel's TCP works on the packet within the call, so the time is taken before.
            let at = self.now();
            self.lateness.record(at.saturating_sub(leaving.due));
            between.hand_over(at, &leaving);
            match self.devices[1 - way].hand(&leaving.bytes) {
                Ok(()) => {
                    self.passed[way] += 1;
                    self.bytes[way] += leaving.bytes.len() as u64;
                }
                Err(error) if is_down(&error) => self.refused += 1,
                Err(error) => {
                    return Err(TestbedError::system("hand a packet to the kernel")(error));
                }
            }
        }
        while let Some(captured) = between.take_captured() {
            let at = self.epoch + captured.at;
            self.recording.write(captured.element, at, &captured.bytes);
        }
        let most = match self.devices.iter().any(|device| device.has_more()) {
            true => Duration::ZERO,
            false => most,
        };
        let left = between.next().map_or(most, |next| {
            Duration::from_nanos(next.saturating_sub(self.now())).min(most)
        });
        let mut ends = self
            .devices
            .map(|device| PollFd::new(device.descriptor(), PollFlags::POLLIN));
        match ppoll(&mut ends, Some(TimeSpec::from(left)), None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(TestbedError::system("wait for packets")(error.into())),
        }
        self.take(between, true)?;
        self.take(between, false)
    }

    /// Takes the packets that are at one device, until one of those that are under way must leave: a burst takes longer than
    /// packets of a fast link are apart.
    fn take(&mut self, between: &mut impl Between, forward: bool) -> Result<(), TestbedError> {
        let way = usize::from(!forward);
        for taken in 0..BATCH {
            if taken >= LEAST && between.next().is_some_and(|next| next <= self.now()) {
                break;
            }
            match self.devices[way].take(&mut self.buffer) {
                Ok(bytes) => {
                    self.packets[way] += 1;
                    between.arrive(self.now(), forward, &self.buffer[..bytes]);
                }
                Err(error) if is_down(&error) => break,
                Err(error) => {
                    return Err(TestbedError::system("take a packet from the kernel")(error));
                }
            }
        }
        Ok(())
    }
}

/// Whether a device is down, has no room, or has no packet.
fn is_down(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(Errno::EIO as i32)
}
