//! The ring in which programs of the kernel leave records, as memory that this process reads.
//!
//! Documentation/bpf/ringbuf.rst of Linux describes it: two positions that only grow, each on a page of its own, and records with a
//! header of 8 bytes. The data is mapped twice in a row, so no record is in two pieces.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::sys::{Access, Memory};

/// In the length of a record: it is not complete yet, or it is to be left out. <linux/bpf.h>
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER: u64 = 8;

/// A ring, from its consumer's side.
#[derive(Debug)]
pub(crate) struct Records {
    map: OwnedFd,
    /// The page that this process writes.
    consumer: Memory,
    /// The kernel's page, and the data twice.
    producer: Memory,
    page: usize,
    size: u64,
    /// Where the next record is.
    at: u64,
}

impl Records {
    /// Maps a ring of this many bytes of data.
    pub(crate) fn map(ring: OwnedFd, size: u32) -> io::Result<Self> {
        // SAFETY: no memory is passed.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = usize::try_from(page).map_err(io::Error::other)?;
        let fd = ring.as_fd();
        let mut this = Self {
            consumer: Memory::map(fd, page, 0, Access::Write)?,
            producer: Memory::map(fd, page + 2 * size as usize, page, Access::Read)?,
            map: ring,
            page,
            size: size.into(),
            at: 0,
        };
        this.at = this.position(&this.consumer).load(Ordering::Relaxed);
        Ok(this)
    }

    fn position<'a>(&self, memory: &'a Memory) -> &'a AtomicU64 {
        // SAFETY: the memory begins with a position, and is aligned to a page.
        unsafe { &*memory.start().cast() }
    }

    /// How many bytes of data there can be.
    pub(crate) fn size(&self) -> usize {
        self.size as usize
    }

    /// How many of them wait.
    pub(crate) fn waiting(&self) -> usize {
        let end = self.position(&self.producer).load(Ordering::Acquire);
        end.wrapping_sub(self.at).min(self.size) as usize
    }

    /// The next record, if it is complete. The kernel gets its place back at [`give_back`](Self::give_back).
    pub(crate) fn next(&mut self) -> Option<&[u8]> {
        loop {
            if self.waiting() < HEADER as usize {
                return None;
            }
            let offset = self.page + (self.at % self.size) as usize;
            // SAFETY: a record's header is inside the data and aligned to 8 bytes, as all lengths are rounded up to that.
            let header = unsafe { &*self.producer.start().add(offset).cast::<AtomicU32>() };
            let length = header.load(Ordering::Acquire);
            if length & BUSY != 0 {
                return None;
            }
            let bytes = length & !DISCARDED;
            self.at += (u64::from(bytes) + HEADER).next_multiple_of(8);
            if length & DISCARDED == 0 && u64::from(bytes) <= self.size {
                // SAFETY: the record is inside the data, whose second mapping has what is behind the end of the first one. The
                // kernel does not write to it until it is given back, which takes `&mut self`, when nobody holds these bytes.
                let start = unsafe { self.producer.start().add(offset + HEADER as usize) };
                return Some(unsafe { slice::from_raw_parts(start, bytes as usize) });
            }
        }
    }

    /// Gives the kernel the place of all records that were taken.
    pub(crate) fn give_back(&mut self) {
        self.position(&self.consumer)
            .store(self.at, Ordering::Release);
    }
}

impl AsFd for Records {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}
