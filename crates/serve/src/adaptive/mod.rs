//! What players of adaptive video fetch: the segments that a manifest of HLS (RFC 8216) or DASH (ISO/IEC 23009-1) names,
//! their rates, and their places in time.
//!
//! Paths are those in the served folder, without a slash in front.

mod cmcd;
mod dash;
mod hls;
mod programme;
#[cfg(test)]
mod tests;
mod timeline;
mod uri;

use std::collections::HashMap;
use std::time::Duration;

use tidegate_limiter::Rate;

use crate::media::PLAUSIBLE;

pub use cmcd::Cmcd;
use programme::Room;
pub use programme::{Part, Programme, ProgrammeError, Track};
use timeline::Times;
pub use uri::Address;

/// Segments of a manifest that are remembered. Those behind them are sent like other files.
const MOST_SEGMENTS: usize = 200_000;
/// Bytes of their names.
const MOST_BYTES: usize = 32 << 20;

/// The segments that a manifest names.
#[derive(Debug, Default, PartialEq)]
pub struct Manifest {
    /// Segments that it names one by one.
    listed: HashMap<String, Listed>,
    /// Segments that it names by a pattern.
    patterns: Vec<Pattern>,
    /// The rates of each track's representations in bit/s, in rising order.
    tracks: Vec<Vec<u64>>,
    /// Segments that were added, also those that were there before, and bytes of their names.
    added: usize,
    bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Listed {
    track: usize,
    size: Size,
    place: Option<Place>,
}

/// Names that differ by a number.
#[derive(Debug, PartialEq)]
struct Pattern {
    track: usize,
    size: Size,
    before: String,
    after: String,
    /// What tells the time by the number.
    times: Times,
}

/// What tells the rate of a segment.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Size {
    /// The manifest states it, in bit/s.
    Rate(u64),
    /// The segment plays for so long.
    Plays(Duration),
}

/// Where a segment begins in the video.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Place {
    /// At this time.
    At(Duration),
    /// The file holds many segments: where a request begins tells, unless it is for the headers and indexes that end before `head`. Those
    /// are fetched by each viewer who comes to the file, wherever in the video that is.
    ByOffset {
        /// Bytes at the beginning of the file that are no video.
        head: u64,
    },
}

/// A segment, as a manifest describes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// The rate of its representation.
    pub rate: Rate,
    /// The rate of the next better representation; its own if there is none. A player that is sent less than this never learns
    /// that the network could carry it.
    pub next: Rate,
    /// Which of the manifest's tracks it belongs to: video and audio are fetched beside one another.
    pub track: usize,
    /// `None` for what comes before all segments.
    pub place: Option<Place>,
    /// Whether the manifest states the rate.
    pub stated: bool,
}

impl Manifest {
    /// Reads a manifest. `path` is where it lies, and `other` reads the playlists that it names.
    /// `None` if it is no manifest.
    pub fn read(
        path: &str,
        text: &[u8],
        other: impl FnMut(&str) -> Option<Vec<u8>>,
    ) -> Option<Self> {
        match uri::extension(path)? {
            "m3u8" => hls::read(path, text, other),
            "mpd" => dash::read(path, text),
            _ => None,
        }
    }

    /// Whether a file's name is that of a manifest.
    pub fn is_named(name: &str) -> bool {
        matches!(uri::extension(name), Some("m3u8" | "mpd"))
    }

    /// The segment at a path, given the file's length in bytes.
    pub fn find(&self, path: &str, length: u64) -> Option<Segment> {
        let found = self.listed.get(path).copied().or_else(|| {
            self.patterns.iter().find_map(|pattern| {
                Some(Listed {
                    track: pattern.track,
                    size: pattern.size,
                    place: Some(pattern.place(path)?),
                })
            })
        });
        let Listed { track, size, place } = found?;
        let rate = match size {
            Size::Rate(rate) => rate,
            Size::Plays(time) => (length as f64 * 8.0 / time.as_secs_f64()) as u64,
        };
        if !PLAUSIBLE.contains(&rate) {
            return None;
        }
        let better = self.tracks[track].iter().find(|&&other| other > rate);
        let stated = matches!(size, Size::Rate(_));
        let next = better.copied().filter(|_| stated).unwrap_or(rate);
        Some(Segment {
            rate: Rate::from_bits_per_second(rate),
            next: Rate::from_bits_per_second(next),
            track,
            place,
            stated,
        })
    }

    /// Bytes of memory that it needs, roughly.
    pub fn weight(&self) -> usize {
        let entries = self.listed.capacity() * (size_of::<(String, Listed)>() + 1);
        self.bytes + entries + self.patterns.capacity() * size_of::<Pattern>()
    }

    fn list(&mut self, path: String, track: usize, size: Size, place: Option<Place>) {
        if self.has_room(path.len()) {
            let listed = Listed { track, size, place };
            self.listed.entry(path).or_insert(listed);
        }
    }

    /// Counts a name, given its length in bytes. Returns false if that is too much.
    fn has_room(&mut self, bytes: usize) -> bool {
        self.added += 1;
        self.bytes += bytes;
        !self.is_full()
    }

    /// Whether no more segments are remembered.
    fn is_full(&self) -> bool {
        self.added > MOST_SEGMENTS || self.bytes > MOST_BYTES
    }

    /// Adds a track, and returns its number.
    fn track(&mut self, mut rates: Vec<u64>) -> usize {
        rates.sort_unstable();
        self.tracks.push(rates);
        self.tracks.len() - 1
    }
}

impl Programme {
    /// Reads a manifest. `path` is where it lies, and `other` the playlists that it names, by their addresses.
    ///
    /// # Errors
    /// If it cannot be played.
    pub fn read(
        path: &str,
        text: &[u8],
        other: impl FnMut(&Address) -> Option<Vec<u8>>,
    ) -> Result<Self, ProgrammeError> {
        let room = Room {
            segments: MOST_SEGMENTS,
            bytes: MOST_BYTES,
        };
        let mut programme = match uri::extension(path) {
            Some("mpd") => dash::programme(path, text, room)?,
            _ => hls::programme(path, text, other, room)?,
        };
        for track in &mut programme.tracks {
            track
                .renditions
                .retain(|rendition| !rendition.parts.is_empty());
            track.renditions.sort_by_key(|rendition| rendition.rate);
        }
        programme
            .tracks
            .retain(|track| !track.renditions.is_empty());
        match programme.tracks.is_empty() {
            true => Err(ProgrammeError::Empty),
            false => Ok(programme),
        }
    }

    /// The playlists that a manifest needs beside its own.
    pub fn playlists(path: &str, text: &[u8]) -> Vec<Address> {
        match uri::extension(path) {
            Some("mpd") => Vec::new(),
            _ => hls::playlists(path, text),
        }
    }
}

impl Pattern {
    fn place(&self, path: &str) -> Option<Place> {
        let number = path
            .strip_prefix(&*self.before)?
            .strip_suffix(&*self.after)?;
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(Place::At(self.times.at(number.parse().ok()?)?))
    }
}
