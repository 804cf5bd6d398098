//! How long a fragmented file plays whose headers do not say it: each fragment states when it begins (ISO/IEC 14496-12, 8.8.12), and an
//! index at the end of the file has the beginnings of them all (8.8.9).
//!
//! Two fragments of a track tell how fast the bytes between them play. All of the file is assumed to play as fast.

use std::time::Duration;

use super::{Header, header, number, units, version};
use crate::media::error::MediaError;
use crate::media::source::Source;

/// Most fragments that are looked at. Each costs some reads from different places.
const MOST: usize = 256;
/// Most boxes in a box that are looked at.
const CHILDREN: usize = 64;
/// While the file is not complete, what is there must play for this time: single fragments differ.
const ENOUGH: Duration = Duration::from_secs(10);

/// Where a fragment is, and when a track's part of it begins, in units of the track's time.
#[derive(Debug, Clone, Copy)]
struct Beginning {
    offset: u64,
    time: u64,
}

/// The duration, from the movie box, the first fragment, and the length of the file.
pub(super) fn duration(
    source: &impl Source,
    movie: &Header,
    first: u64,
    length: u64,
) -> Result<Option<Duration>, MediaError> {
    let times = |track: u64, [from, to]: [Beginning; 2]| {
        let scale = scale(source, movie, track)?;
        let time = units(to.time.checked_sub(from.time)?, scale)?;
        let covered = to.offset.checked_sub(from.offset)?;
        let all = u128::from(length.checked_sub(first)?);
        // These have 64 bits each.
        let nanos = (time.as_nanos() * all).checked_div(covered.into())?;
        Some((time, units(u64::try_from(nanos).ok()?, 1_000_000_000)?))
    };
    if let Some((track, ends)) = indexed(source, length)
        && let Some((_, all)) = times(track, ends)
    {
        return Ok(Some(all));
    }
    let Some((track, ends, cut)) = walked(source, first, length) else {
        return Ok(None);
    };
    match times(track, ends) {
        Some((time, _)) if cut && time < ENOUGH => Err(MediaError::NoDuration),
        times => Ok(times.map(|(_, all)| all)),
    }
}

/// The boxes of one kind in a box, up to the first that is damaged.
fn children<'a, S: Source>(
    source: &'a S,
    around: &Header,
    kind: &'a [u8; 4],
) -> impl Iterator<Item = Header> + use<'a, S> {
    let (mut at, end) = (around.content, around.end);
    let all = std::iter::from_fn(move || {
        let next = (at < end).then(|| header(source, at, end).ok()).flatten()?;
        at = next.end;
        Some(next)
    });
    all.take(CHILDREN).filter(move |next| next.kind == *kind)
}

/// Units in a second of a track's time.
fn scale(source: &impl Source, movie: &Header, track: u64) -> Option<u64> {
    // The number of a track, and the units of its time, are behind two times of 32 or of 64 bits.
    let behind_times = |at: &Header| {
        let offset = match version(source, at).ok()? {
            0 => 12,
            _ => 20,
        };
        number(source, at, offset, false).ok()
    };
    let is_wanted = |of: &Header| {
        let head = children(source, of, b"tkhd").next();
        head.and_then(|head| behind_times(&head)) == Some(track)
    };
    let wanted = children(source, movie, b"trak").find(is_wanted)?;
    let media = children(source, &wanted, b"mdia").next()?;
    let head = children(source, &media, b"mdhd").next()?;
    behind_times(&head)
}

/// The first and the last fragment of a track in the index at the end of the file.
fn indexed(source: &impl Source, length: u64) -> Option<(u64, [Beginning; 2])> {
    let last = header(source, length.checked_sub(16)?, length).ok()?;
    if &last.kind != b"mfro" {
        return None;
    }
    let size = number(source, &last, 4, false).ok()?;
    let index = header(source, length.checked_sub(size)?, length).ok()?;
    if &index.kind != b"mfra" {
        return None;
    }
    let ends = children(source, &index, b"tfra").filter_map(|track| {
        let number = |offset, wide| number(source, &track, offset, wide).ok();
        let (id, sizes, count) = (number(4, false)?, number(8, false)?, number(12, false)?);
        let wide = version(source, &track).ok()? != 0;
        let width = if wide { 8 } else { 4 };
        // Three numbers of one to four bytes follow the time and the place.
        let numbers: u64 = [0, 2, 4].map(|bit| (sizes >> bit & 3) + 1).iter().sum();
        let at = |entry: u64| {
            let place = 16 + entry * (2 * width + numbers);
            Some(Beginning {
                time: number(place, wide)?,
                offset: number(place + width, wide)?,
            })
        };
        Some((id, [at(0)?, at(count.checked_sub(1)?)?]))
    });
    // The track whose fragments lie furthest apart tells most.
    ends.max_by_key(|(_, [from, to])| to.offset.saturating_sub(from.offset))
}

/// The first and the last fragment of a track, as far as they are looked at, and whether what is there of the file ends before.
fn walked(source: &impl Source, first: u64, length: u64) -> Option<(u64, [Beginning; 2], bool)> {
    let (mut at, mut cut) = (first, false);
    let mut found: Option<(u64, [Beginning; 2])> = None;
    for _ in 0..2 * MOST {
        if at >= length {
            break;
        }
        let Ok(next) = header(source, at, length) else {
            cut = true;
            break;
        };
        if &next.kind == b"moof" {
            for part in children(source, &next, b"traf") {
                let Some((track, time)) = beginning(source, &part) else {
                    continue;
                };
                let this = Beginning { offset: at, time };
                match &mut found {
                    Some((known, [_, last])) if *known == track => *last = this,
                    Some(_) => {}
                    None => found = Some((track, [this; 2])),
                }
            }
        }
        at = next.end;
    }
    found.map(|(track, ends)| (track, ends, cut))
}

/// The track of a part of a fragment, and when it begins.
fn beginning(source: &impl Source, part: &Header) -> Option<(u64, u64)> {
    let head = children(source, part, b"tfhd").next()?;
    let track = number(source, &head, 4, false).ok()?;
    let time = children(source, part, b"tfdt").next()?;
    let wide = version(source, &time).ok()? != 0;
    Some((track, number(source, &time, 4, wide).ok()?))
}
