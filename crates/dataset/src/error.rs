//! What can go wrong with a dataset.

use std::io;
use std::path::{Path, PathBuf};

/// The version of the schema. It changes when a column is removed or changes its type or meaning, not when one
/// is added.
pub const VERSION: u32 = 1;

/// Why a dataset cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or a folder of it cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of it is damaged.
    #[error("{}: {reason}", path.display())]
    Damaged {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A capture is committed, but its files could not be moved to their places.
    #[error(
        "{0}: its rows are kept, and appear when their files can be moved, at the latest when the dataset is opened again"
    )]
    Unplaced(Box<Error>),
    /// Another process writes it.
    #[error("{}: another process writes this dataset: wait for its end, or name another folder", .0.display())]
    Busy(PathBuf),
    /// The folder holds something else.
    #[error("{}: this folder is not empty, and holds no dataset: name another one", .0.display())]
    NotADataset(PathBuf),
    /// Its files have another schema.
    #[error("{}: this dataset has version {found} of the schema, and this program writes version {}: begin a new dataset", path.display(), VERSION)]
    Version {
        /// The dataset.
        path: PathBuf,
        /// The version of its schema.
        found: u32,
    },
    /// Its captures were analysed with other settings.
    #[error("{}: the captures of this dataset were analysed with {found}, and this command says {wanted}: use the same settings, or begin a new dataset", path.display())]
    Settings {
        /// The dataset.
        path: PathBuf,
        /// Those that are different, in the dataset.
        found: String,
        /// The same, as they were asked for.
        wanted: String,
    },
    /// The times of a capture are spread so widely that it would fill the disk with small files.
    #[error(
        "its packets are spread over more than {0} different hours: their times cannot be right"
    )]
    Times(usize),
}

impl Error {
    /// Says which path an error is about.
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}
