//! TCP without a network: two [`Connection`]s that exchange [`Segment`]s, time passed in.
//!
//! It follows Linux where the RFCs leave a choice, because that is what servers run.

pub mod cc;
mod config;
mod connection;
mod receiver;
mod segment;
mod sender;
#[cfg(test)]
mod tests;

pub use cc::Algorithm;
pub use config::{Recovery, TcpConfig};
use connection::clock;
pub use connection::{Connection, Snapshot};
pub use segment::{Sacks, Segment};
pub use sender::Counts;
