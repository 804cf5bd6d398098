#![doc = include_str!("../README.md")]

pub mod router;
pub mod setting;
