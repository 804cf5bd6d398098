//! Writes tables as CSV, JSON or Parquet.
//!
//! What a table's columns are, its rows say: see [`tidegate_table`].

mod parquet;
mod write;

pub use write::{Format, Writer};
