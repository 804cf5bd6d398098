//! Conditional requests (RFC 9110, section 13).

use std::time::{Duration, SystemTime};

use hyper::header::{
    HeaderMap, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
};

#[cfg(test)]
mod tests;

/// The values that distinguish versions of a file.
#[derive(Debug, Clone)]
pub(super) struct Validators {
    /// A strong entity tag, with its quotes.
    pub etag: String,
    /// When it was last changed, in whole seconds.
    pub modified: SystemTime,
}

/// The result of the conditions.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Answer as if there were no conditions.
    Proceed,
    /// 304: the client has the current version.
    NotModified,
    /// 412: a condition is not met.
    Failed,
}

impl Validators {
    /// Evaluates the conditions of a GET or HEAD in their order (RFC 9110, section 13.2.2).
    pub fn evaluate(&self, headers: &HeaderMap) -> Outcome {
        if headers.contains_key(IF_MATCH) {
            if !self.listed(headers, &IF_MATCH, false) {
                return Outcome::Failed;
            }
        } else if let Some(date) = date(headers, &IF_UNMODIFIED_SINCE)
            && self.modified > date
        {
            return Outcome::Failed;
        }
        if headers.contains_key(IF_NONE_MATCH) {
            if self.listed(headers, &IF_NONE_MATCH, true) {
                return Outcome::NotModified;
            }
        } else if let Some(date) = date(headers, &IF_MODIFIED_SINCE)
            && self.modified <= date
        {
            return Outcome::NotModified;
        }
        Outcome::Proceed
    }

    /// Whether If-Range allows a Range header (RFC 9110, section 13.1.5).
    pub fn range_holds(&self, headers: &HeaderMap, now: SystemTime) -> bool {
        let Some(value) = headers.get(IF_RANGE) else {
            return true;
        };
        let Ok(value) = value.to_str() else {
            return false;
        };
        // Strong comparison: a weak tag never matches.
        if value.starts_with('"') || value.starts_with("W/") {
            return value.trim() == self.etag;
        }
        // A date is a strong validator only if it cannot stand for two versions within one second (section 8.8.2.2).
        let old = now
            .duration_since(self.modified)
            .is_ok_and(|age| age >= Duration::from_secs(2));
        old && httpdate::parse_http_date(value).is_ok_and(|date| date == self.modified)
    }

    /// Whether a list of entity tags has ours, or is `*`.
    fn listed(&self, headers: &HeaderMap, name: &hyper::header::HeaderName, weak: bool) -> bool {
        headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            // Our tags contain no commas. So a tag with a comma is not one of ours, even if it is
            // split.
            .flat_map(|value| value.split(','))
            .map(str::trim)
            .any(|tag| {
                let tag = match tag.strip_prefix("W/") {
                    Some(tag) if weak => tag,
                    _ => tag,
                };
                tag == "*" || tag == self.etag
            })
    }
}

/// A date. A value that is not a date is ignored (RFC 9110, section 13.1.3).
fn date(headers: &HeaderMap, name: &hyper::header::HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}
