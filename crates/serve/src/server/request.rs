//! A request, as it is logged.

use std::time::{Instant, SystemTime};

use hyper::header::{HeaderName, REFERER, USER_AGENT};
use hyper::{StatusCode, Version};

/// Most bytes of a text from outside that are logged.
pub(super) const LONGEST_TEXT: usize = 1024;

/// A request, as it is logged. Its fields are known when it arrives.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub began: Instant,
    pub at: SystemTime,
    pub method: String,
    pub target: String,
    pub version: Version,
    pub referer: Option<String>,
    pub agent: Option<String>,
    pub range: Option<String>,
    /// Set when it is answered.
    pub status: StatusCode,
}

impl Request {
    pub fn of<B>(request: &hyper::Request<B>) -> Self {
        let header = |name: HeaderName| {
            let value = request.headers().get(name)?;
            let bytes = &value.as_bytes()[..value.len().min(LONGEST_TEXT)];
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        let mut target = match request.uri().path_and_query() {
            Some(target) => target.as_str().to_owned(),
            None => request.uri().to_string(),
        };
        let cut = (0..=LONGEST_TEXT.min(target.len()))
            .rev()
            .find(|&cut| target.is_char_boundary(cut));
        target.truncate(cut.unwrap_or(0));
        Self {
            began: Instant::now(),
            at: SystemTime::now(),
            method: request.method().as_str().chars().take(32).collect(),
            target,
            version: request.version(),
            referer: header(REFERER),
            agent: header(USER_AGENT),
            range: header(hyper::header::RANGE),
            status: StatusCode::OK,
        }
    }
}
