//! Comma-separated values (RFC 4180).

use std::borrow::Cow;

/// A text as a field: in quotes if it needs them.
pub fn field(text: &str) -> Cow<'_, str> {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")).into(),
        false => text.into(),
    }
}
