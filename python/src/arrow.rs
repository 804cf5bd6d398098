//! Rows as Arrow record batches. The columns are those that the rows declare.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::RangeFrom;
use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, FixedSizeBinaryBuilder, Float64Builder, StringBuilder,
    TimestampNanosecondBuilder, UInt16Builder, UInt32Builder, UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use tidegate_table::{Column, Extra, Kind, Row, Value};

/// The columns of a row type, with unit and meaning as metadata.
pub fn schema<R: Row>() -> SchemaRef {
    schema_with::<R>(&[])
}

/// The same, and more columns behind them.
pub fn schema_with<R: Row>(extras: &[Extra]) -> SchemaRef {
    let own = |column: &Column<R>| field(column.name, column.kind, column.unit, column.doc);
    let more = |extra: &Extra| field(&extra.name, extra.kind, extra.unit, &extra.doc);
    let fields = R::columns().iter().map(own);
    let fields: Vec<Field> = fields.chain(extras.iter().map(more)).collect();
    Arc::new(Schema::new(fields))
}

/// The columns of two row types beside each other; of the second, those in the range.
pub fn schema_of_both<A: Row, B: Row>(range: RangeFrom<usize>) -> SchemaRef {
    let (first, second) = (schema::<A>(), schema::<B>());
    let fields = first.fields().iter().chain(&second.fields()[range]);
    Arc::new(Schema::new(fields.cloned().collect::<Vec<_>>()))
}

/// Rows with these columns as one batch. There are as many of both.
///
/// # Errors
/// None is known: a column's values have its kind.
pub fn batch_of_both<A: Row, B: Row>(
    first: &[A],
    second: &[B],
    range: RangeFrom<usize>,
) -> Result<RecordBatch, ArrowError> {
    let columns = batch(&schema::<A>(), first)?.columns().to_vec();
    let more = batch(&schema::<B>(), second)?;
    let columns = [columns, more.columns()[range.clone()].to_vec()].concat();
    RecordBatch::try_new(schema_of_both::<A, B>(range), columns)
}

fn field(name: &str, kind: Kind, unit: &str, doc: &str) -> Field {
    let kind = match kind {
        Kind::Text => DataType::Utf8,
        Kind::Integer => DataType::UInt64,
        Kind::Integer32 => DataType::UInt32,
        Kind::Integer16 => DataType::UInt16,
        Kind::Real => DataType::Float64,
        Kind::Time => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        Kind::Truth => DataType::Boolean,
        Kind::Address => DataType::FixedSizeBinary(16),
    };
    let notes = [("unit", unit), ("meaning", doc)];
    let notes = notes.map(|(key, text)| (key.to_owned(), text.to_owned()));
    Field::new(name, kind, true).with_metadata(HashMap::from(notes))
}

/// Rows as one batch.
///
/// # Errors
/// None is known: a column's values have its kind.
pub fn batch<R: Row>(schema: &SchemaRef, rows: &[R]) -> Result<RecordBatch, ArrowError> {
    batch_with(schema, rows, &[], &[])
}

/// The same with more columns, whose values are the same in all rows.
///
/// # Errors
/// None is known: a column's values have its kind.
pub fn batch_with<R: Row>(
    schema: &SchemaRef,
    rows: &[R],
    extras: &[Extra],
    values: &[Value],
) -> Result<RecordBatch, ArrowError> {
    let columns = R::columns().iter().map(|column| {
        let values = rows.iter().map(column.get);
        array(column.kind, rows.len(), values)
    });
    let more = extras.iter().zip(values).map(|(extra, value)| {
        let values = rows.iter().map(|_| value.clone());
        array(extra.kind, rows.len(), values)
    });
    let columns = columns.chain(more).collect::<Result<Vec<_>, _>>()?;
    RecordBatch::try_new(Arc::clone(schema), columns)
}

fn array(
    kind: Kind,
    many: usize,
    values: impl Iterator<Item = Value>,
) -> Result<ArrayRef, ArrowError> {
    macro_rules! build {
        ($builder:expr, $($pattern:pat => $value:expr),+) => {{
            let mut builder = $builder;
            for value in values {
                match value {
                    $($pattern => builder.append_value($value),)+
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }};
    }
    Ok(match kind {
        Kind::Text => build!(StringBuilder::new(), Value::Text(text) => text),
        Kind::Integer => {
            build!(UInt64Builder::with_capacity(many), Value::Integer(number) => number)
        }
        Kind::Integer32 => build!(
            UInt32Builder::with_capacity(many),
            Value::Integer(number) => u32::try_from(number).unwrap_or(u32::MAX)
        ),
        Kind::Integer16 => build!(
            UInt16Builder::with_capacity(many),
            Value::Integer(number) => u16::try_from(number).unwrap_or(u16::MAX)
        ),
        Kind::Real => build!(Float64Builder::with_capacity(many), Value::Real(number) => number),
        Kind::Time => build!(
            TimestampNanosecondBuilder::with_capacity(many).with_timezone("UTC"),
            // Times after the year 2262 are faults of a capture.
            Value::Time(nanos) => i64::try_from(nanos).unwrap_or(i64::MAX)
        ),
        Kind::Truth => build!(BooleanBuilder::with_capacity(many), Value::Truth(truth) => truth),
        Kind::Address => {
            let mut builder = FixedSizeBinaryBuilder::with_capacity(many, 16);
            for value in values {
                match value {
                    Value::Address(IpAddr::V4(address)) => {
                        builder.append_value(address.to_ipv6_mapped().octets())?;
                    }
                    Value::Address(IpAddr::V6(address)) => {
                        builder.append_value(address.octets())?
                    }
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
    })
}
