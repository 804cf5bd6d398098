#![doc = include_str!("../README.md")]

mod column;
pub mod convert;
pub mod csv;

pub use column::{Column, Extra, Kind, Row, Time, Value};
