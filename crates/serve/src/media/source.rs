//! Where the bytes of a video come from.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::error::MediaError;

/// Bytes that can be read at any place.
pub trait Source {
    /// Reads at `offset`; fewer bytes than asked for at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Its length in bytes, including bytes that cannot be read yet.
    fn length(&self) -> io::Result<u64>;
}

impl Source for File {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match FileExt::read_at(self, &mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

/// The beginning of a file that a player is still fetching.
#[derive(Debug, Clone, Copy)]
pub struct Prefix<'a> {
    /// The bytes that have arrived.
    pub bytes: &'a [u8],
    /// How long the whole file is, in bytes.
    pub length: u64,
}

impl Source for Prefix<'_> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.bytes.get(offset..))
            .unwrap_or(&[]);
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.length)
    }
}

/// Reads exactly this many bytes, or reports that the headers end here.
pub(super) fn bytes<const N: usize>(
    source: &impl Source,
    offset: u64,
) -> Result<[u8; N], MediaError> {
    let mut buffer = [0; N];
    match source.read_at(offset, &mut buffer)? {
        n if n == N => Ok(buffer),
        _ => Err(MediaError::NoDuration),
    }
}
