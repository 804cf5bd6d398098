//! Rows of captures, as Arrow streams and as batches.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;

use arrow_array::ffi::to_ffi;
use arrow_array::{Array, RecordBatch, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use tidegate_trace::detect;

use crate::capsule::{self, failed};
use crate::problem::Problem;
use crate::reading::{By, Next, Reading, Request};
use crate::wait::LOOK;

type Problems = Arc<Mutex<Vec<Problem>>>;

/// What captures hold. Nothing is read before somebody asks for the rows, and everything again if somebody asks again.
#[pyclass(frozen)]
pub struct Rows {
    request: Request,
    schema: SchemaRef,
    raise: bool,
    problems: Problems,
}

/// See `tidegate.read`, which checks paths.
///
/// # Errors
/// A word is unknown.
#[pyfunction]
#[pyo3(signature = (paths, by, detector, basis, raise_errors, threads))]
pub fn read(
    paths: Vec<PathBuf>,
    by: &str,
    detector: &str,
    basis: Option<&str>,
    raise_errors: bool,
    threads: Option<usize>,
) -> PyResult<Rows> {
    let wrong = |what: String| PyValueError::new_err(what);
    let by = By::named(by).ok_or_else(|| {
        wrong(format!(
            "by={by:?}: a row is a \"segment\", \"flow\", \"client\" or \"packet\""
        ))
    })?;
    let entry = detector_named(detector)?;
    let basis = match basis {
        None => entry.widest,
        Some("segment") => detect::Basis::Segment,
        Some("connection") => detect::Basis::Connection,
        Some("client") => detect::Basis::Client,
        Some(other) => {
            return Err(wrong(format!(
                "basis={other:?}: it is \"segment\", \"connection\" or \"client\""
            )));
        }
    };
    if basis > entry.widest {
        return Err(wrong(format!(
            "the detector {detector} judges every {} alone: leave out basis",
            entry.widest.name()
        )));
    }
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    Ok(Rows {
        schema: by.schema(),
        request: Request {
            paths: paths.into(),
            by,
            detector: entry,
            basis,
            threads: threads.unwrap_or(cores),
        },
        raise: raise_errors,
        problems: Problems::default(),
    })
}

/// The detector of this name.
pub fn detector_named(name: &str) -> PyResult<detect::Entry> {
    detect::by_name(name).ok_or_else(|| {
        let names = detect::DETECTORS.map(|entry| entry.name).join(", ");
        PyValueError::new_err(format!("detector={name:?}: the detectors are {names}"))
    })
}

impl Rows {
    fn stream(&self) -> Stream {
        lock(&self.problems).clear();
        Stream {
            reading: Reading::start(&self.request),
            schema: Arc::clone(&self.schema),
            raise: self.raise,
            problems: Arc::clone(&self.problems),
            thread: std::thread::current().id(),
        }
    }
}

#[pymethods]
impl Rows {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        capsule::stream(py, self.stream())
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema(py, &self.schema)
    }

    fn __iter__(&self) -> Batches {
        Batches(Mutex::new(self.stream()))
    }

    /// What was wrong with captures in the last reading.
    #[getter]
    fn problems(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let problems = lock(&self.problems).clone();
        problems
            .iter()
            .map(|problem| problem.exception(py))
            .collect()
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let fields = self.schema.fields().iter();
        fields.map(|field| field.name().clone()).collect()
    }

    fn __repr__(&self) -> String {
        let many = self.request.paths.len();
        let by = format!("{:?}", self.request.by).to_lowercase();
        format!(
            "<rows by {by} of {many} capture{}>",
            if many == 1 { "" } else { "s" }
        )
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A reading, as Arrow's C interface wants it.
struct Stream {
    reading: Reading,
    schema: SchemaRef,
    raise: bool,
    problems: Problems,
    /// Which thread asked for it: only there may Ctrl-C be looked for, since another one may hold the interpreter's
    /// lock while it waits for this one.
    thread: ThreadId,
}

impl Stream {
    /// Notes a problem, and says whether it ends the reading.
    fn note(&mut self, problem: &Problem) -> bool {
        lock(&self.problems).push(problem.clone());
        if self.raise {
            self.reading.end();
        }
        self.raise
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.reading.next(LOOK) {
                Next::Batch(batch) => return Some(batch),
                Next::Problem(problem) => {
                    if self.note(&problem) {
                        return Some(Err(ArrowError::ExternalError(problem.to_string().into())));
                    }
                }
                Next::End => return None,
                Next::Waiting => {
                    let here = std::thread::current().id() == self.thread;
                    if here && Python::attach(interrupted) {
                        self.reading.end();
                        let error = "interrupted by Ctrl-C";
                        return Some(Err(ArrowError::ExternalError(error.into())));
                    }
                }
            }
        }
    }
}

/// Whether Ctrl-C came. Python hears of it again when the caller's library is back.
fn interrupted(py: Python<'_>) -> bool {
    match py.check_signals() {
        Ok(()) => false,
        Err(_) => {
            let again = py
                .import("_thread")
                .and_then(|module| module.call_method0("interrupt_main"));
            // Without it the library's error is all that Python hears of.
            drop(again);
            true
        }
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// The batches of a reading, one after the other.
#[pyclass(frozen)]
pub struct Batches(Mutex<Stream>);

#[pymethods]
impl Batches {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        loop {
            match py.detach(|| lock(&self.0).reading.next(LOOK)) {
                Next::Batch(batch) => return Ok(Some(Batch(batch.map_err(failed)?))),
                Next::Problem(problem) => {
                    if lock(&self.0).note(&problem) {
                        return Err(problem.raise(py));
                    }
                }
                Next::End => return Ok(None),
                Next::Waiting => py.check_signals()?,
            }
        }
    }
}

/// Rows beside each other in memory.
#[pyclass(frozen)]
pub struct Batch(RecordBatch);

#[pymethods]
impl Batch {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        let rows = StructArray::from(self.0.clone());
        let (array, _) = to_ffi(&rows.to_data()).map_err(failed)?;
        Ok((
            capsule::schema(py, &self.0.schema())?,
            PyCapsule::new_with_value(py, array, c"arrow_array")?,
        ))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema(py, &self.0.schema())
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("<batch of {} rows>", self.0.num_rows())
    }
}
