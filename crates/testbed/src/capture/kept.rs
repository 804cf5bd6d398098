//! A capture in pcap format of which the whole packets stay if it cannot be written to its end, as on a full disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::Unfinished;

/// Bytes of a file's header, and of a packet's. They are those of pcap with any resolution.
const FILE_HEADER: usize = 24;
const PACKET_HEADER: usize = 16;

/// A capture that is being written.
#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
    file: File,
    unfinished: Unfinished,
    /// Bytes of the file so far.
    length: u64,
    /// Those of its header and of whole packets.
    whole: u64,
    /// Where the next packet begins, in bytes from the beginning of the next piece.
    next: usize,
}

impl Kept {
    /// A new one, which is to be called so when it has ended.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let (file, unfinished) = Unfinished::create(path)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            unfinished,
            length: 0,
            whole: 0,
            next: FILE_HEADER,
        })
    }

    /// Adds a piece, which has headers of packets in whole: only what follows them may be in the next one.
    pub(super) fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.file.write_all(piece)?;
        while let Some(rest) = piece.get(self.next..) {
            self.whole = self.length + self.next as u64;
            let Some(header) = rest.first_chunk::<PACKET_HEADER>() else {
                break;
            };
            let [_, _, _, _, _, _, _, _, kept @ .., _, _, _, _] = *header;
            self.next += PACKET_HEADER + u32::from_le_bytes(kept) as usize;
        }
        self.next -= piece.len();
        self.length += piece.len() as u64;
        Ok(())
    }

    /// Gives the capture its name, also if an error ended it: then with the whole packets before.
    ///
    /// # Errors
    /// The one that ended it, or why it cannot have its name. In the latter case no file has the name.
    pub(super) fn finish(mut self, written: io::Result<()>) -> io::Result<()> {
        let placed = match written {
            Ok(()) => self.unfinished.place(&self.file),
            // There is not even a header.
            Err(error) if self.whole == 0 => Err(error),
            Err(error) => {
                let cut = self.file.set_len(self.whole);
                match cut.and_then(|()| self.unfinished.place(&self.file)) {
                    Ok(()) => {
                        let what = format!("{error}. It has the packets before that only");
                        return Err(io::Error::new(error.kind(), what));
                    }
                    Err(_) => Err(error),
                }
            }
        };
        if placed.is_err() {
            // That of an earlier run would be taken for this one's.
            let _ = fs::remove_file(&self.path);
        }
        placed
    }
}
