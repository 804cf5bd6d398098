//! Rows to Apache Parquet, by its column writers: writing through Arrow's arrays would double the time to build Tidegate.

use std::io::{self, Write};
use std::mem;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use tidegate_table::{Column, Kind, Row, Value};

/// Rows that are kept until they are written as a row group.
const GROUP: usize = 1 << 17;

/// Writes rows, a group of them at a time.
pub(crate) struct ParquetWriter<W: Write + Send> {
    out: SerializedFileWriter<W>,
    columns: Vec<Pending>,
    rows: usize,
}

/// The values of a column that are not written yet.
struct Pending {
    values: Values,
    /// For each row 1 if it has a value, 0 if it is missing: Parquet's definition levels.
    present: Vec<i16>,
}

enum Values {
    Text(Vec<ByteArray>),
    /// The bits of unsigned integers: Parquet marks them by an annotation of the signed type.
    Integer(Vec<i64>),
    Integer32(Vec<i32>),
    Time(Vec<i64>),
    Real(Vec<f64>),
    Truth(Vec<bool>),
}

impl<W: Write + Send> ParquetWriter<W> {
    pub(crate) fn new<R: Row>(out: W) -> io::Result<Self> {
        let notes = R::columns().iter().map(|column| {
            KeyValue::new(format!("tidegate.column.{}", column.name), describe(column))
        });
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_key_value_metadata(Some(notes.collect()))
            .build();
        let out = SerializedFileWriter::new(out, schema::<R>()?, Arc::new(properties))?;
        let columns = R::columns().iter().map(|column| Pending::new(column.kind));
        Ok(Self {
            out,
            columns: columns.collect(),
            rows: 0,
        })
    }

