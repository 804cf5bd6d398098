//! What a server has to know of a video: how long it plays, and so how fast it must be sent.
//!
//! Only as much of a file is read as tells the duration: a few headers of MP4 (ISO/IEC 14496-12) or WebM (a Matroska file, RFC 9559).
//! Files are hostile: lengths are checked before they are used, and the steps to the answer are counted.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use tidegate_limiter::Rate;

pub mod make;
mod mp4;
#[cfg(test)]
mod tests;
mod webm;

/// Bytes that can be read at any place.
pub trait Source {
    /// Reads at `offset`; fewer bytes than asked for where it ends.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Its length in bytes, also of what cannot be read yet.
    fn length(&self) -> io::Result<u64>;
}

impl Source for File {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match FileExt::read_at(self, &mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

/// The beginning of a file, as a player has it that still fetches.
#[derive(Debug, Clone, Copy)]
pub struct Prefix<'a> {
    /// The bytes that are there.
    pub bytes: &'a [u8],
    /// How long the whole file is, in bytes.
    pub length: u64,
}

impl Source for Prefix<'_> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.bytes.get(offset..))
            .unwrap_or(&[]);
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.length)
    }
}

/// The format that holds the video.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// MP4, QuickTime, M4V: ISO base media.
    Mp4,
    /// WebM and Matroska.
    WebM,
}

/// What a video's headers say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Media {
    /// The format.
    pub container: Container,
    /// How long it plays.
    pub duration: Duration,
    /// The file's length in bytes.
    pub length: u64,
}

/// Why the duration is not known.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// Neither MP4 nor WebM.
    #[error("it is neither MP4 nor WebM")]
    Unknown,
    /// A length or value in the headers cannot be.
    #[error("its headers are damaged at byte {0}")]
    Damaged(u64),
    /// The headers end before they say the duration.
    #[error("its headers do not say how long it plays")]
    NoDuration,
    /// A duration that no video of this length has.
    #[error("its headers say that it plays {0:?}, which cannot be for a file of this length")]
    Implausible(Duration),
    /// It could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Slower and faster than any video: such headers lie, or the file is no video.
const PLAUSIBLE: std::ops::RangeInclusive<u64> = 1_000..=100_000_000_000;

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

/// `count` units of `1/scale` seconds; `None` where there is no such time.
fn units(count: u64, scale: u64) -> Option<Duration> {
    let nanos = (u128::from(count) * 1_000_000_000).checked_div(u128::from(scale))?;
    match u64::try_from(nanos) {
        Ok(0) | Err(_) => None,
        Ok(nanos) => Some(Duration::from_nanos(nanos)),
    }
}

/// Reads exactly so many bytes, or says that the headers end here.
fn bytes<const N: usize>(source: &impl Source, offset: u64) -> Result<[u8; N], MediaError> {
    let mut buffer = [0; N];
    match source.read_at(offset, &mut buffer)? {
        n if n == N => Ok(buffer),
        _ => Err(MediaError::NoDuration),
    }
}
