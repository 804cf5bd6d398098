//! Interfaces of the kernel that DPDK takes packets from by packet sockets, such as `net_af_packet0,iface=wan`.
//!
//! The kernel lets any number of processes do that, and each of them would send every packet on: a second gate or wire would let pass
//! what the first one drops. So a process claims such an interface by a socket with its name, which a network namespace has once, and
//! which the kernel closes with the process.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::libc;
use nix::net::if_::{InterfaceFlags, if_nametoindex};
use nix::unistd::geteuid;

use super::devices::Device;
use super::error::DpdkError;

/// The interfaces that this process has, and their packet sockets.
#[derive(Debug)]
struct Taken {
    claims: Vec<UnixDatagram>,
    sockets: Vec<Socket>,
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
        if if_nametoindex(interface).is_err() {
            return Err(DpdkError::NoInterface {
                interface: interface.to_owned(),
                device: device.device.clone(),
            });
        }
        let name = format!("tidegate/dpdk/{interface}");
        let bound = SocketAddr::from_abstract_name(&name)
            .and_then(|address| UnixDatagram::bind_addr(&address));
        match bound {
            Ok(claim) => claims.push(claim),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => match owner(&name) {
                // It must not keep the gate from running.
                Some((_, user)) if user != geteuid().as_raw() => {}
                owner => {
                    return Err(DpdkError::InUse {
                        interface: interface.to_owned(),
                        process: owner.map(|(process, _)| process),
                    });
                }
            },
            Err(source) => {
                return Err(DpdkError::Claim {
                    interface: interface.to_owned(),
                    source,
                });
            }
        }
    }
    taken().claims = claims;
    Ok(())
}

/// The process that has the socket with this name, and its user. Processes of other containers are not seen.
fn owner(name: &str) -> Option<(u32, u32)> {
    let sockets = fs::read_to_string("/proc/net/unix").ok()?;
    let mut lines = sockets.lines().map(str::split_whitespace);
    // Num RefCount Protocol Flags Type St Inode Path
    let inode = lines.find_map(|words| {
        let words: Vec<&str> = words.collect();
        (words.get(7)?.strip_prefix('@')? == name).then_some(words[6])
    })?;
    let socket = format!("socket:[{inode}]");
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let process = entry.file_name().to_str()?.parse().ok()?;
        let mut files = fs::read_dir(entry.path().join("fd")).ok()?.flatten();
        let has =
            files.any(|file| fs::read_link(file.path()).is_ok_and(|to| to.as_os_str() == &*socket));
        Some((process, entry.metadata().ok()?.uid())).filter(|_| has)
    })
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

/// Whether an interface is up and has a link; none if the kernel does not tell.
pub(super) fn link(interface: &str) -> Option<bool> {
    let mut all = nix::ifaddrs::getifaddrs().ok()?;
    let up = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
    let found = all.find(|one| one.interface_name == interface);
    // One that is gone has none.
    Some(found.is_some_and(|one| one.flags.contains(up)))
}
