//! Where the bytes of captures come from: files, or what Python opens.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tidegate_trace::read::{Capture, Nanos};

/// Bytes that Python is asked for at once: each question takes the interpreter's lock.
const AT_ONCE: usize = 1 << 20;

/// A file of a capture.
pub struct Piece {
    /// Its name in rows and errors.
    pub name: String,
    source: Source,
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
        let piece = |(name, source)| Piece { name, source };
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
        let count = Arc::clone(count);
        Ok(match &self.source {
            Source::File(path) => Box::new(Counted {
                source: File::open(path)?,
                count,
            }),
            Source::Opened(open) => {
                let file = Python::attach(|py| open.call0(py)).map_err(io::Error::other)?;
                let source = Counted {
                    source: Opened(file),
                    count,
                };
                Box::new(BufReader::with_capacity(AT_ONCE, source))
            }
        })
    }

    fn first_packet(&self) -> Option<Nanos> {
        let mut capture = Capture::new(self.open(&Arc::default()).ok()?).ok()?;
        Some(capture.frame().ok()??.at)
    }
}

struct Counted<R> {
    source: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
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
