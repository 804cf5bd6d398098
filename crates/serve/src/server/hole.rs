//! Bytes of files that the kernel moves from the page cache into a socket (`sendfile`), under a library for HTTP that only knows bytes in
//! memory.
//!
//! The body of a response gives the library a *hole*: a slice of memory that stands for a part of a file. The part is noted here, with the
//! connection. When the slice arrives at the socket, its address tells that it is a hole, and the kernel sends the part instead.
//!
//! The bytes of a hole must never reach a client. Only a connection without TLS has parts, and only its HTTP/1 gets holes. Writing a hole that
//! has no part is an error. A library that copies the bytes of a hole calls `Buf::advance` for them, and this panics unless the kernel sent
//! as many. So the connection ends before a copy can be written.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::sendfile;
use rustix::io::Errno;
use tokio::net::TcpStream;

use super::disk;

/// Bytes of the longest hole.
pub(super) const LONGEST: usize = 512 << 10;

/// Nobody reads them, but they need addresses that nothing else has.
static HOLE: LazyLock<Vec<u8>> = LazyLock::new(|| vec![0; LONGEST]);

/// A hole of this length, at most [`LONGEST`].
pub(super) fn of(length: usize) -> &'static [u8] {
    &HOLE[..length]
}

/// Whether a slice is a hole, or lies in one.
pub(super) fn is(slice: &[u8]) -> bool {
    HOLE.as_ptr_range().contains(&slice.as_ptr()) && !slice.is_empty()
}

/// The parts of files that a connection sends in place of holes.
#[derive(Debug, Default)]
pub(super) struct Parts(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    /// In the order of their holes.
    parts: VecDeque<Part>,
    /// Bytes that the kernel sent, and that the holes do not have behind them yet.
    sent: usize,
    /// A hole was dropped before its part was sent. From then on, the first part may belong to another hole than the first one.
    torn: bool,
}

#[derive(Debug)]
struct Part {
    file: Arc<File>,
    offset: u64,
    left: usize,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    All,
    /// The socket is full, and wakes those who wait for it when it has room.
    Full,
}

impl Parts {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next hole that is made, of this length, stands for the bytes of a file from this offset on.
    pub fn push(&self, file: Arc<File>, offset: u64, length: usize) {
        debug_assert!(length <= LONGEST);
        self.queue().parts.push_back(Part {
            file,
            offset,
            left: length,
        });
    }

    /// Sends the part of the first hole, of which this slice is the rest. `count` grows by what the socket takes, also before an error.
    pub fn send(&self, socket: &TcpStream, slice: &[u8], count: &mut usize) -> io::Result<Taken> {
        let mut queue = self.queue();
        let Queue { parts, sent, torn } = &mut *queue;
        let Some(part) = parts
            .front_mut()
            .filter(|part| !*torn && part.left == slice.len())
        else {
            return Err(io::Error::other("a hole has no part of a file"));
        };
        while part.left > 0 {
            // It advances the offset.
            let taken = match sendfile(socket, &*part.file, Some(&mut part.offset), part.left) {
                Err(Errno::INTR) => continue,
                taken => taken?,
            };
            if taken == 0 {
                return Err(disk::shortened());
            }
            part.left -= taken;
            *sent += taken;
            *count += taken;
            if part.left > 0 && is_full(socket) {
                return Ok(Taken::Full);
            }
        }
        parts.pop_front();
        Ok(Taken::All)
    }

    /// The first holes have this many bytes behind them.
    pub fn passed(&self, count: usize) {
        let mut queue = self.queue();
        let sent = queue.sent.checked_sub(count);
        queue.sent = sent.expect("only the kernel takes the bytes of holes");
    }

    /// Bytes that the kernel has not sent yet.
    pub fn unsent(&self) -> u64 {
        let queue = self.queue();
        queue.parts.iter().map(|part| part.left as u64).sum()
    }

    /// A hole is dropped before all of it was sent, because its connection ends.
    pub fn tear(&self) {
        self.queue().torn = true;
    }
}

/// Whether a socket takes nothing now. If so, the kernel notes that somebody waits, and wakes them when there is room. A write that ends
/// early does not tell: the file may have ended, or the disk failed.
fn is_full(socket: &TcpStream) -> bool {
    let mut watched = [PollFd::new(socket, PollFlags::OUT)];
    let now = Timespec::default();
    matches!(poll(&mut watched, Some(&now)), Ok(0))
}
