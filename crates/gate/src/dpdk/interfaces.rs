//! Interfaces of the kernel that DPDK takes packets from by packet sockets, such as `net_af_packet0,iface=wan`.
//!
//! The kernel lets any number of processes do that, and each of them would send every packet on: a second gate or wire would let pass
//! what the first one drops. So a process [claims](crate::claimed) such an interface.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::libc;
use nix::net::if_::{InterfaceFlags, if_indextoname, if_nametoindex};
use nix::unistd::geteuid;

use super::devices::Device;
use super::error::DpdkError;
use crate::claimed::{self, Owner};

/// The interfaces that this process has, and their packet sockets.
#[derive(Debug)]
struct Taken {
    claims: Vec<Claim>,
    sockets: Vec<Socket>,
}

/// An interface of this process.
#[derive(Debug)]
struct Claim {
    interface: String,
    /// Its number, which no later interface has.
    index: u32,
    /// The kernel closes it with the process. None if a user who may not run the gate has one of this name.
    _socket: Option<UnixDatagram>,
}

/// A packet socket of DPDK. The kernel counts what it loses from one question to the next.
#[derive(Debug)]
struct Socket {
    fd: RawFd,
    lost: u64,
}

static TAKEN: Mutex<Taken> = Mutex::new(Taken {
    claims: Vec::new(),
    sockets: Vec::new(),
});

fn taken() -> MutexGuard<'static, Taken> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Claims the interfaces of these devices, before DPDK opens them.
///
/// # Errors
/// If there is no such interface, or another process has it.
pub(super) fn claim(devices: &[Device]) -> Result<(), DpdkError> {
    let mut claims = Vec::new();
    for device in devices {
        let Some(interface) = device.over() else {
            continue;
        };
        let index = if_nametoindex(interface).map_err(|_| DpdkError::NoInterface {
            interface: interface.to_owned(),
            device: device.device.clone(),
        })?;
        let bound = SocketAddr::from_abstract_name(claimed::name(interface))
            .and_then(|address| UnixDatagram::bind_addr(&address));
        let socket = match bound {
            Ok(socket) => Some(socket),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                match claimed::owner(interface) {
                    // It must not keep the gate from running.
                    Some(Owner { user, .. }) if user != geteuid().as_raw() => None,
                    owner => {
                        return Err(DpdkError::InUse {
                            interface: interface.to_owned(),
                            process: owner.map(|owner| owner.process),
                        });
                    }
                }
            }
            Err(source) => {
                return Err(DpdkError::Claim {
                    interface: interface.to_owned(),
                    source,
                });
            }
        };
        claims.push(Claim {
            interface: interface.to_owned(),
            index,
            _socket: socket,
        });
    }
    taken().claims = claims;
    Ok(())
}

/// Notes the packet sockets that DPDK has opened.
pub(super) fn opened() {
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten();
    let numbers = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let sockets = numbers
        .filter(|&fd| option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN) == Some(libc::AF_PACKET));
    taken().sockets = sockets.map(|fd| Socket { fd, lost: 0 }).collect();
}

/// An option of a file that may be a socket; none if it is no socket, or has another size.
fn option<T: Copy + Default>(fd: RawFd, level: i32, name: i32) -> Option<T> {
    let mut value = T::default();
    let mut size = size_of::<T>() as libc::socklen_t;
    // SAFETY: there is room for as many bytes as `size` says, and any bytes are a value: callers ask for numbers.
    let result = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &mut size) };
    (result == 0 && size as usize == size_of::<T>()).then_some(value)
}

/// Packets for which packet sockets had no room. Newer DPDK counts some of them itself, as those that a port missed: the kernel tells
/// each of them once.
pub(super) fn lost() -> u64 {
    let mut taken = taken();
    let each = taken.sockets.iter_mut().map(|socket| {
        // `struct tpacket_stats`: packets, and of these, those that were lost.
        let counted: Option<[u32; 2]> =
            option(socket.fd, libc::SOL_PACKET, libc::PACKET_STATISTICS);
        socket.lost += counted.map_or(0, |[_, lost]| u64::from(lost));
        socket.lost
    });
    each.sum()
}

/// Forgets the packet sockets, before DPDK closes them.
pub(super) fn closing() {
    taken().sockets.clear();
}

/// Gives up all interfaces.
pub(super) fn give_up() {
    taken().claims.clear();
}

/// The present name of a claimed interface; none if it was deleted since, also if there is another one with its name.
pub(super) fn now(interface: &str) -> Option<String> {
    let index = (taken().claims.iter())
        .find(|claim| claim.interface == interface)?
        .index;
    let name = if_indextoname(index).ok()?.into_string().ok()?;
    // If there is none, this version of nix gives a name without letters.
    Some(name).filter(|name| !name.is_empty())
}

/// Whether a claimed interface is up and has a link; none if the kernel does not tell.
pub(super) fn link(interface: &str) -> Option<bool> {
    let Some(name) = now(interface) else {
        return Some(false);
    };
    let mut all = nix::ifaddrs::getifaddrs().ok()?;
    let up = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
    let found = all.find(|one| one.interface_name == name);
    Some(found.is_some_and(|one| one.flags.contains(up)))
}
