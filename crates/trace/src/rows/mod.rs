//! The rows of captures: segments, flows, packets. Each column is declared once, here.

mod flow;
mod packet;
mod pair;
mod segment;

pub use flow::FlowRow;
pub use packet::PacketRow;
pub use pair::PairRow;
pub use segment::SegmentRow;
