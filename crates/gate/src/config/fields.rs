//! The values of a table of the file, each of its type, every key known. What is wrong is collected,
//! and reading goes on.

use std::fmt;
use std::ops::RangeInclusive;

use tidegate_notation::{Section, instead, quantity};
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::problem::{At, Place, Sink};

/// A value, and where it is.
pub(super) type Node<'a> = Spanned<DeValue<'a>>;

/// A table that is being read.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    table: &'a DeTable<'a>,
    file: u32,
    at: usize,
    /// What the table is, for messages: `a plan`.
    what: &'a str,
    /// Some key is unknown: one that is missing may be meant by it.
    mistyped: bool,
    pub sink: &'a Sink,
}

/// A number in decimal, however it is written.
pub(super) fn decimal(number: &DeInteger<'_>) -> String {
    let value = i64::from_str_radix(number.as_str(), number.radix());
    value.map_or_else(|_| number.as_str().to_owned(), |value| value.to_string())
}

/// What a value is, for messages.
pub(super) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

impl<'a> Fields<'a> {
    /// A table; keys that no section knows are told.
    pub fn of(
        table: &'a DeTable<'a>,
        at: usize,
        what: &'a str,
        sections: &[Section],
        sink: &'a Sink,
    ) -> Self {
        let file = 0;
        let mut fields = Self {
            table,
            file,
            at,
            what,
            mistyped: false,
            sink,
        };
        let known = || sections.iter().flat_map(|section| section.keys);
        for (key, _) in table {
            let name: &str = key.get_ref();
            if !known().any(|key| key.name == name) {
                let place = fields.place_at(key.span().start);
                fields.mistyped = true;
                sink.wrong_with(place, || {
                    let meant = instead(name, known().map(|key| key.name));
                    (format!("unknown key `{name}` in {what}{meant}"), None)
                });
            }
        }
        fields
    }

    /// The table that a value is, if it is one.
    pub fn new(
        node: &'a Node<'a>,
        what: &'a str,
        sections: &[Section],
        sink: &'a Sink,
    ) -> Option<Self> {
        match node.get_ref() {
            DeValue::Table(table) => Some(Self::of(table, node.span().start, what, sections, sink)),
            other => {
                let place = Place {
                    file: 0,
                    at: At::Byte(node.span().start),
                };
                sink.wrong(place, format!("{what} is a table, not {}", kind(other)));
                None
            }
        }
    }

    /// Where the table begins.
    pub fn place(&self) -> Place {
        self.place_at(self.at)
    }

    fn place_at(&self, at: usize) -> Place {
        Place {
            file: self.file,
            at: At::Byte(at),
        }
    }

    /// Where a value begins.
    pub fn place_of(&self, node: &Node<'_>) -> Place {
        self.place_at(node.span().start)
    }

    fn tell(&self, at: usize, message: String) {
        self.sink.wrong(self.place_at(at), message);
    }

    /// That something is wrong with a value.
    pub fn wrong(&self, node: &Node<'_>, message: impl fmt::Display) {
        self.tell(node.span().start, message.to_string());
    }

    /// That a key is needed and not there.
    pub fn missing(&self, key: &str) {
        if self.mistyped {
            return;
        }
        self.tell(self.at, format!("`{key}` is missing in {}", self.what));
    }

    /// That something is wrong with a key's value, or with the table if it has none.
    pub fn wrong_key(&self, key: &str, message: impl fmt::Display) {
        let at = self.node(key).map_or(self.at, |node| node.span().start);
        self.tell(at, message.to_string());
    }

    /// The value of a key.
    pub fn node(&self, key: &str) -> Option<&'a Node<'a>> {
        self.table.get(key)
    }

