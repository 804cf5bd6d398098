//! The duration of an MP4 file comes from the movie header. In a fragmented file that header covers only the samples before the
//! fragments, so the duration comes from the extends header, or from the first segment index (ISO/IEC 14496-12, 8.2.2, 8.8.2, 8.16.3), or from
//! the fragments themselves.

mod fragments;

use std::time::Duration;

use super::error::MediaError;
use super::source::{Source, bytes};

/// Most boxes that are read. A fragmented hour has some thousands of fragments, but gives its duration before them.
const MAX_BOXES: u32 = 10_000;

/// A box's first bytes.
struct Header {
    kind: [u8; 4],
    /// Where its content begins.
    content: u64,
    /// Where the next box begins.
    end: u64,
}

/// Whether a file can begin with such a box.
pub(super) fn begins_with(kind: &[u8]) -> bool {
    [
        b"ftyp", b"styp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot",
    ]
    .iter()
    .any(|known| *known == kind)
}

fn header(source: &impl Source, at: u64, limit: u64) -> Result<Header, MediaError> {
    let [a, b, c, d, kind @ ..] = bytes::<8>(source, at)?;
    let (length, content) = match u32::from_be_bytes([a, b, c, d]) {
        // The box extends to the end of the box around it.
        0 => (limit - at, at + 8),
        1 => (u64::from_be_bytes(bytes(source, at + 8)?), at + 16),
        length => (u64::from(length), at + 8),
    };
    let end = at.checked_add(length).ok_or(MediaError::Damaged(at))?;
    if end < content || end > limit {
        return Err(MediaError::Damaged(at));
    }
    Ok(Header { kind, content, end })
}

/// The values that were found.
#[derive(Default)]
struct Durations {
    movie: Option<Duration>,
    /// Units of the movie's time in a second.
    scale: u64,
    /// Whether fragments may follow the movie box: it has an `mvex` then.
    fragmented: bool,
    extends: Option<u64>,
    index: Option<Duration>,
    /// Only the first index is read, even if it is wrong.
    seen_index: bool,
}

pub(super) fn duration(source: &impl Source, length: u64) -> Result<Duration, MediaError> {
    let mut found = Durations::default();
    let mut left = MAX_BOXES;
    let mut at = 0;
    let (mut seen_movie, mut fragment) = (None, None);
    while at < length && left > 0 {
        left -= 1;
        let next = match header(source, at, length) {
            Ok(next) => next,
            // A file that is cut in its last fragment still plays.
            Err(_) if seen_movie.is_some() => break,
            Err(error) => return Err(error),
        };
        match &next.kind {
            b"moov" => {
                movie(source, &next, &mut found, &mut left)?;
                seen_movie = Some(Header { ..next });
            }
            b"sidx" if !found.seen_index => {
                found.seen_index = true;
                found.index = index(source, &next, length)?;
            }
            // Fragments: an index comes before them.
            b"moof" if seen_movie.is_some() => {
                fragment = Some(at);
                break;
            }
            _ => {}
        }
        if found.header().is_some() {
            break;
        }
        at = next.end;
    }
    let mut duration = found.header().or(found.index);
    if let (None, Some(movie), Some(first)) = (duration, &seen_movie, fragment) {
        duration = fragments::duration(source, movie, first, length)?;
    }
    duration.ok_or(MediaError::NoDuration)
}

impl Durations {
    /// The duration by the movie box.
    fn header(&self) -> Option<Duration> {
        match self.fragmented {
            true => units(self.extends?, self.scale),
            false => self.movie,
        }
    }
}

fn movie(
    source: &impl Source,
    movie: &Header,
    found: &mut Durations,
    left: &mut u32,
) -> Result<(), MediaError> {
    let mut at = movie.content;
    while at < movie.end && *left > 0 {
        *left -= 1;
        let next = header(source, at, movie.end)?;
        match &next.kind {
            b"mvhd" => {
                let (scale, duration) = movie_header(source, &next)?;
                found.scale = scale;
                found.movie = duration.and_then(|duration| units(duration, scale));
            }
            b"mvex" => {
                found.fragmented = true;
                extends(source, &next, found, left)?;
            }
            _ => {}
        }
        at = next.end;
    }
    Ok(())
}

