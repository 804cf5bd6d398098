//! The rows of captures: segments, flows, packets. Each column is declared once, here.

mod client;
mod flow;
mod gather;
mod judged;
mod packet;
mod pair;
mod segment;

pub use client::{ClientRow, ClientSums};
pub use flow::FlowRow;
pub use gather::{ClientRows, FlowRows};
pub use packet::PacketRow;
pub use pair::PairRow;
pub use segment::SegmentRow;
