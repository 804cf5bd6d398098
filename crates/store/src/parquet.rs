//! Rows to Apache Parquet, by its column writers: writing through Arrow's arrays would double the time to build Tidegate.

use std::io::{self, Write};
use std::mem;
use std::net::IpAddr;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DoubleType, FixedLenByteArray, FixedLenByteArrayType,
    Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use tidegate_table::{Column, Extra, Kind, Row, Value};

/// Rows that are kept until they are written as a row group.
const GROUP: usize = 1 << 17;

/// Bytes of an address.
const ADDRESS: i32 = 16;

/// A column as Parquet knows it.
pub(crate) struct Field {
    name: String,
    kind: Kind,
}

impl Field {
    pub(crate) fn of<R: Row>() -> Vec<Self> {
        let field = |column: &Column<R>| Self {
            name: column.name.to_owned(),
            kind: column.kind,
        };
        R::columns().iter().map(field).collect()
    }
}

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
    Address(Vec<FixedLenByteArray>),
}

impl<W: Write + Send> ParquetWriter<W> {
    /// A file of rows, and of columns that they have besides those of their type.
    pub(crate) fn new<R: Row>(out: W, extras: &[Extra]) -> io::Result<Self> {
        let note = |name: &str, unit: &str, doc: &str| {
            KeyValue::new(format!("tidegate.column.{name}"), describe(unit, doc))
        };
        let columns = R::columns().iter();
        let notes = columns.map(|column| note(column.name, column.unit, column.doc));
        let more = extras.iter();
        let notes = notes.chain(more.map(|extra| note(&extra.name, extra.unit, &extra.doc)));
        let mut fields = Field::of::<R>();
        fields.extend(extras.iter().map(|extra| Field {
            name: extra.name.clone(),
            kind: extra.kind,
        }));
        Self::with(out, &fields, notes.collect(), &[])
    }

    /// A file with these columns and notes, whose groups of rows are sorted by the columns named last.
    pub(crate) fn with(
        out: W,
        fields: &[Field],
        notes: Vec<KeyValue>,
        sorted_by: &[&str],
    ) -> io::Result<Self> {
        let place = |name: &&str| fields.iter().position(|field| field.name == *name);
        let sorted = sorted_by.iter().filter_map(place).map(|i| SortingColumn {
            column_idx: i32::try_from(i).unwrap_or(i32::MAX),
            descending: false,
            nulls_first: true,
        });
        let sorted: Vec<_> = sorted.collect();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_key_value_metadata(Some(notes))
            .set_sorting_columns((!sorted.is_empty()).then_some(sorted))
            .build();
        let out = SerializedFileWriter::new(out, schema(fields)?, Arc::new(properties))?;
        let columns = fields.iter().map(|field| Pending::new(field.kind));
        Ok(Self {
            out,
            columns: columns.collect(),
            rows: 0,
        })
    }

    /// Writes rows, with the same values in all additional columns.
    pub(crate) fn rows<R: Row>(&mut self, rows: &[R], more: &[Value]) -> io::Result<()> {
        for row in rows {
            let values = R::columns().iter().map(|column| (column.get)(row));
            self.row(values.chain(more.iter().cloned()))?;
        }
        Ok(())
    }

    /// Adds a row: a value for each column.
    pub(crate) fn row(&mut self, values: impl Iterator<Item = Value>) -> io::Result<()> {
        for (pending, value) in self.columns.iter_mut().zip(values) {
            pending.push(value);
        }
        self.rows += 1;
        if self.rows == GROUP {
            self.write_group().map_err(of_output)?;
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        if self.rows > 0 {
            self.write_group().map_err(of_output)?;
        }
        let out = self.out.into_inner().map_err(io::Error::from);
        out.map_err(of_output)
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

/// The error of the output, if there is one in an error of this format.
fn of_output(error: io::Error) -> io::Error {
    if !error
        .get_ref()
        .is_some_and(|inner| inner.is::<ParquetError>())
    {
        return error;
    }
    let format = error.into_inner().map(|inner| inner.downcast());
    match format {
        Some(Ok(format)) => match *format {
            ParquetError::External(cause) => match cause.downcast::<io::Error>() {
                Ok(output) => *output,
                Err(cause) => io::Error::other(cause),
            },
            format => io::Error::other(format),
        },
        Some(Err(inner)) => io::Error::other(inner),
        None => io::ErrorKind::Other.into(),
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
                Kind::Address => Values::Address(Vec::new()),
            },
            present: Vec::new(),
        }
    }

    /// A value of another kind than the column's is a bug in its declaration. It is left out, and the test over all
    /// columns finds it.
    fn push(&mut self, value: Value) {
        let mut present = 1;
        match (&mut self.values, value) {
            (Values::Text(values), Value::Text(text)) => {
                values.push(text.into_owned().into_bytes().into())
            }
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
            (Values::Address(values), Value::Address(address)) => {
                values.push(octets(address).to_vec().into());
            }
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
            Values::Address(values) => column.typed::<FixedLenByteArrayType>().write_batch(
                &mem::take(values),
                levels,
                None,
            ),
        }?;
        Ok(column.close()?)
    }
}

fn describe(unit: &str, doc: &str) -> String {
    if unit.is_empty() {
        doc.to_owned()
    } else {
        format!("[{unit}] {doc}")
    }
}

/// An address as 16 bytes: of IPv4, those of RFC 4291 §2.5.5.2.
fn octets(address: IpAddr) -> [u8; ADDRESS as usize] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn schema(fields: &[Field]) -> io::Result<TypePtr> {
    let field = |field: &Field| {
        let (physical, logical) = match field.kind {
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
            Kind::Address => (Physical::FIXED_LEN_BYTE_ARRAY, None),
        };
        let column = Type::primitive_type_builder(&field.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical);
        match field.kind {
            Kind::Address => column.with_length(ADDRESS),
            _ => column,
        }
        .build()
        .map(Arc::new)
    };
    let fields = fields.iter().map(field).collect::<Result<_, _>>()?;
    let rows = Type::group_type_builder("rows").with_fields(fields);
    Ok(Arc::new(rows.build()?))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    use tidegate_table::{Time, columns};

    use super::{Column, Extra, GROUP, IpAddr, Kind, ParquetWriter, Row, Value};

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
        host: Address [""] "An address." = |row| IpAddr::V4((row.0 as u32).into());
    };

    fn extra() -> Extra {
        Extra {
            name: "gate.burst".to_owned(),
            kind: Kind::Real,
            unit: "",
            doc: "The same for all rows.".to_owned(),
        }
    }

    /// Writes this many rows, in pieces, and reads them back.
    fn read_back(rows: u64) -> SerializedFileReader<File> {
        let mut file = tempfile::tempfile().unwrap();
        let mut writer = ParquetWriter::new::<Numbered>(&mut file, &[extra()]).unwrap();
        let rows: Vec<_> = (0..rows).map(Numbered).collect();
        for piece in rows.chunks(1000) {
            writer.rows(piece, &[Value::Real(0.5)]).unwrap();
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
            let [a, b, c, d] = (number as u32).to_be_bytes();
            let host = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, a, b, c, d];
            let expected = [
                name,
                Field::ULong(u64::MAX - number),
                Field::Double(number as f64 / 2.0),
                Field::Bool(number % 2 == 0),
                Field::Long(1_700_000_000_123_456_789 + number as i64),
                Field::UInt(u32::MAX - number as u32),
                Field::UShort(65_535 - (number % 7) as u16),
                Field::Bytes(host.to_vec().into()),
                Field::Double(0.5),
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
