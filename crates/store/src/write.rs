//! Rows to CSV, JSON and Parquet.

use std::any::TypeId;
use std::io::{self, Write};

use tidegate_table::{Extra, Row, Value, convert};

use crate::lines::Lines;
use crate::parquet::ParquetWriter;

/// A file format for rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON array of objects, an object a line.
    Json,
    /// An object a line, without the array around them.
    JsonLines,
    /// Comma-separated values, RFC 4180, with a header; a missing value is empty.
    Csv,
    /// Apache Parquet, zstd-compressed, with the columns' units and meaning in its metadata.
    Parquet,
}

/// Writes rows in a format, as they come.
pub struct Writer<W: Write + Send> {
    sink: Sink<W>,
    /// The type of the rows.
    row: TypeId,
    extras: Vec<Extra>,
}

enum Sink<W: Write + Send> {
    Json { out: W, rows: u64, array: bool },
    Csv(Lines<W>),
    Parquet(Box<ParquetWriter<W>>),
}

impl<W: Write + Send> Writer<W> {
    /// Starts to write rows of a type: writes the header, if the format has one.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn new<R: Row>(out: W, format: Format) -> io::Result<Self> {
        Self::with_extras::<R>(out, format, Vec::new())
    }

    /// Starts to write rows of a type that have more columns, after those of their type.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn with_extras<R: Row>(out: W, format: Format, extras: Vec<Extra>) -> io::Result<Self> {
        let sink = match format {
            Format::Json | Format::JsonLines => Sink::Json {
                out,
                rows: 0,
                array: format == Format::Json,
            },
            Format::Csv => {
                let mut out = Lines::new(out);
                let names = R::columns().iter().map(|column| column.name);
                let names = names.chain(extras.iter().map(|extra| extra.name.as_str()));
                names.for_each(|name| out.text(name));
                out.end()?;
                Sink::Csv(out)
            }
            Format::Parquet => Sink::Parquet(Box::new(ParquetWriter::new::<R>(out, &extras)?)),
        };
        Ok(Self {
            sink,
            row: TypeId::of::<R>(),
            extras,
        })
    }

    /// Writes rows of the type that the writer was made for.
    ///
    /// # Errors
    /// The output cannot be written.
    ///
    /// # Panics
    /// The rows are of another type.
    pub fn rows<R: Row>(&mut self, rows: &[R]) -> io::Result<()> {
        self.rows_with(rows, &[])
    }

    /// The same; all these rows have these values in the additional columns, of which the last may be left out.
    ///
    /// # Errors
    /// The output cannot be written.
    ///
    /// # Panics
    /// The rows are of another type.
    pub fn rows_with<R: Row>(&mut self, rows: &[R], more: &[Value]) -> io::Result<()> {
        assert_eq!(self.row, TypeId::of::<R>(), "the writer is for other rows");
        let value = |index: usize| more.get(index).cloned().unwrap_or(Value::Missing);
        let more: Vec<Value> = (0..self.extras.len()).map(value).collect();
        match &mut self.sink {
            Sink::Json {
                out,
                rows: written,
                array,
            } => {
                for row in rows {
                    if *array {
                        out.write_all(if *written == 0 { b"[\n" } else { b",\n" })?;
                    }
                    json(out, row, &self.extras, &more)?;
                    if !*array {
                        out.write_all(b"\n")?;
                    }
                    *written += 1;
                }
                out.flush()
            }
            Sink::Csv(out) => {
                for row in rows {
                    for column in R::columns() {
                        out.value(&(column.get)(row));
                    }
                    more.iter().for_each(|value| out.value(value));
                    out.end()?;
                }
                out.flush()
            }
            Sink::Parquet(out) => out.rows(rows, &more),
        }
    }

    /// Ends the file and gives the output back.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn finish(self) -> io::Result<W> {
        match self.sink {
            Sink::Json {
                mut out,
                rows,
                array,
            } => {
                if array {
                    out.write_all(if rows == 0 { b"[]\n" } else { b"\n]\n" })?;
                }
                out.flush()?;
                Ok(out)
            }
            Sink::Csv(out) => out.finish(),
            Sink::Parquet(out) => out.finish(),
        }
    }
}

fn json<R: Row>(out: &mut impl Write, row: &R, extras: &[Extra], more: &[Value]) -> io::Result<()> {
    let columns = R::columns().iter();
    let columns = columns.map(|column| (column.name, (column.get)(row)));
    let more = extras
        .iter()
        .map(|extra| extra.name.as_str())
        .zip(more.iter().cloned());
    for (i, (name, value)) in columns.chain(more).enumerate() {
        write!(out, "{}\"{name}\":", if i == 0 { "{" } else { "," })?;
        match value {
            Value::Missing => out.write_all(b"null")?,
            Value::Text(text) => serde_json::to_writer(&mut *out, &text)?,
            Value::Integer(number) => write!(out, "{number}")?,
            Value::Real(number) => serde_json::to_writer(&mut *out, &number)?,
            Value::Time(nanos) => serde_json::to_writer(&mut *out, &convert::seconds(nanos))?,
            Value::Truth(truth) => write!(out, "{truth}")?,
            Value::Address(address) => write!(out, "\"{address}\"")?,
        }
    }
    out.write_all(b"}")
}
