//! Range requests (RFC 9110, section 14).

#[cfg(test)]
mod tests;

/// The bytes of a file that are wanted: the first, and the one after the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub start: u64,
    pub end: u64,
}

/// The result of a Range header.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All: there is no such header, it cannot be read, or it names several ranges. A server may ignore these (RFC 9110, section
    /// 14.2).
    Whole,
    /// One part: 206.
    Part(Span),
    /// The range is outside of the file: 416.
    Unsatisfiable,
}

/// Reads a Range header for a file of this many bytes.
///
/// Several ranges in one request are ignored. No browser's player sends them, and they let a small request cost much (RFC 9110, section
/// 17.15).
pub(super) fn wanted(header: &str, length: u64) -> Wanted {
    let Some((unit, set)) = header.split_once('=') else {
        return Wanted::Whole;
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Wanted::Whole;
    }
    // A list may have empty elements (RFC 9110, section 5.6.1.2).
    let mut specs = set
        .split(',')
        .map(str::trim)
        .filter(|spec| !spec.is_empty());
    let (Some(spec), None) = (specs.next(), specs.next()) else {
        return Wanted::Whole;
    };
    let Some((first, last)) = spec.split_once('-') else {
        return Wanted::Whole;
    };
    let span = match (number(first), number(last)) {
        // A suffix: this many bytes at the end.
        (None, Some(suffix)) if first.is_empty() => Span {
            start: length.saturating_sub(suffix),
            end: length,
        },
        (Some(start), None) if last.is_empty() => Span { start, end: length },
        (Some(start), Some(last)) if start <= last => Span {
            start,
            end: last.saturating_add(1).min(length),
        },
        _ => return Wanted::Whole,
    };
    if span.start >= span.end {
        return Wanted::Unsatisfiable;
    }
    Wanted::Part(span)
}

/// Digits only. More than 64 bits of them give the largest number.
fn number(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX))
}
