//! How long a fragmented file plays whose headers do not say it: each fragment states when it begins (ISO/IEC 14496-12, 8.8.12), and an
//! index at the end of the file has the beginnings of them all (8.8.9).
//!
//! Two fragments of a track tell how fast the bytes between them play. All of the file is assumed to play as fast.

use std::time::Duration;

use super::{Header, field, header, units, version};
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
    let times = |track: u32, [from, to]: [Beginning; 2]| {
        let scale = scale(source, movie, track)?;
        let time = units(to.time.checked_sub(from.time)?, scale.into())?;
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
fn scale(source: &impl Source, movie: &Header, track: u32) -> Option<u32> {
    let number = |around: &Header| {
        let offset = match version(source, around).ok()? {
            0 => 12,
            _ => 20,
        };
        field(source, around, offset).ok().map(u32::from_be_bytes)
    };
    let tracks = children(source, movie, b"trak");
    let is_wanted = |of: &Header| {
        let mut heads = children(source, of, b"tkhd");
        heads.next().and_then(|head| number(&head)) == Some(track)
    };
    let wanted = tracks.into_iter().find(is_wanted)?;
    let media = children(source, &wanted, b"mdia").next()?;
    let head = children(source, &media, b"mdhd").next()?;
    number(&head)
}

/// The first and the last fragment of a track in the index at the end of the file.
fn indexed(source: &impl Source, length: u64) -> Option<(u32, [Beginning; 2])> {
    let last = header(source, length.checked_sub(16)?, length).ok()?;
    if &last.kind != b"mfro" {
        return None;
    }
    let size = u32::from_be_bytes(field(source, &last, 4).ok()?);
    let index = header(source, length.checked_sub(size.into())?, length).ok()?;
    if &index.kind != b"mfra" {
        return None;
    }
    let tracks = children(source, &index, b"tfra");
    let ends = tracks.into_iter().filter_map(|track| {
        let word = |offset| number(source, &track, offset, false);
        let (track_id, sizes, count) = (word(4)?, word(8)?, word(12)?);
        let wide = version(source, &track).ok()? != 0;
        let width = if wide { 8 } else { 4 };
        // Three numbers of one to four bytes follow the time and the place.
        let numbers: u64 = [0, 2, 4].map(|bit| (sizes >> bit & 3) + 1).iter().sum();
        let at = |entry: u64| {
            let place = 16 + entry * (2 * width + numbers);
            Some(Beginning {
                time: number(source, &track, place, wide)?,
                offset: number(source, &track, place + width, wide)?,
            })
        };
        let ends = [at(0)?, at(count.checked_sub(1)?)?];
        Some((u32::try_from(track_id).ok()?, ends))
    });
    // The track whose fragments lie furthest apart tells most.
    ends.max_by_key(|(_, [from, to])| to.offset.saturating_sub(from.offset))
}

/// The first and the last fragment of a track, as far as they are looked at, and whether what is there of the file ends before.
fn walked(source: &impl Source, first: u64, length: u64) -> Option<(u32, [Beginning; 2], bool)> {
    let (mut at, mut cut) = (first, false);
    let mut found: Option<(u32, [Beginning; 2])> = None;
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
fn beginning(source: &impl Source, part: &Header) -> Option<(u32, u64)> {
    let head = children(source, part, b"tfhd").next()?;
    let track = u32::from_be_bytes(field(source, &head, 4).ok()?);
    let time = children(source, part, b"tfdt").next()?;
    let wide = version(source, &time).ok()? != 0;
    Some((track, number(source, &time, 4, wide)?))
}

/// A number of 64 bits if it is `wide`, otherwise of 32.
fn number(source: &impl Source, at: &Header, offset: u64, wide: bool) -> Option<u64> {
    match wide {
        true => field(source, at, offset).ok().map(u64::from_be_bytes),
        false => {
            let number = field(source, at, offset).ok().map(u32::from_be_bytes);
            number.map(u64::from)
        }
    }
}
