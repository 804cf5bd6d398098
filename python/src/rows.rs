//! Rows of captures, as Arrow streams and as batches.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use arrow_array::ffi::to_ffi;
use arrow_array::{Array, RecordBatch, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use tidegate_dataset::Networks;
use tidegate_trace::detect;
use tidegate_trace::read::LEAST_SHARE;

use crate::capsule::{self, failed};
use crate::problem::Problem;
use crate::reading::{By, Next, Places, Reading, Request};
use crate::source::{Pieces, Source};
use crate::wait::LOOK;

/// How often to tell how far a reading is.
const TELL: Duration = Duration::from_millis(200);

type Problems = Arc<Mutex<Vec<Problem>>>;

/// What captures hold. Nothing is read before somebody asks for the rows, and everything again if somebody asks again.
#[pyclass(frozen)]
pub struct Rows {
    request: Request,
    schema: SchemaRef,
    raise: bool,
    problems: Problems,
    /// Makes a progress bar: a function that takes the bytes that were read, and None at the end.
    progress: Option<Py<PyAny>>,
}

/// Tables of networks, for `read`.
#[pyclass(frozen, name = "Networks")]
pub struct Tables(Arc<Networks>);

#[pymethods]
impl Tables {
    #[new]
    fn new(files: Vec<PathBuf>) -> PyResult<Self> {
        let mut networks = Networks::default();
        for file in files {
            networks.add(&file).map_err(PyValueError::new_err)?;
        }
        Ok(Self(Arc::new(networks)))
    }
}

/// Which share of the flows the captures hold.
#[derive(FromPyObject)]
pub enum Sampled {
    Share(f64),
    Word(String),
}

impl Sampled {
    /// The share; `None`: as the captures say.
    fn share(self) -> PyResult<Option<f64>> {
        let wrong = |said: String| {
            PyValueError::new_err(format!(
                "sampled={said}: it is the share of flows that was sampled, from 1e-9 to 1, or \"header\""
            ))
        };
        match self {
            Self::Share(share) if (LEAST_SHARE..=1.0).contains(&share) => Ok(Some(share)),
            Self::Share(share) => Err(wrong(share.to_string())),
            Self::Word(word) if word == "header" => Ok(None),
            Self::Word(word) => Err(wrong(format!("{word:?}"))),
        }
    }
}

/// See `tidegate.read`, which checks paths.
///
/// # Errors
/// A word is unknown.
#[pyfunction]
#[pyo3(signature = (captures, by, detector, basis, raise_errors, threads, networks, sampled, progress))]
#[expect(
    clippy::too_many_arguments,
    reason = "they are those of the function for users"
)]
pub fn read(
    captures: Vec<Vec<(String, Source)>>,
    by: &str,
    detector: &str,
    basis: Option<&str>,
    raise_errors: bool,
    threads: Option<usize>,
    networks: Option<PyRef<'_, Tables>>,
    sampled: Option<Sampled>,
    progress: Option<Py<PyAny>>,
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
    let places = match (networks, sampled) {
        (None, None) => None,
        _ if by != By::Segment => {
            return Err(wrong(
                "asn and sampled add columns to segments only: leave them out, or by".to_owned(),
            ));
        }
        (networks, sampled) => Some(Places {
            networks: networks.map_or_else(Arc::default, |tables| Arc::clone(&tables.0)),
            sampled: sampled.map_or(Ok(None), Sampled::share)?,
        }),
    };
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    Ok(Rows {
        schema: by.schema(places.is_some()),
        request: Request {
            captures: captures.into_iter().map(Pieces::new).collect(),
            by,
            places,
            detector: entry,
            basis,
            threads: threads.unwrap_or(cores),
        },
        raise: raise_errors,
        problems: Problems::default(),
        progress,
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
    fn stream(&self, py: Python<'_>) -> PyResult<Stream> {
        let progress = match &self.progress {
            Some(progress) => Some(Arc::new(progress.call0(py)?)),
            None => None,
        };
        lock(&self.problems).clear();
        Ok(Stream {
            reading: Reading::start(&self.request),
            schema: Arc::clone(&self.schema),
            raise: self.raise,
            problems: Arc::clone(&self.problems),
            progress,
            thread: std::thread::current().id(),
            told: Instant::now(),
        })
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
        capsule::stream(py, self.stream(py)?)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema(py, &self.schema)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Batches> {
        Ok(Batches(Mutex::new(self.stream(py)?)))
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
        let many = self.request.captures.len();
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
    /// Is told how many bytes were read, and at the end None.
    progress: Option<Arc<Py<PyAny>>>,
    /// Which thread asked for it: only there may Ctrl-C be looked for, since another one may hold the interpreter's
    /// lock while it waits for this one.
    thread: ThreadId,
    /// When it was last told how far the reading is.
    told: Instant,
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

    /// The progress bar and the bytes that were read, if it is time to show them.
    fn due(&mut self) -> Option<(Arc<Py<PyAny>>, u64)> {
        let whom = Arc::clone(self.progress.as_ref()?);
        (self.told.elapsed() >= TELL).then(|| {
            self.told = Instant::now();
            (whom, self.reading.bytes())
        })
    }
}

impl Drop for Stream {
    /// Nobody wants more.
    fn drop(&mut self) {
        if std::thread::current().id() == self.thread {
            // Where Python ends too, nobody looks.
            Python::try_attach(|py| ended(py, self.progress.take()));
        }
    }
}

/// Tells that a reading ended.
fn ended(py: Python<'_>, whom: Option<Arc<Py<PyAny>>>) {
    if let Some(whom) = whom
        && let Err(error) = whom.call1(py, (None::<u64>,))
    {
        error.write_unraisable(py, Some(whom.bind(py)));
    }
}

/// What is due before each wait. No lock may be held: other threads of Python may run.
///
/// # Errors
/// Ctrl-C came, or the progress bar failed.
fn look(py: Python<'_>, due: Option<(Arc<Py<PyAny>>, u64)>) -> PyResult<()> {
    py.check_signals()?;
    match due {
        Some((whom, bytes)) => whom.call1(py, (bytes,)).map(drop),
        None => Ok(()),
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let here = std::thread::current().id() == self.thread;
        loop {
            if here && let Some(error) = Python::attach(|py| stopped(py, look(py, self.due()))) {
                self.reading.end();
                return Some(Err(ArrowError::ExternalError(error.into())));
            }
            match self.reading.next(LOOK) {
                Next::Batch(batch) => return Some(batch),
                Next::Problem(problem) => {
                    if self.note(&problem) {
                        return Some(Err(ArrowError::ExternalError(problem.to_string().into())));
                    }
                }
                Next::End => return None,
                Next::Waiting => {}
            }
        }
    }
}

/// Why the reading stops. Of Ctrl-C, Python hears again when the caller's library is back.
fn stopped(py: Python<'_>, looked: PyResult<()>) -> Option<String> {
    let error = looked.err()?;
    if !error.is_instance_of::<PyKeyboardInterrupt>(py) {
        return Some(error.to_string());
    }
    let again = py
        .import("_thread")
        .and_then(|module| module.call_method0("interrupt_main"));
    // Without it the library's error is all that Python hears of.
    drop(again);
    Some("interrupted by Ctrl-C".to_owned())
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
            let due = py.detach(|| lock(&self.0).due());
            look(py, due)?;
            match py.detach(|| lock(&self.0).reading.next(LOOK)) {
                Next::Batch(batch) => return Ok(Some(Batch(batch.map_err(failed)?))),
                Next::Problem(problem) => {
                    if lock(&self.0).note(&problem) {
                        return Err(problem.raise(py));
                    }
                }
                Next::End => {
                    let whom = lock(&self.0).progress.take();
                    ended(py, whom);
                    return Ok(None);
                }
                Next::Waiting => {}
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
