//! Which pages of other sites may read answers (the CORS protocol of the Fetch standard, section 3.3).

use std::fmt;
use std::str::FromStr;

use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, HeaderMap, HeaderValue, ORIGIN, VARY,
};

/// The headers of answers that pages may read, beside those that they always may.
const READABLE: &str = "accept-ranges, content-range, date, etag, tidegate-group, tidegate-rate";
/// For how long browsers may remember the answer to OPTIONS: a day, in seconds.
const REMEMBERED: &str = "86400";

/// An origin whose pages may read answers: `*` is any, otherwise `https://example.org` or with a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(HeaderValue);

/// A text that is no origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not an origin: write * for all, or such as https://example.org or http://localhost:3000"
)]
pub struct OriginError(String);

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        let wrong = || OriginError(text.to_owned());
        let host = text
            .strip_prefix("https://")
            .or(text.strip_prefix("http://"));
        let is_host =
            |host: &str| !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ', '*']);
        if text != "*" && !host.is_some_and(is_host) {
            return Err(wrong());
        }
        // Browsers write schemes and hosts in small letters.
        let value = HeaderValue::try_from(text.to_ascii_lowercase());
        value.map(Self).map_err(|_| wrong())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_str().unwrap_or_default())
    }
}

/// Adds to an answer what lets the pages of these origins read it. `asked` are the request's headers.
pub(super) fn allow(origins: &[Origin], asked: &HeaderMap, answer: &mut HeaderMap) {
    let allowed = match origins {
        [] => return,
        all if all.iter().any(|origin| origin.0 == "*") => HeaderValue::from_static("*"),
        some => {
            answer.insert(VARY, HeaderValue::from_static("origin"));
            let asks = asked.get(ORIGIN);
            match some.iter().find(|origin| asks == Some(&origin.0)) {
                Some(origin) => origin.0.clone(),
                None => return,
            }
        }
    };
    answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
    let readable = HeaderValue::from_static(READABLE);
    answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, readable);
}

/// Adds to the answer to OPTIONS what requests pages may send.
pub(super) fn describe(answer: &mut HeaderMap) {
    let methods = HeaderValue::from_static("GET, HEAD");
    answer.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    // Players send Range, conditions, and what CMCD (CTA-5004) calls its headers.
    answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*"));
    let remembered = HeaderValue::from_static(REMEMBERED);
    answer.insert(ACCESS_CONTROL_MAX_AGE, remembered);
}
