#![doc = include_str!("../README.md")]
//!
//! # The way of a packet
//!
//! One direction, and each module knows only those before it:
//!
//! 1. [`read`]: a capture to frames.
//! 2. [`wire`]: a frame to a TCP packet.
//! 3. [`annotate`]: what became of each packet that an endpoint sent, and what a transfer comes to.
//! 4. [`flow`]: packets to flows and segments; it drives the annotation.
//! 5. [`detect`]: what limited a transfer.
//! 6. [`analyse`]: all of this for one capture.
//! 7. [`rows`]: the results as tables with documented columns.
//!
//! [`pair`] compares two captures of the same traffic: [`read`] and [`wire`] twice, then packet against packet.
//!
//! [`folder`] says which files of a folder are captures. [`mod@write`] is the way back, from packets to a capture, for simulations and tests.

mod analyse;
pub mod annotate;
pub mod detect;
pub mod flow;
pub mod folder;
mod memory;
pub mod pair;
pub mod read;
pub mod rows;
pub mod wire;
pub mod write;

pub use analyse::{Analysis, Options, Outcome, Sink, analyse, analyse_pieces};
pub use memory::keep_memory;

#[cfg(test)]
mod testing;
