//! Files that appear whole or not at all, also after a crash of the process or the machine.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::OFlags;
use serde::de::DeserializeOwned;

use crate::entry::Entry;
use crate::error::Error;

/// The record of a capture in its folder, while it is not in place.
const ENTRY: &str = "entry.json";
/// Ends the name of a folder whose capture is committed.
const COMMITTED: &str = ".committed";
/// Ends the name of the record of a capture whose files are being removed.
const REMOVED: &str = "removed";

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

/// Opens a file to lock it. A link is not followed: nothing that it points to is touched.
pub(crate) fn lock(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    options
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(path)
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

/// The record of a capture.
fn record(path: &Path) -> Result<Entry, Error> {
    json(path).map_err(|error| match error {
        Error::Damaged { path, reason } => {
            let id = match path.ends_with(ENTRY) {
                true => path.parent().and_then(Path::file_stem),
                false => path.file_stem(),
            };
            let id = id.unwrap_or_default().display();
            let reason = format!(
                "this record of a capture is damaged ({reason}): remove it and the files segments/*/*/{id}-*.parquet, then add the \
                 capture again. If the capture is gone, remove the record alone: the rows stay"
            );
            Error::Damaged { path, reason }
        }
        other => other,
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

    /// Commits a capture whose files are in its staged folder, synchronised and numbered. Returns where they are then, until
    /// they are [placed](Self::place).
    pub(crate) fn commit(&self, staged: &Path, entry: &Entry) -> Result<PathBuf, Error> {
        let text =
            serde_json::to_vec_pretty(entry).map_err(|error| Error::at(staged)(error.into()))?;
        whole(&staged.join(ENTRY), &text)?;
        let mut committed = staged.as_os_str().to_owned();
        committed.push(COMMITTED);
        let committed = PathBuf::from(committed);
        fs::rename(staged, &committed).map_err(Error::at(staged))?;
        Ok(committed)
    }

    /// Moves the files of a committed capture to their places. From its beginning on, a crash does not lose the capture. Each step
    /// may have been done before.
    pub(crate) fn place(&self, committed: &Path, entry: &Entry) -> Result<(), Error> {
        sync(&self.staged)?;
        for old in &entry.replaces {
            let path = self.entry(old);
            if path.exists() {
                for file in record(&path)?.files() {
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

    /// Whether all files of a capture are in their places.
    pub(crate) fn has_files(&self, entry: &Entry) -> bool {
        entry.files().all(|file| self.segments.join(file).exists())
    }

    /// How many bytes a capture takes in its place, and when it came there.
    pub(crate) fn size(&self, entry: &Entry) -> Result<(SystemTime, u64), Error> {
        let path = self.entry(&entry.id);
        let record = fs::metadata(&path).map_err(Error::at(&path))?;
        let mut bytes = record.len();
        for file in entry.files() {
            let path = self.segments.join(file);
            match fs::metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => bytes += other.map_err(Error::at(&path))?.len(),
            }
        }
        let came = record.modified().map_err(Error::at(&path))?;
        Ok((came, bytes))
    }

    /// Removes a capture: its record first, so that no record is of files that are gone. From its beginning on, a crash leaves
    /// what the next process removes.
    pub(crate) fn remove(&self, entry: &Entry) -> Result<(), Error> {
        let aside = self.staged.join(&entry.id).with_extension(REMOVED);
        rename(&self.entry(&entry.id), &aside)?;
        sync(&self.staged)?;
        sync(&self.captures)?;
        self.remove_files(entry)?;
        remove(&aside)
    }

    fn remove_files(&self, entry: &Entry) -> Result<(), Error> {
        for file in entry.files() {
            let path = self.segments.join(file);
            remove(&path)?;
            // The folders of its hour and of its day, if they are empty now.
            let mut above = path.ancestors().skip(1).take(2);
            let _ = above.try_for_each(fs::remove_dir);
        }
        Ok(())
    }

    /// Finishes what an earlier process committed or began to remove, and removes what it did not commit.
    pub(crate) fn recover(&self) -> Result<(), Error> {
        let mut kept = Vec::new();
        let list = fs::read_dir(&self.staged).map_err(Error::at(&self.staged))?;
        for found in list {
            let path = found.map_err(Error::at(&self.staged))?.path();
            let committed = path.to_string_lossy().ends_with(COMMITTED);
            // Without its entry all files are in their places, since the entry is moved last.
            if committed && path.join(ENTRY).exists() {
                let entry = record(&path.join(ENTRY))?;
                kept.push((path, entry));
            } else if path.is_dir() {
                fs::remove_dir_all(&path).map_err(Error::at(&path))?;
            } else {
                if path.extension().is_some_and(|end| end == REMOVED) {
                    self.remove_files(&record(&path)?)?;
                }
                remove(&path)?;
            }
        }
        // One that replaces another comes after it.
        let is_next = |kept: &[(PathBuf, Entry)], (_, entry): &(PathBuf, Entry)| {
            // One whose files were lost replaces itself.
            let mut others = kept.iter().filter(|(_, old)| old.id != entry.id);
            !others.any(|(_, old)| entry.replaces.contains(&old.id))
        };
        while let Some(next) = kept.iter().position(|one| is_next(&kept, one)) {
            let (path, entry) = kept.swap_remove(next);
            self.place(&path, &entry)?;
        }
        Ok(())
    }

    /// The captures that are in the dataset.
    pub(crate) fn entries(&self) -> Result<Vec<Entry>, Error> {
        let mut entries = Vec::new();
        for found in fs::read_dir(&self.captures).map_err(Error::at(&self.captures))? {
            let path = found.map_err(Error::at(&self.captures))?.path();
            if path.extension().is_some_and(|end| end == "json") {
                entries.push(record(&path)?);
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
