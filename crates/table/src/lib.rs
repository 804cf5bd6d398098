#![doc = include_str!("../README.md")]

mod column;
pub mod convert;

pub use column::{Column, Kind, Row, Time, Value};
