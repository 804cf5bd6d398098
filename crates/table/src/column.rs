//! Columns, their types and values, and the rows that have them.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use crate::convert;

/// A type whose values are the rows of a table.
pub trait Row: Sized + 'static {
    /// What a row stands for, in words: "a flow of a simulation".
    const TITLE: &'static str;

    /// The columns, in order. [`columns!`](crate::columns) declares them.
    fn columns() -> &'static [Column<Self>];
}

/// The type of a column's values. Any of them may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// Unsigned integer.
    Integer,
    /// Unsigned integer below 2^32.
    Integer32,
    /// Unsigned integer below 2^16.
    Integer16,
    /// Floating point.
    Real,
    /// Nanoseconds since 1970-01-01 UTC. Text formats have seconds.
    Time,
    /// True or false.
    Truth,
    /// An IP address. Parquet has its 16 bytes, as in IPv6, so that a prefix is a range of values.
    Address,
}

/// A value of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Not known, or meaningless in this row.
    Missing,
    /// Text. Names are not copied.
    Text(Cow<'static, str>),
    /// Unsigned integer.
    Integer(u64),
    /// Floating point; never infinite or not a number.
    Real(f64),
    /// Nanoseconds since 1970-01-01 UTC.
    Time(u64),
    /// True or false.
    Truth(bool),
    /// An IP address.
    Address(IpAddr),
}

/// As text formats write it: a missing value is empty, and a time is in seconds.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => Ok(()),
            Self::Text(text) => f.write_str(text),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Real(number) => write!(f, "{number}"),
            Self::Time(nanos) => write!(f, "{}", convert::seconds(*nanos)),
            Self::Truth(truth) => write!(f, "{truth}"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

/// A column of rows `R`.
pub struct Column<R> {
    /// Its name: stable, with its unit as suffix if it has one.
    pub name: &'static str,
    /// The type of its values.
    pub kind: Kind,
    /// The unit; empty if it has none.
    pub unit: &'static str,
    /// What it means.
    pub doc: &'static str,
    /// Its value in a row.
    pub get: fn(&R) -> Value,
}

/// A column that a table has besides those of its rows, because its name is only known when the program runs: a
/// parameter that a user varies. Its value is that of many rows at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extra {
    /// Its name, with its unit as suffix if it has one.
    pub name: String,
    /// The type of its values.
    pub kind: Kind,
    /// The unit; empty if it has none.
    pub unit: &'static str,
    /// What it means.
    pub doc: String,
}

impl<R> Clone for Column<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Column<R> {}

/// A time in nanoseconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

impl From<Time> for Value {
    fn from(time: Time) -> Self {
        Self::Time(time.0)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

impl From<u16> for Value {
    fn from(number: u16) -> Self {
        Self::Integer(number.into())
    }
}

impl From<Cow<'static, str>> for Value {
    fn from(text: Cow<'static, str>) -> Self {
        Self::Text(text)
    }
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Integer(number)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Truth(truth)
    }
}

impl From<IpAddr> for Value {
    fn from(address: IpAddr) -> Self {
        Self::Address(address)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        if number.is_finite() {
            Self::Real(number)
        } else {
            Self::Missing
        }
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

/// Declares the columns of a row type.
///
/// First the row type. Then for each column its name, [`Kind`], unit (empty if it has none), meaning, and a function from a
/// row to anything that becomes a [`Value`] of that kind: text, an integer, a number, a [`Time`], a truth value, an address, or an
/// [`Option`] of them if the value may be missing.
///
/// ```
/// use tidegate_table::{Column, columns};
///
/// struct Packet {
///     length: u64,
/// }
///
/// const COLUMNS: &[Column<Packet>] = columns! { Packet;
///     length: Integer ["B"] "Bytes at the IP layer." = |row| row.length;
/// };
/// ```
#[macro_export]
macro_rules! columns {
    ($row:ty; $($name:ident: $kind:ident [$unit:literal] $doc:literal = $get:expr;)*) => {
        &[$($crate::Column::<$row> {
            name: stringify!($name),
            kind: $crate::Kind::$kind,
            unit: $unit,
            doc: $doc,
            get: |row| $crate::Value::from(($get as fn(&$row) -> _)(row)),
        }),*]
    };
}
