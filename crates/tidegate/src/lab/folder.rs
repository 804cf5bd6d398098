//! The folder of results: rows, pictures, captures.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tidegate_lab::experiment::Finished;
use tidegate_lab::rows::{
    LabConnectionRow, LabElementRow, LabFlowRow, LabParameters, LabPointRow, LabSampleRow,
    LabTransferRow, LabWindowRow, Simulation,
};
use tidegate_lab::scenario::Scenario;
use tidegate_store::{Format, Writer};
use tidegate_table::{Extra, Row};
use tidegate_testbed::CaptureFolder;

use super::pictures::Pictures;
use crate::output::Output;

/// A folder that is being filled. Its files appear when all is done; captures, each by itself.
pub struct Folder<'a> {
    path: PathBuf,
    scenario: &'a Scenario,
    parameters: LabParameters,
    points: Writer<Output>,
    flows: Writer<Output>,
    windows: Writer<Output>,
    elements: Writer<Output>,
    samples: Writer<Output>,
    transfers: Writer<Output>,
    connections: Writer<Output>,
    pictures: Pictures,
}

impl<'a> Folder<'a> {
    pub fn new(path: &Path, scenario: &'a Scenario) -> anyhow::Result<Self> {
        fs::create_dir_all(path)
            .with_context(|| format!("cannot make the folder {}", path.display()))?;
        let parameters = LabParameters::new(scenario);
        let varied = parameters.columns();
        Ok(Self {
            path: path.to_owned(),
            scenario,
            points: writer::<LabPointRow>(path, "points", &super::columns_of_points(scenario))?,
            flows: writer::<LabFlowRow>(path, "flows", varied)?,
            windows: writer::<LabWindowRow>(path, "windows", varied)?,
            elements: writer::<LabElementRow>(path, "elements", varied)?,
            samples: writer::<LabSampleRow>(path, "samples", varied)?,
            transfers: writer::<LabTransferRow>(path, "transfers", varied)?,
            connections: writer::<LabConnectionRow>(path, "connections", varied)?,
            pictures: Pictures::default(),
            parameters,
        })
    }

    /// Where captures go.
    pub fn captures(&self) -> CaptureFolder {
        CaptureFolder::new(&self.path)
    }

    pub fn add(&mut self, of: &Simulation, finished: &Finished) -> std::io::Result<()> {
        let varied = self.parameters.values(finished.point);
        self.flows
            .rows_with(&LabFlowRow::of(of, finished), varied)?;
        self.windows
            .rows_with(&LabWindowRow::of(of, finished), varied)?;
        self.elements
            .rows_with(&LabElementRow::of(of, finished), varied)?;
        self.samples
            .rows_with(&LabSampleRow::of(of, finished), varied)?;
        self.transfers
            .rows_with(&LabTransferRow::of(of, finished), varied)?;
        self.connections
            .rows_with(&LabConnectionRow::of(of, finished), varied)?;
        self.pictures.add(of, finished);
        Ok(())
    }

    pub fn finish(mut self, rows: &[LabPointRow]) -> anyhow::Result<()> {
        super::write_points(&mut self.points, self.scenario, rows)?;
        for writer in [
            self.points,
            self.flows,
            self.windows,
            self.elements,
            self.samples,
            self.transfers,
            self.connections,
        ] {
            writer.finish()?.commit()?;
        }
        for remark in self.pictures.remarks() {
            eprintln!("tidegate: {remark}");
        }
        for (name, svg) in self.pictures.draw(self.scenario)? {
            let mut out = Output::file(&self.path.join(name))?;
            out.write_all(svg.as_bytes())?;
            out.commit()?;
        }
        Ok(())
    }
}

fn writer<R: Row>(folder: &Path, name: &str, extras: &[Extra]) -> anyhow::Result<Writer<Output>> {
    let output = Output::file(&folder.join(format!("{name}.parquet")))?;
    Ok(Writer::with_extras::<R>(
        output,
        Format::Parquet,
        extras.to_vec(),
    )?)
}
