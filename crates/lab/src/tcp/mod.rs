//! TCP without a network: two [`Connection`]s that exchange [`Segment`]s. Time is passed in.
//!
//! If the RFCs leave a choice, it follows Linux, because servers run Linux.

pub mod cc;
mod config;
mod connection;
mod receiver;
mod segment;
mod sender;
#[cfg(test)]
mod tests;

pub use cc::Algorithm;
pub use config::{Recovery, SlowStart, TcpConfig};
pub use connection::{Connection, Snapshot};
use connection::{clock, since_echo};
pub use segment::{Sacks, Segment};
pub use sender::{Counts, Outstanding};
