//! Simulations.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::AtomicBool;

use arrow_schema::ArrowError;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tidegate_lab::capture::InMemory;
use tidegate_lab::examples::EXAMPLES;
use tidegate_lab::experiment::{self, ExperimentError, Settings};
use tidegate_lab::rows::{
    LabConnectionRow, LabElementRow, LabFlowRow, LabParameters, LabPointRow, LabPoints,
    LabSampleRow, LabTransferRow, LabWindowRow, Simulation,
};
use tidegate_lab::scenario::{Scenario, Source};

use crate::capsule::failed;
use crate::table::{Filling, Table};
use crate::wait::interruptible;

/// The names and texts of the scenarios that come with Tidegate.
#[pyfunction]
pub fn examples() -> BTreeMap<&'static str, &'static str> {
    EXAMPLES.iter().copied().collect()
}

enum Failure {
    Simulation(ExperimentError),
    Table(ArrowError),
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        Self::Simulation(error)
    }
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Self {
        Self::Table(error)
    }
}

type Run = (BTreeMap<&'static str, Table>, BTreeMap<String, Py<PyBytes>>);

/// Runs a scenario: its tables by name, and with `captures` those of its taps. See `tidegate.lab.run`.
///
/// # Errors
/// The scenario has a mistake, or a simulation fails.
#[pyfunction]
#[pyo3(signature = (file, text, settings, captures, threads))]
pub fn run(
    py: Python<'_>,
    file: &str,
    text: &str,
    settings: Vec<String>,
    captures: bool,
    threads: Option<usize>,
) -> PyResult<Run> {
    let source = Source {
        file,
        text,
        settings: &settings,
    };
    let scenario =
        Scenario::parse(source).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let stop = AtomicBool::new(false);
    let taps = InMemory::default();
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let settings = Settings {
        jobs: threads.unwrap_or(cores).max(1),
        captures: if captures { Some(&taps) } else { None },
        stop: Some(&stop),
        progress: None,
        look: None,
    };
    let tables = interruptible(py, &stop, || simulate(&scenario, settings))?;
    let tables = tables.map_err(|failure| match failure {
        Failure::Simulation(error) => PyRuntimeError::new_err(error.to_string()),
        Failure::Table(error) => failed(error),
    })?;
    let taps = taps.into_captures().into_iter();
    let taps = taps.map(|(name, bytes)| (name, PyBytes::new(py, &bytes).unbind()));
    Ok((tables, taps.collect()))
}

fn simulate(
    scenario: &Scenario,
    settings: Settings<'_>,
) -> Result<BTreeMap<&'static str, Table>, Failure> {
    let parameters = LabParameters::new(scenario);
    // A column for each key of the sweep.
    let varied = || parameters.columns().to_vec();
    let mut flows = Filling::<LabFlowRow>::new(varied());
    let mut windows = Filling::<LabWindowRow>::new(varied());
    let mut elements = Filling::<LabElementRow>::new(varied());
    let mut samples = Filling::<LabSampleRow>::new(varied());
    let mut transfers = Filling::<LabTransferRow>::new(varied());
    let mut connections = Filling::<LabConnectionRow>::new(varied());
    let mut points = LabPoints::new(scenario);
    experiment::run::<Failure>(scenario, settings, |finished| {
        points.add(&finished);
        let of = Simulation::new(&finished, &scenario.parameters(finished.point));
        let values = parameters.values(finished.point);
        flows.add(&LabFlowRow::of(&of, &finished), values)?;
        windows.add(&LabWindowRow::of(&of, &finished), values)?;
        elements.add(&LabElementRow::of(&of, &finished), values)?;
        samples.add(&LabSampleRow::of(&of, &finished), values)?;
        transfers.add(&LabTransferRow::of(&of, &finished), values)?;
        connections.add(&LabConnectionRow::of(&of, &finished), values)?;
        Ok(())
    })?;
    let mut columns = varied();
    columns.extend(LabParameters::shares(scenario));
    let mut summed = Filling::<LabPointRow>::new(columns);
    for row in points.finish() {
        let values = row.extras(&parameters, scenario);
        summed.add(&[row], &values)?;
    }
    Ok(BTreeMap::from([
        ("points", summed.finish()),
        ("flows", flows.finish()),
        ("windows", windows.finish()),
        ("elements", elements.finish()),
        ("samples", samples.finish()),
        ("transfers", transfers.finish()),
        ("connections", connections.finish()),
    ]))
}
