#![doc = include_str!("../README.md")]

pub mod advice;
pub mod chance;
pub mod claim;
mod draw;
pub mod effect;
pub mod gate_file;
pub mod json;
pub mod picture;
pub mod remedy;
pub mod router;
pub mod setting;
pub mod situation;
pub mod text;
pub mod trial;
