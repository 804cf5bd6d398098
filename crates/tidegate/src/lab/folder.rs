//! The folder of results: rows, pictures, captures.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tidegate_lab::experiment::Finished;
use tidegate_lab::rows::{
    LabElementRow, LabFlowRow, LabPointRow, LabSampleRow, LabTransferRow, LabWindowRow, Simulation,
};
use tidegate_lab::scenario::Scenario;
use tidegate_store::{Format, Writer};
use tidegate_table::Row;
use tidegate_testbed::CaptureFolder;

use super::pictures::Pictures;
use crate::output::Output;

/// A folder that is being filled. Its files appear when all is done; captures, each by itself.
pub struct Folder {
    path: PathBuf,
    points: Writer<Output>,
    flows: Writer<Output>,
    windows: Writer<Output>,
    elements: Writer<Output>,
    samples: Writer<Output>,
    transfers: Writer<Output>,
    pictures: Pictures,
}

impl Folder {
    pub fn new(path: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(path)
            .with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            points: writer::<LabPointRow>(path, "points")?,
            flows: writer::<LabFlowRow>(path, "flows")?,
            windows: writer::<LabWindowRow>(path, "windows")?,
            elements: writer::<LabElementRow>(path, "elements")?,
            samples: writer::<LabSampleRow>(path, "samples")?,
            transfers: writer::<LabTransferRow>(path, "transfers")?,
            pictures: Pictures::default(),
        })
    }

    /// Where captures go.
    pub fn captures(&self) -> CaptureFolder {
        CaptureFolder::new(&self.path)
    }

    pub fn add(&mut self, of: &Simulation, finished: &Finished) -> std::io::Result<()> {
        self.flows.rows(&LabFlowRow::of(of, finished))?;
        self.windows.rows(&LabWindowRow::of(of, finished))?;
        self.elements.rows(&LabElementRow::of(of, finished))?;
        self.samples.rows(&LabSampleRow::of(of, finished))?;
        self.transfers.rows(&LabTransferRow::of(of, finished))?;
        self.pictures.add(of, finished);
        Ok(())
    }

    pub fn finish(mut self, scenario: &Scenario, rows: &[LabPointRow]) -> anyhow::Result<()> {
        self.points.rows(rows)?;
        for writer in [
            self.points,
            self.flows,
            self.windows,
            self.elements,
            self.samples,
            self.transfers,
        ] {
            writer.finish()?.commit()?;
        }
        for (name, svg) in self.pictures.draw(scenario)? {
            let mut out = Output::file(&self.path.join(name))?;
            out.write_all(svg.as_bytes())?;
            out.commit()?;
        }
        Ok(())
    }
}

fn writer<R: Row>(folder: &Path, name: &str) -> anyhow::Result<Writer<Output>> {
    let output = Output::file(&folder.join(format!("{name}.parquet")))?;
    Ok(Writer::new::<R>(output, Format::Parquet)?)
}
