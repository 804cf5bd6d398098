//! How long a video plays. The server computes from this how fast it must be sent.
//!
//! Only the part of a file that gives the duration is read: a few headers of MP4 (ISO/IEC 14496-12) or WebM (a Matroska file, RFC 9559).
//! Files are hostile: lengths are checked before they are used, and the steps to the answer are counted.

mod error;
pub mod make;
mod mp4;
mod source;
#[cfg(test)]
mod tests;
mod webm;

use std::time::Duration;

use tidegate_limiter::Rate;

pub use error::MediaError;
pub use source::{Prefix, Source};

/// The format that holds the video.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// MP4, QuickTime, M4V: ISO base media.
    Mp4,
    /// WebM and Matroska.
    WebM,
}

/// The values in a video's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Media {
    /// The format.
    pub container: Container,
    /// How long it plays.
    pub duration: Duration,
    /// The file's length in bytes.
    pub length: u64,
}

/// Encoding rates of real videos, in bit/s. With any other rate the headers are wrong, or the file is not a
/// video.
pub(crate) const PLAUSIBLE: std::ops::RangeInclusive<u64> = 1_000..=100_000_000_000;

impl Media {
    /// Reads the headers.
    pub fn probe(source: &impl Source) -> Result<Self, MediaError> {
        let length = source.length()?;
        let mut start = [0; 12];
        let got = source.read_at(0, &mut start)?;
        let (container, duration) = match &start[..got] {
            [0x1a, 0x45, 0xdf, 0xa3, ..] => (Container::WebM, webm::duration(source, length)?),
            [_, _, _, _, kind @ ..] if kind.len() >= 4 && mp4::begins_with(&kind[..4]) => {
                (Container::Mp4, mp4::duration(source, length)?)
            }
            _ => return Err(MediaError::Unknown),
        };
        let media = Self {
            container,
            duration,
            length,
        };
        match media.bits_per_second() {
            Some(bits) if PLAUSIBLE.contains(&bits) => Ok(media),
            _ => Err(MediaError::Implausible(duration)),
        }
    }

    /// The encoding rate: the file's length over the time it plays.
    pub fn rate(&self) -> Rate {
        Rate::from_bits_per_second(self.bits_per_second().unwrap_or(0))
    }

    fn bits_per_second(&self) -> Option<u64> {
        let bits = u128::from(self.length) * 8 * 1_000_000_000;
        u64::try_from(bits.checked_div(self.duration.as_nanos())?).ok()
    }
}
