//! Files that appear whole or not at all, also after a crash of the process or the machine.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::entry::Entry;
use crate::error::Error;

/// The record of a capture in its folder, while it is not in place.
const ENTRY: &str = "entry.json";
/// Ends the name of a folder whose capture is committed.
const COMMITTED: &str = ".committed";

/// Makes what was created, renamed or removed in a folder last.
fn sync(folder: &Path) -> Result<(), Error> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(Error::at(folder))
}

/// Creates a folder and those above it, so that they last.
pub(crate) fn folder(path: &Path) -> Result<(), Error> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        folder(above)?;
    }
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(Error::at(path)(error));
        }
        _ => {}
    }
    path.parent()
        .map_or(Ok(()), |above| match above.as_os_str().is_empty() {
            true => sync(Path::new(".")),
            false => sync(above),
        })
}

/// Writes a file that is there in whole or not at all.
pub(crate) fn whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let aside = path.with_extension("new");
    let write = || {
        let mut file = File::create(&aside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&aside, path)
    };
    write().map_err(Error::at(path))?;
    path.parent().map_or(Ok(()), sync)
}

pub(crate) fn json<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let bytes = fs::read(path).map_err(Error::at(path))?;
    serde_json::from_slice(&bytes).map_err(|error| Error::Damaged {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// The folders of a dataset.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    pub(crate) captures: PathBuf,
    pub(crate) segments: PathBuf,
    pub(crate) staged: PathBuf,
}

impl Places {
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            captures: root.join("captures"),
            segments: root.join("segments"),
            staged: root.join("staged"),
        }
    }

    fn entry(&self, id: &str) -> PathBuf {
        self.captures.join(format!("{id}.json"))
    }

    /// Commits a capture whose files are in its staged folder, synchronised and numbered: from here on a crash
    /// does not lose it.
    pub(crate) fn commit(&self, staged: &Path, entry: &Entry) -> Result<(), Error> {
        let text =
            serde_json::to_vec_pretty(entry).map_err(|error| Error::at(staged)(error.into()))?;
        whole(&staged.join(ENTRY), &text)?;
        let mut committed = staged.as_os_str().to_owned();
        committed.push(COMMITTED);
        let committed = PathBuf::from(committed);
        fs::rename(staged, &committed).map_err(Error::at(staged))?;
        sync(&self.staged)?;
        self.place(&committed, entry)
    }

    /// Moves the files of a committed capture to their places. Each step may have been done before.
    fn place(&self, committed: &Path, entry: &Entry) -> Result<(), Error> {
        for old in &entry.replaces {
            let path = self.entry(old);
            if path.exists() {
                for file in json::<Entry>(&path)?.files() {
                    remove(&self.segments.join(file))?;
                }
                remove(&path)?;
            }
        }
        let mut folders = BTreeSet::new();
        for (number, file) in entry.files().enumerate() {
            let (from, to) = (committed.join(number.to_string()), self.segments.join(file));
            if let Some(above) = to.parent() {
                folder(above)?;
                folders.insert(above.to_owned());
            }
            rename(&from, &to)?;
        }
        for folder in &folders {
            sync(folder)?;
        }
        rename(&committed.join(ENTRY), &self.entry(&entry.id))?;
        sync(&self.captures)?;
        fs::remove_dir_all(committed).map_err(Error::at(committed))
    }

    /// Finishes what an earlier process committed, and removes what it did not.
    pub(crate) fn recover(&self) -> Result<(), Error> {
        let list = fs::read_dir(&self.staged).map_err(Error::at(&self.staged))?;
        for found in list {
            let path = found.map_err(Error::at(&self.staged))?.path();
            let committed = path.to_string_lossy().ends_with(COMMITTED);
            // Without its entry all files are in their places, since the entry is moved last.
            if committed && path.join(ENTRY).exists() {
                self.place(&path, &json(&path.join(ENTRY))?)?;
            } else if path.is_dir() {
                fs::remove_dir_all(&path).map_err(Error::at(&path))?;
            } else {
                remove(&path)?;
            }
        }
        Ok(())
    }

    /// The captures that are in the dataset.
    pub(crate) fn entries(&self) -> Result<Vec<Entry>, Error> {
        let mut entries = Vec::new();
        for found in fs::read_dir(&self.captures).map_err(Error::at(&self.captures))? {
            let path = found.map_err(Error::at(&self.captures))?.path();
            if path.extension().is_some_and(|end| end == "json") {
                entries.push(json(&path)?);
            }
        }
        Ok(entries)
    }
}

/// Moves a file, unless that was done before.
fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && to.exists() => Ok(()),
        other => other.map_err(Error::at(to)),
    }
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::at(path)(error)),
        _ => Ok(()),
    }
}
