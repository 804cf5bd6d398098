//! What players of adaptive video fetch: the segments that a manifest of HLS (RFC 8216) or DASH (ISO/IEC 23009-1) names,
//! their rates, and their places in time.
//!
//! Paths are those in the served folder, without a slash in front.

mod cmcd;
mod dash;
mod hls;
mod listing;
mod programme;
#[cfg(test)]
mod tests;
mod timeline;
mod uri;

use std::time::Duration;

use tidegate_limiter::Rate;

use hyper::Uri;

use crate::media::PLAUSIBLE;

pub use cmcd::Cmcd;
use listing::Listing;
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
    listed: Listing,
    /// Segments that it names by a pattern.
    patterns: Vec<Pattern>,
    /// The rates of each track's representations in bit/s, in rising order.
    tracks: Vec<Vec<u64>>,
    /// Segments that were added, also those that were there before, and bytes of their names.
    added: usize,
    bytes: usize,
    /// Playlists that it names, of which it knows all segments.
    playlists: Vec<String>,
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
        let mut manifest = match Format::of(path)? {
            Format::Hls => hls::read(path, text, other),
            Format::Dash => dash::read(path, text),
        }?;
        manifest.listed.sort();
        Some(manifest)
    }

    /// Whether a file's name is that of a manifest.
    pub fn is_named(name: &str) -> bool {
        Format::of(name).is_some()
    }

    /// The paths of playlists that it names, of which it knows all segments. Read alone they say no more of them.
    pub fn playlists(&self) -> &[String] {
        &self.playlists
    }

    /// The segment at a path, given the file's length in bytes.
    pub fn find(&self, path: &str, length: u64) -> Option<Segment> {
        let found = self.listed.find(path).or_else(|| {
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
        let playlists: usize = self.playlists.iter().map(String::capacity).sum();
        self.bytes
            + self.listed.weight()
            + playlists
            + self.patterns.capacity() * size_of::<Pattern>()
    }

    fn list(&mut self, path: String, track: usize, size: Size, place: Option<Place>) {
        if self.has_room(path.len()) {
            self.listed.add(&path, Listed { track, size, place });
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

/// A format of manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Hls,
    Dash,
}

impl Format {
    /// The format of a file, by the end of its name, in capital or small letters.
    fn of(path: &str) -> Option<Self> {
        let extension = uri::extension(path)?;
        let is = |known| extension.eq_ignore_ascii_case(known);
        match () {
            () if is("m3u8") => Some(Self::Hls),
            () if is("mpd") => Some(Self::Dash),
            () => None,
        }
    }
}

/// Where a player found a manifest.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// Its URL, if it has one. Absolute URLs in the manifest that name the same server lead there.
    pub url: Option<&'a Uri>,
    /// Where it lies on the server, without a slash in front, and decoded.
    pub path: &'a str,
}

impl<'a> From<&'a str> for Source<'a> {
    fn from(path: &'a str) -> Self {
        Self { url: None, path }
    }
}

impl Programme {
    /// Reads a manifest. `other` gives the playlists that it names, by their addresses.
    ///
    /// # Errors
    /// If it cannot be played.
    pub fn read<'a>(
        source: impl Into<Source<'a>>,
        text: &[u8],
        other: impl FnMut(&Address) -> Option<Vec<u8>>,
    ) -> Result<Self, ProgrammeError> {
        let room = Room {
            segments: MOST_SEGMENTS,
            bytes: MOST_BYTES,
        };
        let source = source.into();
        let mut programme = match Format::of(source.path) {
            Some(Format::Dash) => dash::programme(source, text, room)?,
            _ => hls::programme(source, text, other, room)?,
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
    pub fn playlists<'a>(source: impl Into<Source<'a>>, text: &[u8]) -> Vec<Address> {
        let source = source.into();
        match Format::of(source.path) {
            Some(Format::Dash) => Vec::new(),
            _ => hls::playlists(source, text),
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
