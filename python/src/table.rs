//! Tables in memory.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use tidegate_table::{Extra, Row, Value};

use crate::{arrow, capsule};

/// A table for any consumer of Arrow. It can be taken as often as wanted, without a copy.
#[pyclass(frozen)]
pub struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

/// A table that is being filled.
pub struct Filling<R> {
    schema: SchemaRef,
    extras: Vec<Extra>,
    batches: Vec<RecordBatch>,
    rows: PhantomData<R>,
}

impl<R: Row> Filling<R> {
    /// A table with the columns of its rows, and more behind them.
    pub fn new(extras: Vec<Extra>) -> Self {
        Self {
            schema: arrow::schema_with::<R>(&extras),
            extras,
            batches: Vec::new(),
            rows: PhantomData,
        }
    }

    /// Adds rows that have the same values in the further columns.
    pub fn add(&mut self, rows: &[R], values: &[Value]) -> Result<(), ArrowError> {
        let batch = arrow::batch_with(&self.schema, rows, &self.extras, values)?;
        self.batches.push(batch);
        Ok(())
    }

    pub fn finish(self) -> Table {
        Table {
            schema: self.schema,
            batches: self.batches,
        }
    }
}

#[pymethods]
impl Table {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = self.batches.clone().into_iter().map(Ok);
        let rows = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        capsule::stream(py, rows)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema(py, &self.schema)
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let fields = self.schema.fields().iter();
        fields.map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn __repr__(&self) -> String {
        format!(
            "<table of {} rows and {} columns>",
            self.__len__(),
            self.schema.fields().len()
        )
    }
}
