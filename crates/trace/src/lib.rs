//! From a packet capture to what limited each transfer in it.
//!
//! The way through is one direction: [`read`] gives frames, [`wire`] decodes them to packets,
//! [`flow`] gathers packets into flows and segments, [`annotate`] finds out what became of every
//! packet and sums up, [`detect`] judges what limited the rate. A bad packet raises a counter and
//! never ends the run; nothing is unbounded in memory; each packet costs the same.

mod analyse;
pub mod annotate;
pub mod detect;
pub mod flow;
pub mod read;
pub mod rows;
pub mod wire;
pub mod write;

pub use analyse::{Analysis, Options, Outcome, Sink, analyse};

#[cfg(test)]
mod testing;
