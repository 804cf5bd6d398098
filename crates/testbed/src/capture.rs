//! Capture files: they appear under their names when they are complete.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use tidegate_lab::capture::{CaptureWriter, Captures};
use tidegate_lab::plan::ElementKind;
use tidegate_limiter::Nanos;
use tidegate_trace::read::LinkType;
use tidegate_trace::write::{PcapWriter, Resolution};

use crate::TestbedError;

mod kept;
mod unfinished;

use kept::Kept;
pub use unfinished::Unfinished;

#[cfg(test)]
mod tests;

/// A folder for the captures of simulations.
#[derive(Debug, Clone)]
pub struct CaptureFolder(PathBuf);

impl CaptureFolder {
    /// An existing folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// The file of the capture of this name.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Captures for CaptureFolder {
    fn create(&self, name: &str) -> io::Result<Box<dyn CaptureWriter>> {
        Ok(Box::new(CaptureFile::create(&self.file(name))?))
    }

    fn describe(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }
}

/// A file being written.
#[derive(Debug)]
struct CaptureFile {
    out: BufWriter<File>,
    unfinished: Unfinished,
}

impl CaptureFile {
    fn create(file: &Path) -> io::Result<Self> {
        let (file, unfinished) = Unfinished::create(file)?;
        Ok(Self {
            out: BufWriter::with_capacity(1 << 16, file),
            unfinished,
        })
    }
}

impl Write for CaptureFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl CaptureWriter for CaptureFile {
    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.out.flush()?;
        self.unfinished.place(self.out.get_ref())
    }
}

/// What the taps of a path in real time see, and threads that write it. Writing may wait for a disk, but the thread that moves packets must
/// not wait.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    /// The file and the snapshot length of each element; elements that are no taps have none.
    taps: Vec<Option<(usize, u32)>>,
    writings: Vec<Writing>,
}

/// A file that is being written.
#[derive(Debug)]
struct Writing {
    file: PathBuf,
    out: PcapWriter<Relay>,
    /// Why a packet could not be written first.
    failed: Option<io::Error>,
    thread: JoinHandle<io::Result<()>>,
}

/// Bytes that a [`Relay`] passes on at a time.
const PIECE: usize = 1 << 16;

/// Passes bytes on to a thread, many packets at a time, so that it need not be woken for each. What is written at once stays in one piece. The
/// thread gives the memory back instead of freeing it, during which the thread of the packets could not allocate any.
#[derive(Debug)]
struct Relay {
    piece: Vec<u8>,
    full: Sender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
}

impl Relay {
    /// What is sent to the first channel should come back by the second.
    fn new(full: Sender<Vec<u8>>, empty: Receiver<Vec<u8>>) -> Self {
        Self {
            piece: Vec::with_capacity(PIECE),
            full,
            empty,
        }
    }
}

impl Write for Relay {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.len() + bytes.len() > PIECE {
            self.flush()?;
        }
        self.piece.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let next = self.empty.try_recv();
        let next = next.unwrap_or_else(|_| Vec::with_capacity(PIECE));
        // This fails only if writing has failed, which the thread returns.
        let _ = self.full.send(mem::replace(&mut self.piece, next));
        Ok(())
    }
}

impl Recording {
    /// Opens a file for each tap among the elements, in their order. Taps with the same file write it together.
    ///
    /// # Errors
    /// If there are not as many files as taps, or one cannot be written.
    pub(crate) fn new<'a>(
        elements: impl Iterator<Item = &'a ElementKind>,
        files: &[PathBuf],
        link: LinkType,
    ) -> Result<Self, TestbedError> {
        let mut recording = Self::default();
        let mut unused = files.iter();
        for element in elements {
            let ElementKind::Tap { snaplen } = *element else {
                recording.taps.push(None);
                continue;
            };
            let file = unused.next().ok_or_else(|| uneven(files.len()))?;
            let mut writings = recording.writings.iter();
            let index = match writings.position(|writing| writing.file == *file) {
                Some(same) => same,
                None => {
                    let writing = Writing::new(file, link);
                    let failed = |error| TestbedError::Capture(vec![(file.clone(), error)]);
                    recording.writings.push(writing.map_err(failed)?);
                    recording.writings.len() - 1
                }
            };
            recording.taps.push(Some((index, snaplen)));
        }
        match unused.next() {
            Some(_) => Err(uneven(files.len())),
            None => Ok(recording),
        }
    }

    /// Writes a packet that passed the tap of this index among the elements.
    pub(crate) fn write(&mut self, element: usize, at: Nanos, bytes: &[u8]) {
        if let Some(&Some((index, snaplen))) = self.taps.get(element) {
            let writing = &mut self.writings[index];
            let kept = &bytes[..bytes.len().min(snaplen as usize)];
            let written = writing.out.frame(at, kept, bytes.len() as u32);
            writing.failed = writing.failed.take().or(written.err());
        }
    }

    /// How many captures can no longer be written.
    pub(crate) fn failed(&self) -> usize {
        // Their threads end otherwise only when all is written.
        let failed = |writing: &&Writing| writing.thread.is_finished();
        self.writings.iter().filter(failed).count()
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// If a capture could not be written to its end. It has the whole packets before the failure then, if there are any.
    pub(crate) fn finish(self) -> Result<(), TestbedError> {
        let finished = self.writings.into_iter().filter_map(|writing| {
            let file = writing.file.clone();
            Some((file, writing.finish().err()?))
        });
        let failed: Vec<_> = finished.collect();
        match failed.is_empty() {
            true => Ok(()),
            false => Err(TestbedError::Capture(failed)),
        }
    }
}

impl Writing {
    fn new(file: &Path, link: LinkType) -> io::Result<Self> {
        let mut kept = Kept::create(file)?;
        let (full, pieces): (_, Receiver<Vec<u8>>) = mpsc::channel();
        let (back, empty) = mpsc::channel();
        let out = PcapWriter::new(Relay::new(full, empty), link, Resolution::Nanos)?;
        let thread = thread::spawn(move || {
            let written = pieces.into_iter().try_for_each(|mut piece| {
                kept.write(&piece)?;
                piece.clear();
                // Nobody takes it at the end.
                let _ = back.send(piece);
                Ok(())
            });
            kept.finish(written)
        });
        Ok(Self {
            file: file.to_owned(),
            out,
            failed: None,
            thread,
        })
    }

    fn finish(self) -> io::Result<()> {
        // The thread ends when nobody can send any more.
        drop(self.out.finish()?);
        let written = self.thread.join();
        written.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        self.failed.map_or(Ok(()), Err)
    }
}

fn uneven(files: usize) -> TestbedError {
    TestbedError::Unsupported(format!("{files} capture files for another number of taps"))
}
