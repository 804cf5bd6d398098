//! Declare a table once: each column's name, type, unit, meaning, and how its value comes out of a row.
//!
//! Everything else follows from the declaration: files in any format (`tidegate-store` writes CSV, JSON and Parquet),
//! documentation of the columns, tables on a terminal. This crate depends on nothing and knows no file format.
//!
//! ```
//! use tidegate_table::{Column, Row, Value, columns, convert};
//!
//! /// A ping and its answer.
//! struct Ping {
//!     host: String,
//!     /// Round-trip time in nanoseconds; none, if no answer came.
//!     rtt: Option<u64>,
//! }
//!
//! impl Row for Ping {
//!     const TITLE: &'static str = "a ping and its answer";
//!
//!     fn columns() -> &'static [Column<Self>] {
//!         columns! { Ping;
//!             host: Text [""] "The host that was asked." = |row| row.host.clone();
//!             rtt_ms: Real ["ms"] "Round-trip time; missing if no answer came." = |row| row.rtt.map(convert::millis);
//!         }
//!     }
//! }
//!
//! let ping = Ping { host: "example.org".to_owned(), rtt: Some(12_500_000) };
//! let rtt = &Ping::columns()[1];
//! assert_eq!((rtt.name, rtt.unit), ("rtt_ms", "ms"));
//! assert_eq!((rtt.get)(&ping), Value::Real(12.5));
//! ```

mod column;
pub mod convert;

pub use column::{Column, Kind, Row, Value};
