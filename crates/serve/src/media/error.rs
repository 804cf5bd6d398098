//! Why the duration of a video is not known.

use std::io;
use std::time::Duration;

/// Why the duration is not known.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// Neither MP4 nor WebM.
    #[error("it is neither MP4 nor WebM")]
    Unknown,
    /// A length or value in the headers is impossible.
    #[error("its headers are damaged at byte {0}")]
    Damaged(u64),
    /// The headers end before they give the duration.
    #[error("its headers do not say how long it plays")]
    NoDuration,
    /// A duration that no video of this length has.
    #[error("its headers say that it lasts {0:?}, which is impossible for a file of this length")]
    Implausible(Duration),
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}
