//! Reads the values of a table of the file by their types, and checks that every key is known.
//! Mistakes are collected, and reading continues.

use std::ops::RangeInclusive;

use tidegate_notation::{Fields as Known, Mistake, Node, Place, Section, Table, quantity};

use super::problem::Sink;

/// A table that is being read.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    known: Known<'a>,
    /// Some key is unknown. It may be a misspelt form of a key that is missing.
    mistyped: bool,
    pub sink: &'a Sink,
}

impl<'a> Fields<'a> {
    /// The file's own table.
    pub fn of_file(table: &'a Table, what: &'a str, section: Section, sink: &'a Sink) -> Self {
        let place = Place::default();
        Self::checked(Known { table, place, what }, &[section], sink)
    }

    /// Reads a value as a table, if it is one.
    pub fn new(
        node: &'a Node,
        what: &'a str,
        sections: &[Section],
        sink: &'a Sink,
    ) -> Option<Self> {
        let known = sink.note(Known::of(node, what))?;
        Some(Self::checked(known, sections, sink))
    }

    /// Reads a table of which unknown keys were reported before.
    pub fn again(node: &'a Node, what: &'a str, sink: &'a Sink) -> Option<Self> {
        let known = Known::of(node, what).ok()?;
        Some(Self {
            known,
            mistyped: true,
            sink,
        })
    }

    fn checked(known: Known<'a>, sections: &[Section], sink: &'a Sink) -> Self {
        let mut mistyped = false;
        for mistake in known.unknown_keys(sections, &[]) {
            mistyped = true;
            sink.add(mistake);
        }
        Self {
            known,
            mistyped,
            sink,
        }
    }

    /// The table, for readers of several of its keys.
    pub fn known(&self) -> &Known<'a> {
        &self.known
    }

    /// Where the table begins.
    pub fn place(&self) -> Place {
        self.known.place
    }

    /// Reports a mistake in a value.
    pub fn wrong(&self, node: &Node, message: impl Into<String>) {
        self.sink.add(node.wrong(message));
    }

    /// Reports that a key is needed and missing.
    pub fn missing(&self, key: &str) {
        if !self.mistyped {
            self.sink.add(self.known.missing(key));
        }
    }

    /// Reports a mistake in a key's value, or in the table if it has none.
    pub fn wrong_key(&self, key: &str, message: impl Into<String>) {
        self.sink.add(self.known.wrong(key, message));
    }

    /// The value of a key.
    pub fn node(&self, key: &str) -> Option<&'a Node> {
        self.known.node(key)
    }

    /// One value, or a list of them.
    pub fn values(&self, key: &str) -> &'a [Node] {
        self.known.values(key)
    }

    /// The tables of an array of tables.
    pub fn tables(&self, key: &str) -> &'a [Node] {
        self.sink.note(self.known.tables(key)).unwrap_or(&[])
    }

    /// The value of a key, as `read` reads it.
    fn read<T>(&self, key: &str, read: impl FnOnce(&'a Node) -> Result<T, Mistake>) -> Option<T> {
        self.sink.note(read(self.node(key)?))
    }

    /// Text.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.read(key, |node| node.text(key))
    }

    /// A quantity that is not 0.
    fn positive(&self, key: &str, read: fn(&str) -> Result<u64, String>) -> Option<u64> {
        self.read(key, |node| match node.quantity(key, read)? {
            0 => Err(node.wrong(format!("`{key}` must be more than 0"))),
            value => Ok(value),
        })
    }

    /// A time in nanoseconds, not 0.
    pub fn time(&self, key: &str) -> Option<u64> {
        self.positive(key, quantity::time)
    }

    /// A rate in bit/s, not 0.
    pub fn rate(&self, key: &str) -> Option<u64> {
        self.positive(key, quantity::rate)
    }

    /// A size in bytes, not 0; none if it is `auto`.
    pub fn auto(&self, key: &str) -> Option<u64> {
        match self.node(key)?.text(key) {
            Ok("auto") => None,
            _ => self.positive(key, quantity::bytes),
        }
    }

    /// A size in bytes, not 0.
    pub fn size(&self, key: &str) -> Option<u64> {
        self.positive(key, quantity::bytes)
    }

    /// A whole number.
    pub fn integer(&self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        self.read(key, |node| node.integer(key, range))
    }

    /// Whether it is true.
    pub fn truth(&self, key: &str) -> Option<bool> {
        self.read(key, |node| node.truth(key))
    }

    /// One of several words.
    pub fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Option<T> {
        self.read(key, |node| node.word(key, words))
    }
}
