//! Packets to flows, and flows to segments.

mod directions;
mod duplicate;
mod echoes;
mod foreign;
mod segment;
mod segmentation;
mod settings;
mod sink;
mod table;
mod tracker;
mod window;

#[cfg(test)]
mod tests;

pub(crate) use duplicate::Recent;
pub use foreign::{Foreign, ForeignKind};
pub(crate) use segmentation::SegmentSize;
pub use settings::Settings;
pub use sink::{Ended, FlowSink, FlowSummary};
pub use table::{Counters, FlowTable, Span};
pub use window::announced_window;
