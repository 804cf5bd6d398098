//! A gate that is read again and again without its lock, while another process may change it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::lifecycle::{here, sees};
use super::store::{self, JOURNAL, NEXT, STATE, UNDO};
use super::{Folders, GateError, path_error};
use crate::path::DataPath;
use crate::reading::Overview;
use crate::state::GateState;

/// Identifies the content of a file when it was read: a file that was replaced or extended differs.
type Mark = Option<(u64, u64, i64, i64)>;

/// A gate that is up, read without its lock.
#[derive(Debug)]
pub struct View<D: DataPath> {
    folder: PathBuf,
    path: D,
    state: GateState,
    marks: [Mark; 4],
    unsettled: bool,
}

fn marks(folder: &Path) -> [Mark; 4] {
    [STATE, NEXT, UNDO, JOURNAL].map(|name| {
        let file = fs::metadata(folder.join(name)).ok()?;
        Some((file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
    })
}

/// Where the gate is pinned whose state is in this folder; `None` if there is no state.
///
/// # Errors
/// If the state cannot be read.
pub fn pins(folder: &Path) -> Result<Option<PathBuf>, GateError> {
    let loaded = store::load(folder)?;
    Ok(loaded.known().map(|state| state.pins.clone()))
}

impl<D: DataPath> View<D> {
    /// Opens the gate with this state. The pins are only named in errors, if there is no state.
    ///
    /// # Errors
    /// If no gate is up, or its state is missing.
    pub fn open(folders: Folders<'_>) -> Result<Self, GateError> {
        let Folders {
            pins,
            state: folder,
        } = folders;
        sees::<D>(pins)?;
        // Changes since then are read again by the first refresh.
        let marks = marks(folder);
        let loaded = store::load(folder)?;
        let unsettled = loaded.next.is_some() || loaded.undo.is_some();
        let current = loaded.undo.map(|undo| undo.to).or(loaded.current);
        let Some(state) = current else {
            return Err(if D::exists(pins) && loaded.next.is_some() {
                GateError::Begun {
                    pins: pins.to_owned(),
                }
            } else if D::exists(pins) {
                GateError::Lost {
                    pins: pins.to_owned(),
                    folder: folder.to_owned(),
                }
            } else {
                GateError::NotUp {
                    pins: pins.to_owned(),
                }
            });
        };
        if !D::exists(&state.pins) {
            return Err(GateError::NotUp { pins: state.pins });
        }
        here::<D>(&state)?;
        let path = D::open(&state.pins).map_err(|source| path_error::<D>(&state.pins, source))?;
        Ok(Self {
            folder: folder.to_owned(),
            path,
            state,
            marks,
            unsettled,
        })
    }

    /// Reads the state again if it has changed. Returns whether it had.
    ///
    /// # Errors
    /// As of [`View::open`].
    pub fn refresh(&mut self) -> Result<bool, GateError> {
        if marks(&self.folder) == self.marks {
            return Ok(false);
        }
        // The gate may have been removed and started again, with other maps.
        *self = Self::open(Folders {
            pins: &self.state.pins,
            state: &self.folder,
        })?;
        Ok(true)
    }

    /// Whether a change is being made, or could neither be completed nor undone.
    pub fn is_unsettled(&self) -> bool {
        self.unsettled
    }

    /// The gate without its subscribers.
    pub fn overview(&self) -> Overview {
        Overview::of(&self.state, &self.path, self.unsettled)
    }

    /// The state of the gate.
    pub fn state(&self) -> &GateState {
        &self.state
    }

    /// The data path.
    pub fn path(&self) -> &D {
        &self.path
    }
}