    pub(crate) fn rows<R: Row>(&mut self, rows: &[R]) -> io::Result<()> {
        for row in rows {
            for (pending, column) in self.columns.iter_mut().zip(R::columns()) {
                pending.push((column.get)(row));
            }
            self.rows += 1;
            if self.rows == GROUP {
                self.write_group()?;
            }
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        if self.rows > 0 {
            self.write_group()?;
        }
        Ok(self.out.into_inner()?)
    }

    fn write_group(&mut self) -> io::Result<()> {
        let mut group = self.out.next_row_group()?;
        for pending in &mut self.columns {
            if let Some(column) = group.next_column()? {
                pending.write(column)?;
            }
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}

impl Pending {
    fn new(kind: Kind) -> Self {
        Self {
            values: match kind {
                Kind::Text => Values::Text(Vec::new()),
                Kind::Integer => Values::Integer(Vec::new()),
                // Parquet's shortest type has 32 bits, but an annotation marks shorter ones.
                Kind::Integer32 | Kind::Integer16 => Values::Integer32(Vec::new()),
                Kind::Time => Values::Time(Vec::new()),
                Kind::Real => Values::Real(Vec::new()),
                Kind::Truth => Values::Truth(Vec::new()),
            },
            present: Vec::new(),
        }
    }

    /// A value of another kind than the column's is a bug in its declaration. It is left out, and the test over all
    /// columns finds it.
    fn push(&mut self, value: Value) {
        let mut present = 1;
        match (&mut self.values, value) {
            (Values::Text(values), Value::Text(text)) => values.push(text.into_bytes().into()),
            (Values::Integer(values), Value::Integer(number)) => values.push(number.cast_signed()),
            (Values::Integer32(values), Value::Integer(number)) => {
                values.push(u32::try_from(number).unwrap_or(u32::MAX).cast_signed());
            }
            (Values::Time(values), Value::Time(nanos)) => {
                // Times after the year 2262 are faults of a capture.
                values.push(i64::try_from(nanos).unwrap_or(i64::MAX));
            }
            (Values::Real(values), Value::Real(number)) => values.push(number),
            (Values::Truth(values), Value::Truth(truth)) => values.push(truth),
            _ => present = 0,
        }
        self.present.push(present);
    }

    fn write(&mut self, mut column: SerializedColumnWriter<'_>) -> io::Result<()> {
        let levels = Some(&mem::take(&mut self.present)[..]);
        match &mut self.values {
            Values::Text(values) => {
                column
                    .typed::<ByteArrayType>()
                    .write_batch(&mem::take(values), levels, None)
            }
            Values::Integer32(values) => {
                column
                    .typed::<Int32Type>()
                    .write_batch(&mem::take(values), levels, None)
            }
            Values::Integer(values) | Values::Time(values) => column
                .typed::<Int64Type>()
                .write_batch(&mem::take(values), levels, None),
            Values::Real(values) => {
                column
                    .typed::<DoubleType>()
                    .write_batch(&mem::take(values), levels, None)
            }
            Values::Truth(values) => {
                column
                    .typed::<BoolType>()
                    .write_batch(&mem::take(values), levels, None)
            }
        }?;
        Ok(column.close()?)
    }
}

fn describe<R>(column: &Column<R>) -> String {
    if column.unit.is_empty() {
        column.doc.to_owned()
    } else {
        format!("[{}] {}", column.unit, column.doc)
    }
}

fn schema<R: Row>() -> io::Result<TypePtr> {
    let field = |column: &Column<R>| {
        let (physical, logical) = match column.kind {
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Integer => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Kind::Integer32 => (Physical::INT32, Some(LogicalType::integer(32, false))),
            Kind::Integer16 => (Physical::INT32, Some(LogicalType::integer(16, false))),
            Kind::Time => (
                Physical::INT64,
                Some(LogicalType::timestamp(true, TimeUnit::NANOS)),
            ),
            Kind::Real => (Physical::DOUBLE, None),
            Kind::Truth => (Physical::BOOLEAN, None),
        };
        Type::primitive_type_builder(column.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    };
    let fields = R::columns().iter().map(field).collect::<Result<_, _>>()?;
    let rows = Type::group_type_builder("rows").with_fields(fields);
    Ok(Arc::new(rows.build()?))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    use tidegate_table::{Time, columns};

    use super::*;

    struct Numbered(u64);

    impl Row for Numbered {
        const TITLE: &'static str = "a number";

        fn columns() -> &'static [Column<Self>] {
            COLUMNS
        }
    }

    const COLUMNS: &[Column<Numbered>] = columns! { Numbered;
        name: Text [""] "Missing for each third." = |row| (row.0 % 3 != 0).then(|| row.0.to_string());
        number: Integer ["B"] "Counted down from the largest." = |row| u64::MAX - row.0;
        half: Real ["s"] "Half of it." = |row| row.0 as f64 / 2.0;
        even: Truth [""] "Whether it is even." = |row| row.0 % 2 == 0;
        at: Time ["s"] "A nanosecond later each row." = |row| Time(1_700_000_000_123_456_789 + row.0);
        part: Integer32 [""] "Its lower half, counted down." = |row| u32::MAX - row.0 as u32;
        port: Integer16 [""] "A port." = |row| 65_535 - (row.0 % 7) as u16;
    };

    /// Writes this many rows, in pieces, and reads them back.
    fn read_back(rows: u64) -> SerializedFileReader<File> {
        let mut file = tempfile::tempfile().unwrap();
        let mut writer = ParquetWriter::new::<Numbered>(&mut file).unwrap();
        let rows: Vec<_> = (0..rows).map(Numbered).collect();
        for piece in rows.chunks(1000) {
            writer.rows(piece).unwrap();
        }
        writer.finish().unwrap();
        SerializedFileReader::new(file).unwrap()
    }

    #[test]
    fn values_come_back_as_they_were() {
        // A full group, and one that is not.
        let rows = GROUP as u64 + 5;
        let file = read_back(rows);
        assert_eq!(file.num_row_groups(), 2);
        let mut read = 0;
        for (row, number) in file.get_row_iter(None).unwrap().zip(0..) {
            let values: Vec<Field> = row
                .unwrap()
                .into_columns()
                .into_iter()
                .map(|(_, value)| value)
                .collect();
            let name = match number % 3 {
                0 => Field::Null,
                _ => Field::Str(number.to_string()),
            };
            let expected = [
                name,
                Field::ULong(u64::MAX - number),
                Field::Double(number as f64 / 2.0),
                Field::Bool(number % 2 == 0),
                Field::Long(1_700_000_000_123_456_789 + number as i64),
                Field::UInt(u32::MAX - number as u32),
                Field::UShort(65_535 - (number % 7) as u16),
            ];
            assert_eq!(values, expected);
            read += 1;
        }
        assert_eq!(read, rows);
    }

    #[test]
    fn a_file_without_rows_still_says_what_its_columns_mean() {
        let file = read_back(0);
        let metadata = file.metadata().file_metadata();
        assert_eq!((metadata.num_rows(), file.num_row_groups()), (0, 0));
        let notes = metadata.key_value_metadata().unwrap();
        let note = notes
            .iter()
            .find(|note| note.key == "tidegate.column.number")
            .unwrap();
        assert_eq!(
            note.value.as_deref(),
            Some("[B] Counted down from the largest.")
        );
    }
}
