//! The folder of a shell's results: captures at both ends, windows, elements.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use tidegate_lab::plan::ElementKind;
use tidegate_store::{Format, Writer};
use tidegate_table::Row;
use tidegate_testbed::shell::{ShellElementRow, ShellWindowRow};

use super::path::Path;
use crate::output::Output;

/// The names of the tables.
const WINDOWS: &str = "windows";
const ELEMENTS: &str = "elements";

/// A folder that is being filled. Its files appear when the shell has ended.
pub struct Folder {
    path: PathBuf,
    windows: Writer<Output>,
    elements: Writer<Output>,
}

impl Folder {
    pub fn new(path: &std::path::Path) -> anyhow::Result<Self> {
        fs::create_dir_all(path)
            .with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Self {
            windows: writer::<ShellWindowRow>(path, WINDOWS)?,
            elements: writer::<ShellElementRow>(path, ELEMENTS)?,
            path: path.to_owned(),
        })
    }

    /// Adds captures at both ends of the way. Each has the packets of both directions.
    pub fn tap(&self, path: &mut Path, snaplen: u32) {
        let tap = ElementKind::Tap { snaplen };
        // One tap is before the elements forward, and three are before those back.
        let forward = path.plan.forward.len();
        for index in path
            .plan
            .nodes
            .iter_mut()
            .flat_map(|node| &mut node.limiters)
        {
            *index += if *index < forward { 1 } else { 3 };
        }
        for way in [&mut path.plan.forward, &mut path.plan.back] {
            way.insert(0, tap.clone());
            way.push(tap.clone());
        }
        for texts in &mut path.texts {
            texts.insert(0, None);
            texts.push(None);
        }
        let ends = ["outside", "inside", "inside", "outside"];
        let files = ends.map(|end| self.path.join(format!("{end}.pcap")));
        path.plan.captures = files.into();
    }

    /// Writes the tables, and returns what failed.
    pub fn write(
        self,
        windows: &[ShellWindowRow],
        elements: &[ShellElementRow],
    ) -> Vec<anyhow::Error> {
        let written = [
            (WINDOWS, complete(self.windows, windows)),
            (ELEMENTS, complete(self.elements, elements)),
        ];
        let failed = written.into_iter().filter_map(|(name, written)| {
            let error = written.err()?;
            remove(&self.path, name);
            Some(error)
        });
        failed.collect()
    }

    /// There is nothing to write.
    pub fn give_up(self) {
        for name in [WINDOWS, ELEMENTS] {
            remove(&self.path, name);
        }
    }
}

fn complete<R: Row>(mut writer: Writer<Output>, rows: &[R]) -> anyhow::Result<()> {
    writer.rows(rows)?;
    writer.finish()?.commit()
}

fn writer<R: Row>(folder: &std::path::Path, name: &str) -> anyhow::Result<Writer<Output>> {
    let output = Output::file(&file(folder, name))?;
    Ok(Writer::new::<R>(output, Format::Parquet)?)
}

/// Removes a table of an earlier run, which would be taken for this one's.
fn remove(folder: &std::path::Path, table: &str) {
    let _ = fs::remove_file(file(folder, table));
}

fn file(folder: &std::path::Path, table: &str) -> PathBuf {
    folder.join(format!("{table}.parquet"))
}
