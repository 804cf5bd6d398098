//! A packet socket and its ring.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::error::SampleError;
use crate::load::Fill;
use crate::packet::{self, Packet};
use crate::sys::{Interface, PacketSocket, Ring};

/// How long to wait for packets before flags and times are looked at.
const WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// A socket that receives sampled packets.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: PacketSocket,
    ring: Ring,
    /// The block that the kernel hands over next.
    next: usize,
    interface: Interface,
}

impl Listener {
    /// Takes a socket that has a filter and this ring.
    pub(crate) fn new(socket: PacketSocket, ring: Ring, interface: Interface) -> Self {
        let next = 0;
        Self {
            socket,
            ring,
            next,
            interface,
        }
    }

    /// Waits a moment for packets.
    pub(crate) fn wait(&self, interface: &str) -> Result<(), SampleError> {
        let mut ready = [PollFd::new(&self.socket, PollFlags::IN | PollFlags::ERR)];
        match poll(&mut ready, Some(&WAIT)) {
            // The kernel says once that an interface is down, which may be just before it is removed.
            Ok(0) => return self.is_there(interface),
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(SampleError::system("wait for packets")(error.into())),
        }
        if ready[0].revents().contains(PollFlags::ERR) {
            let what = format!("the interface {interface}");
            let error = self.socket.error().map_err(SampleError::system(&*what))?;
            return match error {
                // The kernel hands on packets again when the interface is up again.
                Some(error) if error.raw_os_error() == Some(libc::ENETDOWN) => {
                    self.is_there(interface)
                }
                Some(error) => Err(SampleError::system(what)(error)),
                None => Ok(()),
            };
        }
        Ok(())
    }

    fn is_there(&self, name: &str) -> Result<(), SampleError> {
        let there = self.socket.has(self.interface.index);
        match there.map_err(SampleError::system(format!("ask for {name}")))? {
            true => Ok(()),
            false => Err(SampleError::Gone(name.to_owned())),
        }
    }

    /// Packets that passed the filter, and how many of them were lost because the ring was full, since the last call.
    pub(crate) fn counts(&self) -> Result<(u32, u32), SampleError> {
        let counts = self.socket.counts();
        counts.map_err(SampleError::system("read the kernel's counts"))
    }

    pub(crate) fn fill(&self) -> Fill {
        let blocks = 0..self.ring.blocks();
        Fill {
            waiting: blocks.filter(|block| self.ring.is_ready(*block)).count(),
            whole: self.ring.blocks(),
            lost: 0,
        }
    }

    /// Hands on the packets of a block, if one is ready. Returns how many blocks that were.
    pub(crate) fn take(
        &mut self,
        mut each: impl FnMut(&Packet<'_>) -> Result<(), SampleError>,
    ) -> Result<usize, SampleError> {
        let Some(block) = self.ring.block(self.next) else {
            return Ok(0);
        };
        for packet in packet::packets(block, self.interface.mtu) {
            each(&packet)?;
        }
        self.ring.give_back(self.next);
        self.next = (self.next + 1) % self.ring.blocks();
        Ok(1)
    }
}
