//! Per-packet, per-segment and per-flow annotation: the annotator of [Flach16 §2.2].
//!
//! While packets come, `sender` finds out their fate; when a segment is done,
//! `measure` reads its packets once more and sums up.

mod board;
mod brief;
pub mod burst;
mod capacity;
mod complete;
mod congestion;
mod early;
mod edges;
mod handshake;
mod histogram;
mod holes;
mod interplay;
mod log;
mod measure;
mod metrics;
mod path;
mod pattern;
mod ranges;
mod rtt;
pub(crate) mod sender;
mod sent;
mod totals;
mod transfer;

pub use brief::Brief;
pub use capacity::Capacity;
pub(crate) use complete::{complete, with_echoes};
pub use handshake::Handshake;
pub use measure::Measurer;
pub use metrics::Metrics;
pub use path::{Path, Sign, Vantage};
pub use pattern::{Evidence, Pattern};
pub use rtt::{Growth, Rtt, median};
pub use sent::{Marks, Sent};
pub use totals::Totals;
pub use transfer::{FlowInfo, Layer, Tally, Transfer, TransferId, TransferSummary};

#[cfg(test)]
mod tests;
