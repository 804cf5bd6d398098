//! What limited one transfer.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pyo3::prelude::*;
use tidegate_story::account::{Keeper, Longest};
use tidegate_story::explanation::explanation;
use tidegate_story::model::Model;
use tidegate_story::picture;
use tidegate_trace::detect::{Entry, Extent};
use tidegate_trace::flow::Settings;
use tidegate_trace::{Options, Sink, analyse};

use crate::problem::Problem;
use crate::rows::detector_named;
use crate::wait::interruptible;

/// The explanation as JSON, and its picture as SVG. See `tidegate.explain`.
///
/// # Errors
/// The capture cannot be read, or does not hold the transfer.
#[pyfunction]
#[pyo3(signature = (path, flow, segment, from_client, detector))]
pub fn explain(
    py: Python<'_>,
    path: PathBuf,
    flow: Option<u64>,
    segment: Option<u32>,
    from_client: Option<bool>,
    detector: &str,
) -> PyResult<(String, String)> {
    let asked = Asked {
        path: &path,
        flow,
        segment,
        from_client,
        detector: detector_named(detector)?,
        stop: Arc::default(),
    };
    let told = interruptible(py, &asked.stop, || asked.answer())?;
    told.map_err(|problem| problem.raise(py))
}

struct Asked<'a> {
    path: &'a Path,
    flow: Option<u64>,
    segment: Option<u32>,
    from_client: Option<bool>,
    detector: Entry,
    stop: Arc<AtomicBool>,
}

impl Asked<'_> {
    fn answer(&self) -> Result<(String, String), Problem> {
        let measuring = || Options {
            cancel: Some(Arc::clone(&self.stop)),
            ..Options::measuring(Settings::default())
        };
        let number = match self.flow {
            Some(number) => number,
            None => {
                let mut longest = Longest::new(self.from_client);
                self.read(measuring(), &mut longest)?;
                longest.flow().ok_or_else(|| {
                    Problem::other(self.path, "no flow in this capture has data".to_owned())
                })?
            }
        };
        let extent = Extent {
            basis: self.detector.widest,
            causal: false,
        };
        let mut keeper = Keeper::new(number, self.segment);
        let judging = Options {
            detector: Some((self.detector.make)(extent)),
            ..measuring()
        };
        self.read(judging, &mut keeper)?;
        let name: Arc<str> = self.path.display().to_string().into();
        let account = keeper
            .account(&name, self.detector.name, self.from_client)
            .map_err(|absent| {
                let reason = absent.to_string();
                let reason = reason.strip_prefix(&format!("{name}: ")).unwrap_or(&reason);
                Problem::other(self.path, reason.to_owned())
            })?;
        let replay = Model::of(&account);
        let data = explanation(&account, &replay).to_string();
        Ok((data, picture::draw(&account, &replay)))
    }

    /// A capture that breaks off is still explained; one whose beginning cannot be read is an error.
    fn read(&self, options: Options, sink: &mut dyn Sink) -> Result<(), Problem> {
        let file = File::open(self.path).map_err(|error| Problem::of_file(self.path, &error))?;
        let outcome = analyse(file, options, sink);
        match outcome.error {
            Some(error) if outcome.counters.frames == 0 => {
                Err(Problem::of_capture(self.path, &error))
            }
            _ => Ok(()),
        }
    }
}