    /// Text.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.text_of(self.node(key)?, key)
    }

    /// A value as text.
    pub fn text_of(&self, node: &'a Node<'a>, key: &str) -> Option<&'a str> {
        match node.get_ref() {
            DeValue::String(text) => Some(text),
            other => {
                let kind = kind(other);
                self.wrong(node, format!("`{key}` is text in quotes, not {kind}"));
                None
            }
        }
    }

    /// One value, or a list of them.
    pub fn many(&self, key: &str) -> Vec<&'a Node<'a>> {
        match self.node(key) {
            None => Vec::new(),
            Some(node) => match node.get_ref() {
                DeValue::Array(list) => list.iter().collect(),
                _ => vec![node],
            },
        }
    }

    /// The tables of an array of tables.
    pub fn tables(&self, key: &str) -> Vec<&'a Node<'a>> {
        match self.node(key) {
            None => Vec::new(),
            Some(node) => match node.get_ref() {
                DeValue::Array(list) => list.iter().collect(),
                _ => {
                    let message =
                        format!("write [[{key}]] with two brackets: there may be several");
                    self.wrong(node, message);
                    Vec::new()
                }
            },
        }
    }

    /// A quantity with its unit, in quotes.
    pub fn quantity(
        &self,
        node: &'a Node<'a>,
        key: &str,
        read: fn(&str) -> Result<u64, String>,
    ) -> Option<u64> {
        let text = match node.get_ref() {
            DeValue::String(text) => text.to_string(),
            // Told as a missing unit.
            DeValue::Integer(number) => decimal(number),
            DeValue::Float(number) => number.as_str().to_owned(),
            other => {
                let kind = kind(other);
                self.wrong(node, format!("`{key}` is a quantity in quotes, not {kind}"));
                return None;
            }
        };
        match read(&text) {
            Ok(value) => Some(value),
            Err(message) => {
                self.wrong(node, format!("`{key}`: {message}"));
                None
            }
        }
    }

    /// A quantity that is not 0.
    fn positive(&self, key: &str, read: fn(&str) -> Result<u64, String>) -> Option<u64> {
        let node = self.node(key)?;
        let value = self.quantity(node, key, read)?;
        if value == 0 {
            self.wrong(node, format!("`{key}` must be more than 0"));
            return None;
        }
        Some(value)
    }

    /// A time in nanoseconds, not 0.
    pub fn time(&self, key: &str) -> Option<u64> {
        self.positive(key, quantity::time)
    }

    /// A rate in bit/s, not 0.
    pub fn rate(&self, key: &str) -> Option<u64> {
        self.positive(key, quantity::rate)
    }

    /// A size in bytes, not 0; none if it is left to us.
    pub fn auto(&self, key: &str) -> Option<u64> {
        match self.node(key)?.get_ref() {
            DeValue::String(text) if text.as_ref() == "auto" => None,
            _ => self.positive(key, quantity::bytes),
        }
    }

    /// A whole number.
    pub fn integer(&self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        self.integer_of(self.node(key)?, key, range)
    }

    /// A value as a whole number.
    pub fn integer_of(
        &self,
        node: &Node<'_>,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        let DeValue::Integer(number) = node.get_ref() else {
            let kind = kind(node.get_ref());
            self.wrong(node, format!("`{key}` is a whole number, not {kind}"));
            return None;
        };
        let number = u64::from_str_radix(number.as_str(), number.radix()).ok();
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            let (least, most) = (range.start(), range.end());
            self.wrong(node, format!("`{key}` must be from {least} to {most}"));
        }
        number
    }

    /// A number, maybe with a fraction, in thousandths.
    pub fn thousandths(&self, key: &str) -> Option<u32> {
        let node = self.node(key)?;
        let text = match node.get_ref() {
            DeValue::Integer(number) => decimal(number),
            DeValue::Float(number) => number.as_str().to_owned(),
            other => {
                let kind = kind(other);
                self.wrong(node, format!("`{key}` is a number, not {kind}"));
                return None;
            }
        };
        let number = text.parse::<f64>().ok();
        let number = number.filter(|number| (0.0..=1000.0).contains(number));
        if number.is_none() {
            self.wrong(node, format!("`{key}` must be from 0 to 1000"));
        }
        number.map(|number| (number * 1000.0).round() as u32)
    }

    /// One of several words.
    pub fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Option<T> {
        let node = self.node(key)?;
        let names = || words.iter().map(|(name, _)| *name);
        let DeValue::String(text) = node.get_ref() else {
            let list: Vec<&str> = names().collect();
            let kind = kind(node.get_ref());
            let list = list.join(", ");
            self.wrong(node, format!("`{key}` is one of {list}, not {kind}"));
            return None;
        };
        let found = words.iter().find(|(name, _)| *name == text.as_ref());
        if found.is_none() {
            let meant = instead(text, names());
            self.wrong(node, format!("`{key}` cannot be `{text}`{meant}"));
        }
        found.map(|(_, value)| *value)
    }
}
