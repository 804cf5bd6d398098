//! TCP without a network: two [`Connection`]s that exchange [`Segment`]s, time passed in.
//!
//! It follows Linux where the RFCs leave a choice, because that is what servers run.

pub mod cc;
mod config;
mod segment;

pub use config::{Algorithm, Recovery, TcpConfig};
pub use segment::{Sacks, Segment};

pub(crate) use crate::standin::Connection;
