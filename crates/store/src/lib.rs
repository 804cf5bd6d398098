#![doc = include_str!("../README.md")]

mod joined;
mod parquet;
mod write;

pub use joined::JoinedWriter;
pub use write::{Format, Writer};
