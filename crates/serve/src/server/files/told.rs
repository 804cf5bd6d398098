//! What was said of files and folders: each remark is made once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Paths that are remembered. Nothing is said of others then.
const MOST: usize = 1_000;

/// Paths of which a remark was made.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<BTreeSet<PathBuf>>);

impl Told {
    /// Whether the remark of this path is to be made now: it was not made before.
    pub fn is_first(&self, path: &Path) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.len() < MOST && !told.contains(path) && told.insert(path.to_owned())
    }

    /// Whether a remark of this path was made.
    #[cfg(test)]
    pub fn has(&self, path: &str) -> bool {
        self.0.lock().unwrap().contains(Path::new(path))
    }
}
