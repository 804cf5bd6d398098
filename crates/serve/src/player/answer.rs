//! What a server answers with, in any version of HTTP.

use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Bytes;

use super::error::PlayError;

/// The content of an answer.
pub(super) type Answer = UnsyncBoxBody<Bytes, PlayError>;
