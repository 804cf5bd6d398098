//! Rows to CSV, JSON and Parquet.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use tidegate_table::{Column, Kind, Row, Value};

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
}

enum Sink<W: Write + Send> {
    Json {
        out: W,
        rows: u64,
        array: bool,
    },
    Csv(Box<csv::Writer<W>>),
    Parquet {
        out: Box<ArrowWriter<W>>,
        schema: Arc<Schema>,
    },
}

impl<W: Write + Send> Writer<W> {
    /// Starts to write rows of a type: writes the header, where the format has one.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn new<R: Row>(out: W, format: Format) -> io::Result<Self> {
        let sink = match format {
            Format::Json | Format::JsonLines => Sink::Json {
                out,
                rows: 0,
                array: format == Format::Json,
            },
            Format::Csv => {
                let mut out = csv::Writer::from_writer(out);
                out.write_record(R::columns().iter().map(|column| column.name))
                    .map_err(io::Error::from)?;
                Sink::Csv(Box::new(out))
            }
            Format::Parquet => {
                let schema = Arc::new(schema::<R>());
                let docs = R::columns().iter().map(|column| {
                    KeyValue::new(format!("tidegate.column.{}", column.name), describe(column))
                });
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(ZstdLevel::default()))
                    .set_key_value_metadata(Some(docs.collect()))
                    .build();
                let out = ArrowWriter::try_new(out, Arc::clone(&schema), Some(properties))
                    .map_err(io::Error::other)?;
                Sink::Parquet {
                    out: Box::new(out),
                    schema,
                }
            }
        };
        Ok(Self { sink })
    }

    /// Writes rows, of the type that the writer was made for.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn rows<R: Row>(&mut self, rows: &[R]) -> io::Result<()> {
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
                    json(out, row)?;
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
                        let field = match (column.get)(row) {
                            Value::Missing => String::new(),
                            Value::Text(text) => text,
                            Value::Integer(number) => number.to_string(),
                            Value::Real(number) => number.to_string(),
                            Value::Truth(truth) => truth.to_string(),
                        };
                        out.write_field(field).map_err(io::Error::from)?;
                    }
                    out.write_record(None::<&[u8]>).map_err(io::Error::from)?;
                }
                out.flush()
            }
            Sink::Parquet { out, schema } => {
                let arrays = R::columns()
                    .iter()
                    .map(|column| array(column, rows))
                    .collect();
                let batch =
                    RecordBatch::try_new(Arc::clone(schema), arrays).map_err(io::Error::other)?;
                out.write(&batch).map_err(io::Error::other)
            }
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
            Sink::Csv(out) => out.into_inner().map_err(|error| error.into_error()),
            Sink::Parquet { out, .. } => out.into_inner().map_err(io::Error::other),
        }
    }
}

fn json<R: Row>(out: &mut impl Write, row: &R) -> io::Result<()> {
    for (i, column) in R::columns().iter().enumerate() {
        write!(
            out,
            "{}\"{}\":",
            if i == 0 { "{" } else { "," },
            column.name
        )?;
        match (column.get)(row) {
            Value::Missing => out.write_all(b"null")?,
            Value::Text(text) => serde_json::to_writer(&mut *out, &text)?,
            Value::Integer(number) => write!(out, "{number}")?,
            Value::Real(number) => serde_json::to_writer(&mut *out, &number)?,
            Value::Truth(truth) => write!(out, "{truth}")?,
        }
    }
    out.write_all(b"}")
}

fn describe<R>(column: &Column<R>) -> String {
    if column.unit.is_empty() {
        column.doc.to_owned()
    } else {
        format!("[{}] {}", column.unit, column.doc)
    }
}

fn schema<R: Row>() -> Schema {
    let fields = R::columns().iter().map(|column| {
        let kind = match column.kind {
            Kind::Text => DataType::Utf8,
            Kind::Integer => DataType::UInt64,
            Kind::Real => DataType::Float64,
            Kind::Truth => DataType::Boolean,
        };
        Field::new(column.name, kind, true)
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// A column of a batch. A value that is not of the column's kind would be a bug in its
/// declaration; it is left out, and the test over all columns finds it.
fn array<R: Row>(column: &Column<R>, rows: &[R]) -> ArrayRef {
    let values = rows.iter().map(column.get);
    match column.kind {
        Kind::Text => Arc::new(StringArray::from_iter(values.map(|value| match value {
            Value::Text(text) => Some(text),
            _ => None,
        }))),
        Kind::Integer => Arc::new(UInt64Array::from_iter(values.map(|value| match value {
            Value::Integer(number) => Some(number),
            _ => None,
        }))),
        Kind::Real => Arc::new(Float64Array::from_iter(values.map(|value| match value {
            Value::Real(number) => Some(number),
            _ => None,
        }))),
        Kind::Truth => Arc::new(BooleanArray::from_iter(values.map(|value| match value {
            Value::Truth(truth) => Some(truth),
            _ => None,
        }))),
    }
}