/// Reads the overall duration in a movie extends box. A box in it that is damaged hides what is behind it.
fn extends(
    source: &impl Source,
    extends: &Header,
    found: &mut Durations,
    left: &mut u32,
) -> Result<(), MediaError> {
    let mut at = extends.content;
    while at < extends.end && *left > 0 {
        *left -= 1;
        let Ok(next) = header(source, at, extends.end) else {
            break;
        };
        if &next.kind == b"mehd" {
            let wide = version(source, &next)? != 0;
            found.extends = Some(number(source, &next, 4, wide)?);
        }
        at = next.end;
    }
    Ok(())
}

/// Units in a second, and the number of units if it is known.
fn movie_header(source: &impl Source, at: &Header) -> Result<(u64, Option<u64>), MediaError> {
    let (scale, duration) = match version(source, at)? {
        0 => {
            let scale = u32::from_be_bytes(field(source, at, 12)?);
            let duration = u32::from_be_bytes(field(source, at, 16)?);
            (scale, (duration != u32::MAX).then_some(duration.into()))
        }
        _ => {
            let scale = u32::from_be_bytes(field(source, at, 20)?);
            let duration = u64::from_be_bytes(field(source, at, 24)?);
            (scale, (duration != u64::MAX).then_some(duration))
        }
    };
    if scale == 0 {
        return Err(MediaError::Damaged(at.content));
    }
    Ok((scale.into(), duration))
}

/// The duration of the file by a segment index. The index may cover only a part of the file, such
/// as one fragment. Data after that part is assumed to play as fast as the part.
fn index(source: &impl Source, at: &Header, length: u64) -> Result<Option<Duration>, MediaError> {
    let scale = u32::from_be_bytes(field(source, at, 8)?);
    let (references, first) = match version(source, at)? {
        0 => (20, number(source, at, 16, false)?),
        _ => (28, number(source, at, 20, true)?),
    };
    let count = u16::from_be_bytes(field(source, at, references + 2)?);
    // At most 786,420 bytes, in one step.
    let place = at.content + references + 4;
    let mut table = vec![0; usize::from(count) * 12];
    if at.end < place + table.len() as u64 {
        return Err(MediaError::Damaged(place));
    }
    if source.read_at(place, &mut table)? < table.len() {
        return Err(MediaError::NoDuration);
    }
    let (mut covered, mut sum) = (0_u64, 0_u64);
    for reference in table.chunks_exact(12) {
        let [k, l, m, n, a, b, c, d, ..] = *reference else {
            continue;
        };
        // The first bit says what kind of box it refers to.
        covered += u64::from(u32::from_be_bytes([k & 0x7f, l, m, n]));
        sum += u64::from(u32::from_be_bytes([a, b, c, d]));
    }
    // The data that it covers begins this far behind it.
    let begin = at.end.saturating_add(first);
    let rest = u128::from(length.saturating_sub(begin));
    Ok(units(sum, scale.into()).and_then(|duration| {
        // These have 64 bits each.
        let nanos = (duration.as_nanos() * rest).checked_div(covered.into())?;
        units(u64::try_from(nanos).ok()?, 1_000_000_000)
    }))
}

fn version(source: &impl Source, at: &Header) -> Result<u8, MediaError> {
    field::<1>(source, at, 0).map(|[version]| version)
}

/// A number in a box's content, of 64 bits if it is `wide`, otherwise of 32.
fn number(source: &impl Source, at: &Header, offset: u64, wide: bool) -> Result<u64, MediaError> {
    Ok(match wide {
        true => u64::from_be_bytes(field(source, at, offset)?),
        false => u32::from_be_bytes(field(source, at, offset)?).into(),
    })
}

/// Bytes of a box's content, which must lie in it.
fn field<const N: usize>(
    source: &impl Source,
    at: &Header,
    offset: u64,
) -> Result<[u8; N], MediaError> {
    let place = at.content + offset;
    if at.end - at.content < offset + N as u64 {
        return Err(MediaError::Damaged(place));
    }
    bytes(source, place)
}

/// `count` units of `1/scale` seconds; `None` if there is no such time.
fn units(count: u64, scale: u64) -> Option<Duration> {
    let nanos = (u128::from(count) * 1_000_000_000).checked_div(u128::from(scale))?;
    match u64::try_from(nanos) {
        Ok(0) | Err(_) => None,
        Ok(nanos) => Some(Duration::from_nanos(nanos)),
    }
}
