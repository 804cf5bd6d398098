//! Bytes of files: at once if they are in memory (the page cache), otherwise by a thread that may wait for the disk. A hop to such a
//! thread and back costs more than to read a block.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::sync::Arc;

use hyper::body::Bytes;
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use tokio::task::JoinHandle;

use crate::media::Source;

/// Bytes of a buffer that is used again. Smaller pieces get memory of their size.
pub(super) const BLOCK: usize = 64 << 10;
/// Buffers that a thread keeps for the next reads.
const KEPT: usize = 8;
/// Of the bytes that should be in memory, one in this number is looked at. The kernel reads as many or more ahead, and what it reads together
/// mostly leaves memory together. Blocks are smaller, so that one look is enough for two of the largest.
pub(super) const STRIDE: usize = 128 << 10;

/// A file has fewer bytes than when it was opened.
#[derive(Debug, thiserror::Error)]
#[error("the file became shorter while it was sent")]
pub(super) struct Shortened;

/// The error for it.
pub(super) fn shortened() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, Shortened)
}

/// Whether an answer may wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    Never,
    ForDisk,
}

thread_local! {
    static FREE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A block in memory that goes back to its thread's free ones.
struct Block {
    bytes: Vec<u8>,
    length: usize,
}

impl Block {
    fn take() -> Vec<u8> {
        let free = FREE.with_borrow_mut(Vec::pop);
        free.unwrap_or_else(|| vec![0; BLOCK])
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        // It fails if the thread ends.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < KEPT {
                free.push(bytes);
            }
        });
    }
}

/// Up to this number of bytes, at most [`BLOCK`], if they are in memory; fewer if only the first of them are. None at the end of the file.
/// `None` if the disk must be waited for, or if the file system cannot tell: tmpfs and some of networks.
pub(super) fn read_now(file: &File, offset: u64, count: usize) -> Option<Bytes> {
    if count <= BLOCK / 4 {
        let mut bytes = vec![0; count];
        let length = at_once(file, offset, &mut bytes)?;
        bytes.truncate(length);
        return Some(bytes.into());
    }
    let bytes = Block::take();
    let mut block = Block { bytes, length: 0 };
    block.length = at_once(file, offset, &mut block.bytes[..count.min(BLOCK)])?;
    Some(Bytes::from_owner(block))
}

fn at_once(file: &File, offset: u64, buffer: &mut [u8]) -> Option<usize> {
    loop {
        let into = &mut [IoSliceMut::new(buffer)];
        match preadv2(file, into, offset, ReadWriteFlags::NOWAIT) {
            Ok(length) => return Some(length),
            Err(Errno::INTR) => {}
            // Errors of the disk are met again by the thread that waits for it.
            Err(_) => return None,
        }
    }
}

/// How many of a file's bytes from an offset on are in memory, as far as one in [`STRIDE`] tells. Only `count` bytes are looked at. None are also if
/// the file system cannot tell, or the file ends before.
pub(super) fn in_memory(file: &File, offset: u64, count: usize) -> usize {
    let is = |at: usize| at_once(file, offset + at as u64, &mut [0]) == Some(1);
    let mut known = 0;
    while known < count {
        let next = count.min(known + STRIDE);
        if !is(next - 1) {
            break;
        }
        known = next;
    }
    known
}

/// This number of bytes, or fewer at the end of the file, read by a thread that may wait for the disk.
pub(super) fn read(file: Arc<File>, offset: u64, count: usize) -> JoinHandle<io::Result<Bytes>> {
    tokio::task::spawn_blocking(move || {
        let mut buffer = vec![0; count];
        let length = Source::read_at(&*file, offset, &mut buffer)?;
        buffer.truncate(length);
        Ok(buffer.into())
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn bytes_in_memory_are_read_at_once() {
        let mut file = tempfile::tempfile().unwrap();
        let text: Vec<u8> = (0..300_000_u32).map(|at| at as u8).collect();
        file.write_all(&text).unwrap();
        let Some(first) = read_now(&file, 0, usize::MAX) else {
            // The file system of temporary files cannot tell.
            return;
        };
        let is = |read: Option<Bytes>, from: usize, to: usize| {
            assert!(read.unwrap() == text[from..to], "{from} to {to}");
        };
        assert!(first == text[..BLOCK]);
        is(read_now(&file, 299_990, 1_000), 299_990, 300_000);
        is(read_now(&file, 299_990, BLOCK), 299_990, 300_000);
        assert!(read_now(&file, 300_000, 10).unwrap().is_empty());
        // Buffers that are used again have what was read last.
        drop(first);
        is(read_now(&file, 5, 50_000), 5, 50_005);
    }

    #[test]
    fn what_is_in_memory_is_known_by_pieces() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 300_000]).unwrap();
        if in_memory(&file, 0, 1) == 0 {
            // The file system of temporary files cannot tell.
            return;
        }
        assert_eq!(in_memory(&file, 0, 300_000), 300_000);
        assert_eq!(in_memory(&file, 299_999, 1), 1);
        assert_eq!(in_memory(&file, 7, 0), 0);
        // The file ends before.
        assert_eq!(in_memory(&file, 0, 300_001), 2 * STRIDE);
        assert_eq!(in_memory(&file, 300_000, 10), 0);
        file.sync_all().unwrap();
        let from = STRIDE as u64;
        // The kernel keeps pages that somebody else is busy with.
        let forgets = (0..1_000).any(|_| {
            rustix::fs::fadvise(&file, from, None, rustix::fs::Advice::DontNeed).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(5));
            in_memory(&file, 0, 300_000) < 300_000
        });
        assert!(forgets);
    }
}
