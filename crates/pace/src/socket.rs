//! The kernel's figures of a TCP socket, and the rate at which the kernel paces one (`SO_MAX_PACING_RATE`).
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// Sets a socket option from bytes.
pub(crate) fn set_option(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &[u8],
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: the pointer and the length are those of `value`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_ptr().cast(),
            length,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads a socket option into bytes, and says how many there are.
fn get_option(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &mut [u8],
) -> io::Result<usize> {
    let mut length = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: the pointer and the length are those of `value`; the kernel writes no more than that.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(length as usize)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The kernel's number for this socket, which no other socket ever gets.
pub(crate) fn cookie(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes = [0; 8];
    get_option(socket, libc::SOL_SOCKET, libc::SO_COOKIE, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Bytes that were written and are not acknowledged yet.
///
/// # Errors
/// If it is no TCP socket.
pub fn unacknowledged(socket: impl AsFd) -> io::Result<u32> {
    queued(socket.as_fd(), libc::TIOCOUTQ)
}

/// Bytes that were written and are not sent yet.
///
/// # Errors
/// If it is no TCP socket.
pub fn unsent(socket: impl AsFd) -> io::Result<u32> {
    // include/uapi/linux/sockios.h
    const SIOCOUTQNSD: libc::Ioctl = 0x894b;
    queued(socket.as_fd(), SIOCOUTQNSD)
}

/// `which` is TIOCOUTQ (SIOCOUTQ) or SIOCOUTQNSD.
fn queued(socket: BorrowedFd<'_>, which: libc::Ioctl) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: both write one int, and `bytes` is one.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), which, &raw mut bytes) };
    if result == 0 {
        Ok(u32::try_from(bytes).unwrap_or(0))
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Lets the kernel pace the socket at this many bytes per second, or as fast as it can (`None`).
///
/// # Errors
/// If the kernel refuses.
pub fn set_max_pacing_rate(socket: impl AsFd, bytes_per_second: Option<u64>) -> io::Result<()> {
    let rate = bytes_per_second.unwrap_or(u64::MAX);
    set_option(
        socket.as_fd(),
        libc::SOL_SOCKET,
        libc::SO_MAX_PACING_RATE,
        &rate.to_ne_bytes(),
    )
}

/// The kernel's figures of a TCP connection (`TCP_INFO`).
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct TcpInfo {
    /// Congestion window, in segments.
    pub window: u32,
    /// Largest segment, in bytes of payload.
    pub mss: u32,
    /// Smoothed round-trip time, in µs; 0: not known.
    pub srtt: u32,
    /// The recent minimum of the round-trip time, in µs.
    pub min_rtt: u32,
    /// Segments retransmitted.
    pub retransmitted: u32,
    /// Segments with data sent, retransmissions included.
    pub sent: u32,
    /// Bytes acknowledged.
    pub acked: u64,
}

/// Reads the kernel's figures of a connection.
///
/// # Errors
/// If it is no TCP socket.
pub fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let socket = socket.as_fd();
    let mut bytes = [0; 256];
    let length = get_option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)?;
    // The layout is fixed (include/uapi/linux/tcp.h); an older kernel gives fewer bytes, and the
    // rest is zero.
    const BYTES_ACKED: usize = 120;
    if length < 104 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    let word = |at: usize| {
        let mut word = [0; mem::size_of::<u32>()];
        word.copy_from_slice(&bytes[at..at + 4]);
        u32::from_ne_bytes(word)
    };
    let mut acked = [0; 8];
    acked.copy_from_slice(&bytes[BYTES_ACKED..BYTES_ACKED + 8]);
    Ok(TcpInfo {
        mss: word(16),
        srtt: word(68),
        min_rtt: word(148),
        window: word(80),
        retransmitted: word(100),
        sent: word(156),
        acked: u64::from_ne_bytes(acked),
    })
}

/// Calls the function for each of this process's open files.
pub(crate) fn each_open(mut call: impl FnMut(BorrowedFd<'_>)) -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/thread-self/fd")? {
        let name = entry?.file_name();
        let Some(number @ 0..) = name.to_str().and_then(|name| name.parse::<RawFd>().ok()) else {
            continue;
        };
        // SAFETY: not -1. If another thread has closed the file, the system call fails. If the number
        // belongs to another file now, the call asks that file what it is.
        call(unsafe { BorrowedFd::borrow_raw(number) });
    }
    Ok(())
}

/// The rate at which the kernel paces the socket at most, in bytes per second; all ones: no bound.
///
/// # Errors
/// If the kernel refuses.
pub fn max_pacing_rate(socket: impl AsFd) -> io::Result<u64> {
    let mut bytes = [0; 8];
    get_option(
        socket.as_fd(),
        libc::SOL_SOCKET,
        libc::SO_MAX_PACING_RATE,
        &mut bytes,
    )?;
    Ok(u64::from_ne_bytes(bytes))
}
