#![doc = include_str!("../README.md")]

mod parquet;
mod write;

pub use write::{Format, Writer};
