//! What limited one transfer.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pyo3::prelude::*;
use tidegate_story::account::{Keeper, Longest};
use tidegate_story::explanation::explanation;
use tidegate_story::model::Model;
use tidegate_story::picture;
use tidegate_trace::detect::{Entry, Extent};
use tidegate_trace::flow::Settings;
use tidegate_trace::{Options, Sink, analyse_pieces};

use crate::problem::Problem;
use crate::rows::detector_named;
use crate::source::{Pieces, Source};
use crate::wait::interruptible;

/// The explanation as JSON, and its picture as SVG, of a transfer in a capture, all its pieces. See `tidegate.explain`.
///
/// # Errors
/// The capture cannot be read, or does not hold the transfer.
#[pyfunction]
#[pyo3(signature = (pieces, flow, segment, from_client, detector))]
pub fn explain(
    py: Python<'_>,
    pieces: Vec<(String, Source)>,
    flow: Option<u64>,
    segment: Option<u32>,
    from_client: Option<bool>,
    detector: &str,
) -> PyResult<(String, String)> {
    let pieces = Pieces::new(pieces);
    let asked = Asked {
        name: pieces.name(),
        pieces,
        flow,
        segment,
        from_client,
        detector: detector_named(detector)?,
        stop: Arc::default(),
    };
    let told = interruptible(py, &asked.stop, || asked.answer())?;
    told.map_err(|problem| problem.raise(py))
}

struct Asked {
    pieces: Pieces,
    name: String,
    flow: Option<u64>,
    segment: Option<u32>,
    from_client: Option<bool>,
    detector: Entry,
    stop: Arc<AtomicBool>,
}

impl Asked {
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
                longest
                    .flow()
                    .ok_or_else(|| self.problem("no flow in this capture has data"))?
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
        let name: Arc<str> = self.name.as_str().into();
        let account = keeper
            .account(&name, self.detector.name, self.from_client)
            .map_err(|absent| {
                let reason = absent.to_string();
                let reason = reason.strip_prefix(&format!("{name}: ")).unwrap_or(&reason);
                self.problem(reason)
            })?;
        let replay = Model::of(&account);
        let data = explanation(&account, &replay).to_string();
        Ok((data, picture::draw(&account, &replay)))
    }

    fn problem(&self, reason: &str) -> Problem {
        Problem::other(Path::new(&self.name), reason.to_owned())
    }

    /// A capture that breaks off is still explained; one whose beginning cannot be read is an error.
    fn read(&self, options: Options, sink: &mut dyn Sink) -> Result<(), Problem> {
        let pieces = self.pieces.in_order();
        let mut unopened = None;
        // Each one when its turn comes: a process may not have as many files open as a day has pieces.
        let opened = pieces.iter().map_while(|piece| {
            piece
                .open(&Arc::default())
                .inspect_err(|error| {
                    unopened = Some(Problem::of_file(Path::new(&piece.name), error));
                })
                .ok()
        });
        let outcome = analyse_pieces(opened, options, sink);
        if let Some(problem) = unopened {
            return Err(problem);
        }
        match (outcome.error, pieces.get(outcome.piece)) {
            (Some(error), Some(piece)) if outcome.counters.frames == 0 => Err(Problem::of_capture(
                Path::new(&piece.name),
                &error,
                piece.errno(),
            )),
            _ => Ok(()),
        }
    }
}
