//! The rows of captures: segments, flows, packets. Each column is declared once, here.

mod flow;
mod packet;
mod segment;

pub use flow::FlowRow;
pub use packet::PacketRow;
pub use segment::SegmentRow;
