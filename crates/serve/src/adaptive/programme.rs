//! What a player of adaptive video fetches: the segments of each representation, in order.

use std::time::Duration;

use super::uri::Address;

/// All tracks of a video.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Programme {
    /// Video and audio, if they are fetched beside one another.
    pub tracks: Vec<Track>,
}

/// The same content in several rates.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Track {
    /// In rising order of their rates.
    pub renditions: Vec<Rendition>,
}

/// The segments of one rate.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Rendition {
    /// In bit/s; 0 if the manifest does not state it.
    pub rate: u64,
    /// What comes before all segments.
    pub first: Option<Part>,
    /// The segments.
    pub parts: Vec<Part>,
}

/// A segment.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Where it is on the server.
    pub address: Address,
    /// How long it plays.
    pub plays: Duration,
    /// The bytes of the file that it has, if not all: the first, and how many.
    pub range: Option<(u64, u64)>,
}

/// Why a manifest cannot be played.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgrammeError {
    /// It is damaged, or one of its playlists is.
    #[error("the manifest cannot be read")]
    Unreadable,
    /// It names no segments.
    #[error("the manifest names no segments, or only ranges of one file, which are not played")]
    Empty,
    /// It goes on while it is played.
    #[error("the manifest is of a live stream, which is not played: play a recorded one")]
    Live,
    /// A part of the format.
    #[error("the manifest has {0}, which are not played")]
    Unsupported(&'static str),
    /// A segment's duration is no time, or more than a day.
    #[error("the manifest has a segment that plays for less than no time, or for more than a day")]
    Duration,
    /// It names more than a player keeps in memory.
    #[error("the manifest names too many segments")]
    TooLarge,
    /// Its segments are on another server.
    #[error("the manifest leads to another server, or out of its folder")]
    Elsewhere,
}

impl Part {
    /// A whole file.
    pub(super) fn whole(address: Address, plays: Duration) -> Self {
        Self {
            address,
            plays,
            range: None,
        }
    }
}

/// How long a segment may play. It also bounds the time of all segments of a manifest, in every unit.
const LONGEST: Duration = Duration::from_secs(86_400);

/// What a player may still keep of a manifest.
#[derive(Debug)]
pub(super) struct Room {
    pub segments: usize,
    /// Bytes of their addresses.
    pub bytes: usize,
}

impl Room {
    /// Takes the room for a segment that plays for this time.
    pub fn take(&mut self, address: &Address, plays: Duration) -> Result<(), ProgrammeError> {
        if plays > LONGEST {
            return Err(ProgrammeError::Duration);
        }
        let bytes = address.path.len() + address.query.as_ref().map_or(0, String::len);
        let left = self
            .segments
            .checked_sub(1)
            .zip(self.bytes.checked_sub(bytes));
        (self.segments, self.bytes) = left.ok_or(ProgrammeError::TooLarge)?;
        Ok(())
    }
}
