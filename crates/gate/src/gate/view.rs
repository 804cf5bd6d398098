//! A gate that is read again and again without its lock, while another process may change it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::store::{self, JOURNAL, NEXT, STATE, UNDO};
use super::{GateError, path_error};
use crate::path::DataPath;
use crate::reading::Overview;
use crate::state::State;

/// What a file was when it was read: replaced or longer, it is another.
type Mark = Option<(u64, u64, i64, i64)>;

/// A gate that is up, as others drive it.
#[derive(Debug)]
pub struct View<D: DataPath> {
    folder: PathBuf,
    path: D,
    state: State,
    marks: [Mark; 4],
    unsettled: bool,
}

fn marks(folder: &Path) -> [Mark; 4] {
    [STATE, NEXT, UNDO, JOURNAL].map(|name| {
        let file = fs::metadata(folder.join(name)).ok()?;
        Some((file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
    })
}

/// Where the gate is kept whose state is in this folder; `None` if there is no state.
///
/// # Errors
/// If what is there cannot be read.
pub fn pins(folder: &Path) -> Result<Option<PathBuf>, GateError> {
    let loaded = store::load(folder)?;
    Ok(loaded.known().map(|state| state.pins.clone()))
}

impl<D: DataPath> View<D> {
    /// Looks at the gate whose state is in this folder. The second is where it would be if nobody
    /// knows, to say so.
    ///
    /// # Errors
    /// If none is up, or what it holds is not known.
    pub fn open(folder: &Path, pins: &Path) -> Result<Self, GateError> {
        // What is written while it is read is read again by the first refresh.
        let marks = marks(folder);
        let loaded = store::load(folder)?;
        let unsettled = loaded.next.is_some() || loaded.undo.is_some();
        let current = loaded.undo.map(|undo| undo.to).or(loaded.current);
        let Some(state) = current else {
            return Err(if D::exists(pins) {
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
        let path = D::open(&state.pins).map_err(|source| path_error(&state.pins, source))?;
        Ok(Self {
            folder: folder.to_owned(),
            path,
            state,
            marks,
            unsettled,
        })
    }

    /// Reads again what has changed. Returns whether anything had.
    ///
    /// # Errors
    /// As of [`View::open`].
    pub fn refresh(&mut self) -> Result<bool, GateError> {
        if marks(&self.folder) == self.marks {
            return Ok(false);
        }
        // It may have been taken off and put up again, with other maps.
        *self = Self::open(&self.folder, &self.state.pins)?;
        Ok(true)
    }

    /// Whether a change is being made, or could be made neither whole nor undone.
    pub fn is_unsettled(&self) -> bool {
        self.unsettled
    }

    /// The gate but for its subscribers.
    pub fn overview(&self) -> Overview {
        Overview::of(&self.state, &self.path, self.unsettled)
    }

    /// What it holds, by name and number.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Where it is held.
    pub fn path(&self) -> &D {
        &self.path
    }
}
