//! A scenario file as it was written: values that know where they stand, so that whatever is wrong
//! with them later can be told with line and column, also if a sweep put them elsewhere.

use std::fmt::{self, Write as _};

use tidegate_notation::rule;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Problem;

/// Where something was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// At this byte of the file.
    File(usize),
    /// In the setting of this number on the command line.
    Setting(usize),
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub place: Place,
    pub value: Value,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Real(f64),
    Truth(bool),
    List(Vec<Node>),
    Table(Table),
}

/// Keys and values, in the order in which they were written.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Table(pub Vec<(Key, Node)>);

/// A key and its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Key {
    pub place: Place,
    pub text: String,
}

/// Reads a file's text.
pub(super) fn parse(text: &str) -> Result<Table, Problem> {
    let root = DeTable::parse(text).map_err(|error| syntax(&error, Place::File))?;
    table(root.get_ref(), &Place::File)
}

/// Reads the value of a setting: TOML, or else text without its quotes.
pub(super) fn setting(number: usize, text: &str) -> Result<Node, Problem> {
    let place = |_| Place::Setting(number);
    match DeValue::parse(text) {
        Ok(value) => node(&value, &place),
        Err(error) if text.starts_with(['[', '{', '"', '\'']) => Err(syntax(&error, place)),
        Err(_) => Ok(Node {
            place: Place::Setting(number),
            value: Value::Text(text.to_owned()),
        }),
    }
}

fn syntax(error: &toml::de::Error, place: impl Fn(usize) -> Place) -> Problem {
    let at = error.span().map_or(0, |span| span.start);
    // The parser's messages may be of several lines.
    let message = error.message().trim().replace('\n', ", ");
    Problem::new(place(at), format!("this is no TOML: {message}"))
}

fn table(table: &DeTable<'_>, place: &impl Fn(usize) -> Place) -> Result<Table, Problem> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table {
        let start = key.span().start;
        let key = Key {
            place: place(start),
            text: key.get_ref().to_string(),
        };
        entries.push((start, (key, node(value, place)?)));
    }
    entries.sort_by_key(|(start, _)| *start);
    Ok(Table(entries.into_iter().map(|(_, entry)| entry).collect()))
}

fn node(value: &Spanned<DeValue<'_>>, place: &impl Fn(usize) -> Place) -> Result<Node, Problem> {
    let at = place(value.span().start);
    let wrong = |what: &str| Problem::new(at, what.to_owned());
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => {
            let number = i64::from_str_radix(number.as_str(), number.radix());
            Value::Integer(number.map_err(|_| wrong("this number is too large"))?)
        }
        DeValue::Float(number) => {
            let number: Option<f64> = number.as_str().parse().ok();
            let finite = number.filter(|number| number.is_finite());
            Value::Real(finite.ok_or_else(|| wrong("a finite number is needed here"))?)
        }
        DeValue::Boolean(truth) => Value::Truth(*truth),
        DeValue::Datetime(_) => return Err(wrong("dates are not used in scenarios")),
        DeValue::Array(list) => {
            let list: Result<_, _> = list.iter().map(|value| node(value, place)).collect();
            Value::List(list?)
        }
        DeValue::Table(entries) => Value::Table(table(entries, place)?),
    };
    Ok(Node { place: at, value })
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
            let key = Key {
                place: node.place,
                text: (*first).to_owned(),
            };
            let empty = Node {
                place: node.place,
                value: Value::Table(Table::default()),
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
            there.value = Value::Table(Table::default());
        }
        if let Value::Table(table) = &mut there.value {
            table.set(rest, node);
        }
    }
}

impl Node {
    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Text(_) => "text",
            Value::Integer(_) | Value::Real(_) => "a number",
            Value::Truth(_) => "true or false",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    /// The value as rules read it.
    pub fn in_rule(&self) -> rule::Value<'_> {
        match &self.value {
            Value::Text(text) => rule::Value::Text(text),
            Value::Integer(number) => rule::Value::Integer(*number),
            _ => rule::Value::Other(self.kind()),
        }
    }

    /// An error about it.
    pub fn wrong(&self, message: impl Into<String>) -> Problem {
        Problem::new(self.place, message.into())
    }
}

/// As it would be written, in short: names a point of a sweep. It must not steer a terminal.
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
