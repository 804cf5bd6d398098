//! Where the bytes of captures come from: files, or what Python opens.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tidegate_trace::folder;
use tidegate_trace::read::{Capture, Nanos};

/// The captures in a folder and the folders in it. A folder that cannot be read is one of them: to open it says why.
#[pyfunction]
pub fn captures_in(py: Python<'_>, path: PathBuf) -> Vec<PathBuf> {
    let found = py.detach(|| folder::captures_in(&path));
    found
        .into_iter()
        .map(|capture| capture.unwrap_or_else(|unreadable| unreadable.folder))
        .collect()
}

/// Whether a file of this name in a folder is taken for a capture.
#[pyfunction]
pub fn named_like_a_capture(name: &str) -> bool {
    folder::has_capture_name(Path::new(name))
}

/// Bytes that Python is asked for at once: each question takes the interpreter's lock.
const AT_ONCE: usize = 1 << 20;

/// A file of a capture.
pub struct Piece {
    /// Its name in rows and errors.
    pub name: String,
    source: Source,
    /// The system's number of the error that ended the last reading, or 0.
    errno: Arc<AtomicI32>,
}

#[derive(FromPyObject)]
pub enum Source {
    File(PathBuf),
    /// A function that opens it, and gives something with `read(bytes)`.
    Opened(Py<PyAny>),
}

/// A capture in one file, or in several that follow each other.
pub struct Pieces(Vec<Piece>);

impl Pieces {
    /// The pieces in the order of their first packets, as `tidegate detect --join` takes them.
    pub fn new(pieces: Vec<(String, Source)>) -> Self {
        let piece = |(name, source)| Piece {
            name,
            source,
            errno: Arc::default(),
        };
        Self(pieces.into_iter().map(piece).collect())
    }

    /// Its name in rows.
    pub fn name(&self) -> String {
        match &self.0[..] {
            [] => String::new(),
            [only] => only.name.clone(),
            [first, .., last] => format!("{} to {}", first.name, last.name),
        }
    }

    /// In the order of their first packets. Those that have none, or cannot be read, come first.
    pub fn in_order(&self) -> Vec<&Piece> {
        let mut pieces: Vec<&Piece> = self.0.iter().collect();
        if pieces.len() > 1 {
            pieces.sort_by_cached_key(|piece| piece.first_packet());
        }
        pieces
    }
}

impl Piece {
    /// Opens it. The bytes that are read of it are added to the count.
    ///
    /// # Errors
    /// What the system or Python says.
    pub fn open(&self, count: &Arc<AtomicU64>) -> io::Result<Box<dyn Read + Send>> {
        let (count, errno) = (Arc::clone(count), Arc::clone(&self.errno));
        errno.store(0, Ordering::Relaxed);
        Ok(match &self.source {
            Source::File(path) => Box::new(Counted {
                source: File::open(path)?,
                count,
                errno,
            }),
            Source::Opened(open) => {
                let file = Python::attach(|py| open.call0(py)).map_err(io::Error::other)?;
                let source = Counted {
                    source: Opened(file),
                    count,
                    errno,
                };
                Box::new(BufReader::with_capacity(AT_ONCE, source))
            }
        })
    }

    /// The system's number of the error that ended the last reading, if one did.
    pub fn errno(&self) -> Option<i32> {
        Some(self.errno.load(Ordering::Relaxed)).filter(|errno| *errno != 0)
    }

    fn first_packet(&self) -> Option<Nanos> {
        let mut capture = Capture::new(self.open(&Arc::default()).ok()?).ok()?;
        Some(capture.frame().ok()??.at)
    }
}

struct Counted<R> {
    source: R,
    count: Arc<AtomicU64>,
    errno: Arc<AtomicI32>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let note = |error: &io::Error| {
            let errno = error.raw_os_error().unwrap_or(0);
            self.errno.store(errno, Ordering::Relaxed);
        };
        let count = self.source.read(buffer).inspect_err(note)?;
        self.count.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// A file of Python's. The thread that takes the rows must not hold the interpreter's lock while it waits for them.
struct Opened(Py<PyAny>);

impl Read for Opened {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Python::attach(|py| {
            let read = self.0.call_method1(py, "read", (buffer.len(),))?;
            let bytes = read.bind(py).cast::<PyBytes>().map_err(PyErr::from)?;
            let bytes = bytes.as_bytes();
            let fitting = buffer.get_mut(..bytes.len()).ok_or_else(|| {
                pyo3::exceptions::PyValueError::new_err(
                    "read gave more bytes than it was asked for",
                )
            })?;
            fitting.copy_from_slice(bytes);
            Ok(bytes.len())
        })
        .map_err(|error: PyErr| io::Error::other(error))
    }
}
