//! Frames to TCP packets: link layer, IP, TCP.
//!
//! Every access is checked against the bytes that were captured, so a packet that a snapshot
//! length cut, even inside its TCP options, still gives all that is there.

mod bytes;
mod decode;
mod ip;
mod link;
mod marking;
mod options;
mod packet;
mod tcp;
mod tunnel;

#[cfg(test)]
mod tests;

pub use decode::{decode, ethernet_type, ip_protocol, ip_start};
pub(crate) use link::interface;
pub use marking::Marking;
pub use options::{Flags, Options, SackBlock, Sacks, Timestamps};
pub use packet::{Endpoint, Packet, Skip};
