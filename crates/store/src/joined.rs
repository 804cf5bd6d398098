//! Rows that are made of two, side by side.

use std::io::{self, Write};
use std::marker::PhantomData;

use parquet::file::metadata::KeyValue;
use tidegate_table::Row;

use crate::parquet::{Field, ParquetWriter};

/// Writes Parquet files whose rows have the columns of two types: first those of `A`, then those of `B`.
pub struct JoinedWriter<W: Write + Send, A, B> {
    out: ParquetWriter<W>,
    rows: PhantomData<fn(&A, &B)>,
}

impl<W: Write + Send, A: Row, B: Row> JoinedWriter<W, A, B> {
    /// Starts a file with notes in its metadata, each with a key. The rows must come sorted by the columns in
    /// `sorted_by`, at least within each group of 131,072 rows: the file says so to its readers.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn new(out: W, notes: &[(&str, &str)], sorted_by: &[&str]) -> io::Result<Self> {
        let mut fields = Field::of::<A>();
        fields.extend(Field::of::<B>());
        let note = |&(key, text): &(&str, &str)| KeyValue::new(key.to_owned(), text.to_owned());
        let notes = notes.iter().map(note).collect();
        Ok(Self {
            out: ParquetWriter::with(out, &fields, notes, sorted_by)?,
            rows: PhantomData,
        })
    }

    /// Writes a row.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn row(&mut self, first: &A, second: &B) -> io::Result<()> {
        let values = A::columns().iter().map(|column| (column.get)(first));
        let more = B::columns().iter().map(|column| (column.get)(second));
        self.out.row(values.chain(more))
    }

    /// Ends the file and gives the output back.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn finish(self) -> io::Result<W> {
        self.out.finish()
    }
}
