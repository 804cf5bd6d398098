#![doc = include_str!("../README.md")]

mod joined;
mod lines;
mod parquet;
mod write;

pub use joined::JoinedWriter;
pub use write::{Format, Writer};
