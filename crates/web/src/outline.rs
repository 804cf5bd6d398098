//! A scenario's text by lines: which keys its tables have, and where. Also of a text that is not valid, since it is being written.

use std::ops::Range;

use tidegate_lab::scenario::SECTIONS;
use tidegate_notation::{Key, Section};

/// A key with its value.
pub struct Entry<'a> {
    pub key: &'a str,
    /// Its value, with quotes, without a comment.
    pub value: &'a str,
    /// Where the value is.
    pub place: Range<usize>,
    /// Where the line is, with its end.
    pub line: Range<usize>,
}

impl Entry<'_> {
    /// The value without quotes.
    pub fn text(&self) -> &str {
        self.value.trim_matches('"')
    }
}

/// A table of the text: what follows a heading such as `[[element]]`.
pub struct Part<'a> {
    /// The heading; empty above the first one.
    pub heading: &'a str,
    /// Its lines, with the heading.
    pub place: Range<usize>,
    pub entries: Vec<Entry<'a>>,
}

impl Part<'_> {
    /// The entry of a key.
    pub fn entry(&self, key: &str) -> Option<&Entry<'_>> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The sections whose keys the table may have.
    pub fn sections(&self) -> Vec<&'static Section> {
        let heading = if self.heading.is_empty() {
            "the file"
        } else {
            self.heading
        };
        let mut found: Vec<_> = section(heading).into_iter().collect();
        if heading == "[[element]]"
            && let Some(kind) = self.entry("kind")
        {
            found.extend(kind_section("", kind.text()));
        }
        found
    }

    /// The keys that the table may have.
    pub fn keys(&self) -> impl Iterator<Item = &'static Key> {
        let sections = self.sections().into_iter();
        sections.flat_map(|section| section.keys)
    }
}

/// The tables of a text.
pub fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = vec![Part {
        heading: "",
        place: 0..0,
        entries: Vec::new(),
    }];
    let mut begin = 0;
    for line in text.split_inclusive('\n') {
        let place = begin..begin + line.len();
        begin = place.end;
        let bare = uncommented(line).trim();
        if bare.starts_with('[') && bare.ends_with(']') {
            parts.push(Part {
                heading: bare,
                place: place.clone(),
                entries: Vec::new(),
            });
        } else if let Some((key, value)) = bare.split_once('=')
            && let Some(part) = parts.last_mut()
        {
            let value = value.trim();
            let at = place.start + (value.as_ptr() as usize - line.as_ptr() as usize);
            part.entries.push(Entry {
                key: key.trim(),
                value,
                place: at..at + value.len(),
                line: place.clone(),
            });
        }
        if let Some(part) = parts.last_mut() {
            part.place.end = place.end;
        }
    }
    parts
}

/// A line without its comment.
pub fn uncommented(line: &str) -> &str {
    let mut is_quoted = false;
    for (i, byte) in line.bytes().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'#' if !is_quoted => return &line[..i],
            _ => {}
        }
    }
    line
}

/// A section by its name.
pub fn section(name: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|section| section.name == name)
}

/// The kind that a section's name is for: of `KEY = { kind = "…" }`, or of an element if there is no key.
fn kind_of(section: &Section, key: &str) -> Option<&'static str> {
    let rest = if key.is_empty() {
        section.name.strip_prefix("kind = \"")?
    } else {
        let rest = section.name.strip_prefix(key)?;
        rest.strip_prefix(" = { kind = \"")?
    };
    rest.split('"').next()
}

/// The section of a kind.
pub fn kind_section(key: &str, kind: &str) -> Option<&'static Section> {
    SECTIONS
        .iter()
        .find(|section| kind_of(section, key) == Some(kind))
}

/// All kinds of elements, or of the values of a key.
pub fn kinds(key: &str) -> impl Iterator<Item = (&'static str, &'static Section)> {
    SECTIONS
        .iter()
        .filter_map(move |section| Some((kind_of(section, key)?, section)))
}
