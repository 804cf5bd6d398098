//! A scenario's text: which keys its tables have, and where. Also of a text that is not valid, since it is being written.

use std::ops::Range;

use tidegate_lab::scenario::SECTIONS;
use tidegate_notation::{Key, Section};

/// Values that are not closed, before further ones are taken for a line each: a text that is being written has few, and the end of
/// each is looked for in the whole text.
const MOST_OPEN: usize = 16;

/// What texts stand between.
pub const QUOTES: [char; 2] = ['"', '\''];

/// A key with its value.
pub struct Entry<'a> {
    /// Without quotes around it.
    pub key: &'a str,
    /// Its value, with quotes, without a comment behind it.
    pub value: &'a str,
    /// Where the value is.
    pub place: Range<usize>,
    /// Where its lines are, with their ends.
    pub lines: Range<usize>,
}

impl Entry<'_> {
    /// The value without quotes.
    pub fn text(&self) -> &str {
        self.value.trim_matches(QUOTES)
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
    let mut open = 0;
    while let Some(line) = text[begin..].split_inclusive('\n').next() {
        let mut lines = begin..begin + line.len();
        let bare = uncommented(line).trim();
        if bare.starts_with('[') && bare.ends_with(']') {
            parts.push(Part {
                heading: bare,
                place: lines.clone(),
                entries: Vec::new(),
            });
        } else if let Some((key, value)) = bare.split_once('=')
            && let Some(part) = parts.last_mut()
        {
            let value = value.trim();
            let at = begin + (value.as_ptr() as usize - line.as_ptr() as usize);
            let mut place = at..at + value.len();
            if open < MOST_OPEN {
                if let Some((value, line)) = ends(&text[at..]) {
                    place.end = at + value;
                    lines.end = at + line;
                } else {
                    open += 1;
                }
            }
            part.entries.push(Entry {
                key: key.trim().trim_matches(QUOTES),
                value: &text[place.clone()],
                place,
                lines: lines.clone(),
            });
        }
        begin = lines.end;
        if let Some(part) = parts.last_mut() {
            part.place.end = lines.end;
        }
    }
    parts
}

/// Where the value ends that a text begins with, and where its last line does; nothing where a bracket or a quote of it is not closed.
fn ends(text: &str) -> Option<(usize, usize)> {
    let (mut at, mut end, mut depth) = (0, 0, 0_usize);
    while let Some(&byte) = text.as_bytes().get(at) {
        match byte {
            b'"' | b'\'' => at += string(&text[at..])?,
            b'#' => {
                at += text[at..].find('\n').unwrap_or(text.len() - at);
                continue;
            }
            b'\n' if depth == 0 => return Some((end, at + 1)),
            b'[' | b'{' => (at, depth) = (at + 1, depth + 1),
            b']' | b'}' => (at, depth) = (at + 1, depth.checked_sub(1)?),
            _ => at += 1,
        }
        if !byte.is_ascii_whitespace() {
            end = at;
        }
    }
    (depth == 0).then_some((end, at))
}

/// How long the string is that a text begins with, with its quotes; nothing where it is not closed.
fn string(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (quote, _) = bytes.split_first()?;
    let is_long = bytes.starts_with(&[*quote; 3]);
    let fence = &bytes[..if is_long { 3 } else { 1 }];
    let mut at = fence.len();
    while !bytes.get(at..)?.starts_with(fence) {
        at += match *bytes.get(at)? {
            b'\\' if *quote == b'"' => 2,
            // Only three quotes hold several lines.
            b'\n' if !is_long => return None,
            _ => 1,
        };
    }
    Some(at + fence.len())
}

/// A line without its comment.
pub fn uncommented(line: &str) -> &str {
    let mut at = 0;
    while let Some(byte) = line.as_bytes().get(at) {
        at += match byte {
            b'"' | b'\'' => string(&line[at..]).unwrap_or(line.len()),
            b'#' => return &line[..at],
            _ => 1,
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Every key of a text with its value.
    fn entries(text: &str) -> Vec<(&str, &str)> {
        let entries = parts(text).into_iter().flat_map(|part| part.entries);
        entries.map(|entry| (entry.key, entry.value)).collect()
    }

    #[test]
    fn a_value_ends_where_its_brackets_and_quotes_are_closed() {
        let values = [
            ("a", "[ # ]\n  \"]\", # one\n  '#',\n]"),
            ("b.c", "'# x'"),
            ("d", "\"\"\"\n[e]\nf = 1\n\"\"\""),
            ("g", "{ h = [\n[1, 2]\n] }"),
            ("i", "\"\\\"é\""),
        ];
        let [a, b, d, g, i] = values.map(|(_, value)| value);
        let text = format!("a = {a} # two\n\"b.c\" = {b} # y\nd = {d}\n'g' = {g}\r\ni = {i}");
        assert_eq!(entries(&text), values);
        let parts = parts(&text);
        assert_eq!(parts.len(), 1);
        let lines = parts[0].entries.iter();
        let lines: String = lines.map(|entry| &text[entry.lines.clone()]).collect();
        assert_eq!(lines, text);
    }

    #[test]
    fn a_value_that_is_not_closed_ends_with_its_line() {
        let text = "a = [\nb = \"c\n[d]\ne = 'f\n";
        assert_eq!(entries(text), [("a", "["), ("b", "\"c"), ("e", "'f")]);
        for text in ["a = \"\\", "a = '''", "a = ]\n", "=", "a = \"\"\"é\\é"] {
            assert_eq!(entries(text).len(), 1, "{text}");
        }
        // The time for a hostile text is linear in its length.
        assert_eq!(entries(&"a = [\n".repeat(100_000)).len(), 100_000);
    }
}
