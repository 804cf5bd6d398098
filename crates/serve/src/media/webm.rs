//! The duration of a WebM file: Segment, Info, Duration in units of TimestampScale (RFC 9559, section 5.1.2).

use std::time::Duration;

use super::error::MediaError;
use super::source::{Source, bytes};

const EBML: u32 = 0x1a45_dfa3;
const SEGMENT: u32 = 0x1853_8067;
const INFO: u32 = 0x1549_a966;
const CLUSTER: u32 = 0x1f43_b675;
const TIMESTAMP_SCALE: u32 = 0x002a_d7b1;
const DURATION: u32 = 0x4489;

/// Most elements that are read on each level. Info comes early, behind a few others.
const MAX_ELEMENTS: u32 = 1_000;

struct Element {
    id: u32,
    content: u64,
    /// `None`: up to the end of the element around it (RFC 8794, section 6.2).
    end: Option<u64>,
}

/// A number whose first bits give its length (RFC 8794, section 4), and that length.
fn number(
    source: &impl Source,
    at: u64,
    longest: u32,
    marked: bool,
) -> Result<(u64, u64), MediaError> {
    let [first] = bytes::<1>(source, at)?;
    let length = first.leading_zeros() + 1;
    if length > longest {
        return Err(MediaError::Damaged(at));
    }
    let mut value = u64::from(first);
    if !marked {
        value &= (1 << (8 - length)) - 1;
    }
    for i in 1..u64::from(length) {
        let [byte] = bytes::<1>(source, at + i)?;
        value = value << 8 | u64::from(byte);
    }
    Ok((value, length.into()))
}

fn element(source: &impl Source, at: u64, limit: u64) -> Result<Element, MediaError> {
    let (id, id_length) = number(source, at, 4, true)?;
    let (size, size_length) = number(source, at + id_length, 8, false)?;
    let content = at + id_length + size_length;
    let unknown = size == (1 << (7 * size_length)) - 1;
    let end = content.checked_add(size).ok_or(MediaError::Damaged(at))?;
    if !unknown && end > limit {
        return Err(MediaError::Damaged(at));
    }
    Ok(Element {
        id: u32::try_from(id).map_err(|_| MediaError::Damaged(at))?,
        content,
        end: (!unknown).then_some(end),
    })
}

pub(super) fn duration(source: &impl Source, length: u64) -> Result<Duration, MediaError> {
    let segment = find(source, 0, length, SEGMENT)?;
    // A segment may be longer than the part that was written.
    let end = segment.end.unwrap_or(length).min(length);
    let info = find(source, segment.content, end, INFO)?;
    let end = info.end.ok_or(MediaError::Damaged(info.content))?;
    let (mut at, mut scale, mut duration) = (info.content, 1_000_000, None);
    for _ in 0..MAX_ELEMENTS {
        if at >= end {
            break;
        }
        let next = element(source, at, end)?;
        let next_end = next.end.ok_or(MediaError::Damaged(at))?;
        let size = next_end - next.content;
        match next.id {
            TIMESTAMP_SCALE if size <= 8 => {
                scale = 0;
                for i in 0..size {
                    let [byte] = bytes::<1>(source, next.content + i)?;
                    scale = scale << 8 | u64::from(byte);
                }
            }
            DURATION if size == 4 => {
                duration = Some(f32::from_be_bytes(bytes(source, next.content)?).into());
            }
            DURATION if size == 8 => {
                duration = Some(f64::from_be_bytes(bytes(source, next.content)?));
            }
            _ => {}
        }
        at = next_end;
    }
    let duration: f64 = duration.ok_or(MediaError::NoDuration)?;
    let seconds = duration * scale as f64 / 1e9;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(MediaError::Damaged(info.content)),
    }
}

/// The first element with this identifier, before the first cluster.
fn find(source: &impl Source, mut at: u64, end: u64, id: u32) -> Result<Element, MediaError> {
    for _ in 0..MAX_ELEMENTS {
        if at >= end {
            break;
        }
        let next = element(source, at, end).or_else(|error| match error {
            // The segment may state a larger size than was written.
            MediaError::Damaged(_) if id == SEGMENT => open(source, at),
            error => Err(error),
        })?;
        if next.id == id {
            return Ok(next);
        }
        if next.id == CLUSTER || (at == 0 && next.id != EBML) {
            break;
        }
        at = next.end.ok_or(MediaError::NoDuration)?;
    }
    Err(MediaError::NoDuration)
}

/// An element whose end does not matter.
fn open(source: &impl Source, at: u64) -> Result<Element, MediaError> {
    let element = element(source, at, u64::MAX)?;
    Ok(Element {
        end: None,
        ..element
    })
}
