//! The outer end of a shell: packets leave through raw sockets, and come from the device to which replies are turned.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use super::addresses::Addresses;
use super::reach::travels;
use super::refusal::refusal;
use crate::TestbedError;
use crate::forward::End;
use crate::namespace::Port;

/// IANA's IPPROTO_RAW: the header is written by this process.
const RAW: i32 = 255;
/// Most answers to packets that cannot be sent; more are left out, as RFC 1812 §4.3.2.8 allows.
const ANSWERS: usize = 64;

/// The network outside, as an end of a link.
pub(super) struct Outside {
    port: Port,
    addresses: Addresses,
    raw: Socket,
    raw6: Option<Socket>,
    /// What the network outside says of packets that could not be sent.
    answers: RefCell<VecDeque<Vec<u8>>>,
}

impl Outside {
    /// The network of the calling thread.
    pub(super) fn new(port: Port, addresses: Addresses) -> Result<Self, TestbedError> {
        let open = |domain| {
            let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(RAW)))?;
            socket.set_nonblocking(true).map(|()| socket)
        };
        let failed = TestbedError::system("open a raw socket");
        let raw = open(Domain::IPV4).map_err(&failed)?;
        let raw6 = match addresses.has_six {
            true => Some(
                open(Domain::IPV6)
                    .and_then(|socket| socket.set_header_included_v6(true).map(|()| socket))
                    .map_err(&failed)?,
            ),
            false => None,
        };
        Ok(Self {
            port,
            addresses,
            raw,
            raw6,
            answers: RefCell::default(),
        })
    }

    /// Whether this machine's rules for output refuse a packet to the shell. Copies of replies pass these rules, and no connection
    /// is known for them there, so that rules for established connections do not help. Before the first packet of the shell.
    pub(super) fn is_filtered(&self) -> bool {
        // A header alone, of a protocol for experiments (RFC 3692 §2.1), from an address for documentation (RFC 5737). The kernel
        // adds the checksum.
        let mut packet = vec![0x45, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0, 0];
        packet.extend(Ipv4Addr::new(198, 51, 100, 1).octets());
        packet.extend(self.addresses.shell.octets());
        let sent = self.send(&packet, self.addresses.shell.into());
        // It is not for the shell.
        let mut buffer = [0; 2048];
        while self.port.take(&mut buffer).is_ok() {}
        sent.is_err_and(|error| error.raw_os_error() == Some(Errno::EPERM as i32))
    }

    fn send(&self, packet: &[u8], to: IpAddr) -> io::Result<()> {
        let socket = match to {
            IpAddr::V4(_) => Some(&self.raw),
            IpAddr::V6(_) => self.raw6.as_ref(),
        };
        let none = io::Error::from(Errno::ENETUNREACH);
        let socket = socket.ok_or(none)?;
        socket
            .send_to(packet, &SocketAddr::new(to, 0).into())
            .map(drop)
    }

    /// Whether an address is one of the shell's.
    fn is_shell(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => address == self.addresses.shell,
            IpAddr::V6(address) => address == self.addresses.shell6,
        }
    }
}

impl End for Outside {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.port.descriptor()
    }

    fn take(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(answer) = self.answers.borrow_mut().pop_front() {
            buffer[..answer.len()].copy_from_slice(&answer);
            return Ok(answer.len());
        }
        loop {
            let bytes = self.port.take(buffer)?;
            // The kernel announces itself to its neighbours, and these packets are not for the shell.
            if ends(&buffer[..bytes]).is_some_and(|(_, to)| self.is_shell(to)) {
                return Ok(bytes);
            }
        }
    }

    fn hand(&self, packet: &[u8]) -> io::Result<()> {
        let Some((from, to)) = ends(packet) else {
            return Ok(());
        };
        // Other packets stay in the shell: those for neighbours, and those that would claim another sender.
        if !self.is_shell(from) || !travels(to) {
            return Ok(());
        }
        if to == self.addresses.gateway6 {
            // Not by the raw socket. Linux 6.18 makes a route for each such packet of IPv6, which a server's connection keeps and which keeps the
            // device: closing it would wait until that connection ends.
            return self.port.hand(packet);
        }
        match self.send(packet, to) {
            Ok(()) => Ok(()),
            Err(error) => match error.raw_os_error().map(Errno::from_raw) {
                Some(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM) => {
                    Err(io::ErrorKind::WouldBlock.into())
                }
                // The kernel refuses the packet: an answer says why, as a router's would.
                cause => {
                    let answer = cause.and_then(|cause| refusal(packet, cause, &self.addresses));
                    let mut answers = self.answers.borrow_mut();
                    if answers.len() < ANSWERS {
                        answers.extend(answer);
                    }
                    Ok(())
                }
            },
        }
    }

    fn has_more(&self) -> bool {
        !self.answers.borrow().is_empty()
    }

    fn lost(&self) -> u64 {
        End::lost(&self.port)
    }
}

/// Source and destination of an IP packet.
pub(super) fn ends(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    fn at<const N: usize>(packet: &[u8], at: usize) -> Option<[u8; N]> {
        packet.get(at..at + N)?.try_into().ok()
    }
    match packet.first()? >> 4 {
        4 => {
            let address = |from| at::<4>(packet, from).map(|bytes| Ipv4Addr::from(bytes).into());
            Some((address(12)?, address(16)?))
        }
        6 => {
            let address = |from| at::<16>(packet, from).map(|bytes| Ipv6Addr::from(bytes).into());
            Some((address(8)?, address(24)?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_are_cut_have_no_ends() {
        let mut packet = [0; 40];
        for (version, header) in [(0x45, 20), (0x60, 40)] {
            packet[0] = version;
            assert!(ends(&packet[..header]).is_some());
            assert!((0..header).all(|length| ends(&packet[..length]).is_none()));
        }
        assert_eq!(ends(&[0x50; 60]), None);
    }
}
