//! What is wrong with a capture, as an exception.

use std::io;
use std::path::Path;

use pyo3::prelude::*;
use tidegate_trace::read::ReadError;

/// Why a capture could not be read, or not to its end.
#[derive(Debug, Clone)]
pub struct Problem {
    file: String,
    /// Where in the capture, in bytes after decompression.
    offset: Option<u64>,
    reason: String,
    /// The system's number of its error, if it refused.
    errno: Option<i32>,
}

impl Problem {
    pub fn of_file(file: &Path, error: &io::Error) -> Self {
        Self {
            file: file.display().to_string(),
            offset: None,
            reason: error.to_string(),
            errno: error.raw_os_error(),
        }
    }

    pub fn of_capture(file: &Path, error: &ReadError, errno: Option<i32>) -> Self {
        Self {
            file: file.display().to_string(),
            offset: Some(error.offset),
            reason: error.reason.to_string(),
            errno,
        }
    }

    pub fn other(file: &Path, reason: String) -> Self {
        Self {
            file: file.display().to_string(),
            offset: None,
            reason,
            errno: None,
        }
    }

    /// As `tidegate.CaptureError`.
    pub fn exception(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let class = py.import("tidegate._errors")?.getattr("CaptureError")?;
        let error = class.call1((&self.file, self.offset, &self.reason, self.errno))?;
        Ok(error.unbind())
    }

    pub fn raise(&self, py: Python<'_>) -> PyErr {
        match self.exception(py) {
            Ok(error) => PyErr::from_value(error.into_bound(py)),
            Err(error) => error,
        }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.file, self.reason)?;
        match self.offset {
            Some(offset) => write!(f, " (at byte {offset})"),
            None => Ok(()),
        }
    }
}
