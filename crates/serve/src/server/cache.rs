//! For how long caches may keep which files.

use std::path::Path;
use std::str::FromStr;

use hyper::header::HeaderValue;

/// A Cache-Control header for the files of a pattern.
#[derive(Debug, Clone)]
pub struct CacheRule {
    pattern: glob::Pattern,
    control: HeaderValue,
}

/// A text that is no [`CacheRule`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a rule for caches: {why}")]
pub struct CacheError {
    text: String,
    why: String,
}

impl FromStr for CacheRule {
    type Err = CacheError;

    /// `PATTERN=VALUE`. In the pattern `*` stands for any characters, `/` among them, and `?` for one.
    fn from_str(text: &str) -> Result<Self, CacheError> {
        let wrong = |why: String| CacheError {
            text: text.to_owned(),
            why,
        };
        let example = "write a pattern and a value of Cache-Control, such as '*.m4s=max-age=86400'";
        let (pattern, control) = text.split_once('=').ok_or_else(|| wrong(example.into()))?;
        if pattern.is_empty() || control.trim().is_empty() {
            return Err(wrong(example.into()));
        }
        let pattern = glob::Pattern::new(pattern.trim_start_matches('/'));
        Ok(Self {
            pattern: pattern.map_err(|error| wrong(format!("in the pattern, {}", error.msg)))?,
            control: HeaderValue::from_str(control.trim())
                .map_err(|_| wrong("the value has characters that a header cannot have".into()))?,
        })
    }
}

/// What the first rule says whose pattern matches a path in the folder.
pub(super) fn control<'a>(rules: &'a [CacheRule], path: &Path) -> Option<&'a HeaderValue> {
    let rule = rules.iter().find(|rule| rule.pattern.matches_path(path))?;
    Some(&rule.control)
}
