//! Capture files: they appear under their names when they are complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use tidegate_lab::capture::{CaptureWriter, Captures};
use tidegate_lab::plan::ElementKind;
use tidegate_limiter::Nanos;
use tidegate_trace::read::LinkType;
use tidegate_trace::write::{PcapWriter, Resolution};

use crate::TestbedError;

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

/// A file being written, under another name until it is complete.
#[derive(Debug)]
struct CaptureFile {
    file: PathBuf,
    partial: PathBuf,
    out: BufWriter<File>,
}

impl CaptureFile {
    fn create(file: &Path) -> io::Result<Self> {
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let partial = file.with_file_name(name);
        Ok(Self {
            file: file.to_owned(),
            out: BufWriter::with_capacity(1 << 16, File::create(&partial)?),
            partial,
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
        fs::rename(&self.partial, &self.file)
    }
}

impl Drop for CaptureFile {
    fn drop(&mut self) {
        // The file was renamed unless something failed. Then no incomplete file stays.
        let _ = fs::remove_file(&self.partial);
    }
}

/// Threads that write what the taps of a path in real time see. Writing may wait for a disk, but
/// the thread that moves packets must not wait.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    /// Elements that are no taps have none.
    taps: Vec<Option<(Sender<Seen>, u32)>>,
    writers: Vec<Writing>,
}

/// A packet that passed a tap: its time, the bytes that are kept, and its length.
type Seen = (Nanos, Vec<u8>, u32);
/// A file that is being written, and the channel to its thread.
type Writing = (PathBuf, Sender<Seen>, JoinHandle<io::Result<()>>);

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
            let same = recording.writers.iter().find(|writer| writer.0 == *file);
            if let Some((_, to, _)) = same {
                let tap = (to.clone(), snaplen);
                recording.taps.push(Some(tap));
                continue;
            }
            let failed = |error| TestbedError::Capture(file.clone(), error);
            let out = CaptureFile::create(file).map_err(failed)?;
            let mut out = PcapWriter::new(out, link, Resolution::Nanos).map_err(failed)?;
            let (to, from): (_, Receiver<Seen>) = mpsc::channel();
            recording.taps.push(Some((to.clone(), snaplen)));
            let writer = thread::spawn(move || {
                for (at, kept, length) in from {
                    out.frame(at, &kept, length)?;
                }
                Box::new(out.finish()?).finish()
            });
            recording.writers.push((file.clone(), to, writer));
        }
        match unused.next() {
            Some(_) => Err(uneven(files.len())),
            None => Ok(recording),
        }
    }

    /// Writes a packet that passed the tap of this index among the elements.
    pub(crate) fn write(&self, element: usize, at: Nanos, mut bytes: Vec<u8>) {
        if let Some(Some((tap, snaplen))) = self.taps.get(element) {
            let length = bytes.len() as u32;
            bytes.truncate(*snaplen as usize);
            // This fails only if writing has failed, which `finish` reports.
            let _ = tap.send((at, bytes, length));
        }
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// If a capture could not be written.
    pub(crate) fn finish(self) -> Result<(), TestbedError> {
        drop(self.taps);
        for (file, to, writer) in self.writers {
            // The thread ends when nobody can send any more.
            drop(to);
            let written = writer.join();
            let written = written.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            written.map_err(|error| TestbedError::Capture(file, error))?;
        }
        Ok(())
    }
}

fn uneven(files: usize) -> TestbedError {
    TestbedError::Unsupported(format!("{files} capture files for another number of taps"))
}
