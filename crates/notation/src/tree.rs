//! A TOML file with places: every value knows where it was written, so that mistakes can be
//! reported with line and column, even after the value was moved.

use std::collections::HashSet;
use std::fmt::{self, Write as _};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::mistake::position;
use crate::{Mistake, Place};

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where the value begins.
    pub place: Place,
    /// The value.
    pub value: Value,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Text in quotes.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction; finite.
    Real(f64),
    /// True or false.
    Truth(bool),
    /// A date or time.
    Date(String),
    /// A list.
    List(Vec<Node>),
    /// A table.
    Table(Table),
}

/// Keys and values, in the order in which they were written.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table(pub Vec<(KeyNode, Node)>);

/// A key and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyNode {
    /// Where it was written.
    pub place: Place,
    /// The key.
    pub text: String,
}

/// Reads a file, the text of this number.
///
/// # Errors
/// Errors of TOML, at most one a line, and numbers that are too large; at least one.
pub fn parse(number: u32, text: &str) -> Result<Table, Vec<Mistake>> {
    let (root, mut errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader {
        text: number,
        mistakes: Vec::new(),
    };
    let start = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
    errors.sort_by_key(start);
    let mut lines = HashSet::new();
    for error in &errors {
        let byte = start(error);
        if lines.insert(position(text, byte).line) {
            reader.syntax(error);
        }
        // After any other mistake, the parser takes right lines for wrong ones.
        let whole = ["string values must be quoted", "duplicate key"];
        if !whole.iter().any(|whole| error.message().starts_with(whole)) {
            break;
        }
    }
    if !errors.is_empty() {
        return Err(reader.mistakes);
    }
    let table = reader.table(root.get_ref());
    match reader.mistakes.is_empty() {
        true => Ok(table),
        false => Err(reader.mistakes),
    }
}

/// Reads a single value, such as one of the command line, which is the text of this number. Text
/// that is not TOML counts as text without quotes.
///
/// # Errors
/// If it begins like a list, a table or a text, but is not valid.
pub fn parse_value(number: u32, text: &str) -> Result<Node, Mistake> {
    let mut reader = Reader {
        text: number,
        mistakes: Vec::new(),
    };
    let node = match DeValue::parse(text) {
        Ok(value) => reader.node(&value),
        Err(error) if text.starts_with(['[', '{', '"', '\'']) => {
            reader.syntax(&error);
            reader.at(0, Value::Truth(false))
        }
        Err(_) => reader.at(0, Value::Text(text.to_owned())),
    };
    match reader.mistakes.into_iter().next() {
        None => Ok(node),
        Some(mistake) => Err(mistake),
    }
}

/// Makes nodes of parsed values.
struct Reader {
    text: u32,
    mistakes: Vec<Mistake>,
}

impl Reader {
    fn place(&self, byte: usize) -> Place {
        Place {
            text: self.text,
            byte,
        }
    }

    fn at(&self, byte: usize, value: Value) -> Node {
        let place = self.place(byte);
        Node { place, value }
    }

    fn syntax(&mut self, error: &toml::de::Error) {
        let byte = error.span().map_or(0, |span| span.start);
        // The parser's messages may have several lines.
        let message = error.message().trim().replace('\n', ", ");
        let message = format!("this is not TOML: {message}");
        self.mistakes.push(Mistake::new(self.place(byte), message));
    }

    fn table(&mut self, table: &DeTable<'_>) -> Table {
        let mut entries = Vec::with_capacity(table.len());
        for (key, value) in table {
            let start = key.span().start;
            let key = KeyNode {
                place: self.place(start),
                text: key.get_ref().to_string(),
            };
            entries.push((start, (key, self.node(value))));
        }
        entries.sort_by_key(|(start, _)| *start);
        Table(entries.into_iter().map(|(_, entry)| entry).collect())
    }

    fn node(&mut self, value: &Spanned<DeValue<'_>>) -> Node {
        let start = value.span().start;
        let value = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(number) => {
                let read = i64::from_str_radix(number.as_str(), number.radix());
                Value::Integer(read.unwrap_or_else(|_| {
                    self.wrong(start, "this number is too large");
                    0
                }))
            }
            DeValue::Float(number) => {
                let read: Option<f64> = number.as_str().parse().ok();
                let finite = read.filter(|number| number.is_finite());
                Value::Real(finite.unwrap_or_else(|| {
                    self.wrong(start, "a finite number is needed here");
                    0.0
                }))
            }
            DeValue::Boolean(truth) => Value::Truth(*truth),
            DeValue::Datetime(date) => Value::Date(date.to_string()),
            DeValue::Array(list) => Value::List(list.iter().map(|one| self.node(one)).collect()),
            DeValue::Table(entries) => Value::Table(self.table(entries)),
        };
        self.at(start, value)
    }

    fn wrong(&mut self, byte: usize, message: &str) {
        self.mistakes.push(Mistake::new(self.place(byte), message));
    }
}

impl Table {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        let entry = self.0.iter().find(|(name, _)| name.text == key);
        entry.map(|(_, node)| node)
    }

    /// Puts a value at a path of keys, in place of what is there.
    pub fn set(&mut self, path: &[&str], node: Node) {
        let [first, rest @ ..] = path else { return };
        let at = self.0.iter().position(|(name, _)| name.text == *first);
        let at = at.unwrap_or_else(|| {
            let key = KeyNode {
                place: node.place,
                text: (*first).to_owned(),
            };
            let empty = Node {
                place: node.place,
                value: Value::Table(Self::default()),
            };
            self.0.push((key, empty));
            self.0.len() - 1
        });
        let there = &mut self.0[at].1;
        if rest.is_empty() {
            *there = node;
            return;
        }
        if !matches!(there.value, Value::Table(_)) {
            there.value = Value::Table(Self::default());
        }
        if let Value::Table(table) = &mut there.value {
            table.set(rest, node);
        }
    }
}

/// As it would be written, in short. It must not steer a terminal.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Text(text) => text.chars().try_for_each(|c| match c.is_control() {
                true => c.escape_default().fmt(f),
                false => f.write_char(c),
            }),
            Value::Integer(number) => number.fmt(f),
            Value::Real(number) => number.fmt(f),
            Value::Truth(truth) => truth.fmt(f),
            Value::Date(date) => date.fmt(f),
            Value::List(list) => {
                f.write_str("[")?;
                for (i, node) in list.iter().enumerate() {
                    write!(f, "{}{node}", if i == 0 { "" } else { " " })?;
                }
                f.write_str("]")
            }
            Value::Table(table) => {
                for (i, (key, node)) in table.0.iter().enumerate() {
                    let space = if i == 0 { "" } else { " " };
                    write!(f, "{space}{}={node}", key.text)?;
                }
                Ok(())
            }
        }
    }
}
