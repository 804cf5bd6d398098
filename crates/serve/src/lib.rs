#![doc = include_str!("../README.md")]

pub mod media;
pub mod player;
pub mod server;
