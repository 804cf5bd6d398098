//! What a column is.

/// The type of a column's values. Any of them may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// Unsigned integer.
    Integer,
    /// Floating point.
    Real,
    /// True or false.
    Truth,
}

/// A value of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Not known, or of no meaning here.
    Missing,
    /// Text.
    Text(String),
    /// Unsigned integer.
    Integer(u64),
    /// Floating point; never infinite or not a number.
    Real(f64),
    /// True or false.
    Truth(bool),
}

/// A column of rows `R`.
pub struct Column<R> {
    /// Its name: stable, with its unit as suffix where it has one.
    pub name: &'static str,
    /// The type of its values.
    pub kind: Kind,
    /// The unit, empty where there is none.
    pub unit: &'static str,
    /// What it means.
    pub doc: &'static str,
    /// Its value in a row.
    pub get: fn(&R) -> Value,
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
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

/// A rate as whole bits per second.
pub(crate) fn bits(rate: f64) -> u64 {
    rate.round().max(0.0) as u64
}

/// Nanoseconds as seconds.
pub(crate) fn seconds(nanos: u64) -> f64 {
    // Two steps keep microseconds exact in times since the epoch.
    (nanos / 1000) as f64 / 1e6 + (nanos % 1000) as f64 / 1e9
}

/// Nanoseconds as milliseconds.
pub(crate) fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

/// Rounded to so many decimals: what lies behind is noise, and makes files larger.
pub(crate) fn rounded(number: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (number * scale).round() / scale
}

/// Declares the columns of a row type.
macro_rules! columns {
    ($row:ty; $($name:ident: $kind:ident [$unit:literal] $doc:literal = $get:expr;)*) => {
        &[$(crate::column::Column::<$row> {
            name: stringify!($name),
            kind: crate::column::Kind::$kind,
            unit: $unit,
            doc: $doc,
            get: |row| crate::column::Value::from(($get as fn(&$row) -> _)(row)),
        }),*]
    };
}
pub(crate) use columns;
