#![doc = include_str!("../README.md")]

mod adaptive;
pub mod media;
mod percent;
pub mod player;
pub mod server;
