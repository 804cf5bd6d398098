//! The flows of a subscriber that are watched.

use std::net::IpAddr;

use tidegate_limiter::Nanos;

use crate::line::Segments;
use crate::table::PerDirection;

/// The packets of a flow in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Way {
    /// Packets that passed within the limit, counted as on the wire.
    pub passed_packets: u64,
    /// Their bytes, as they are charged.
    pub passed_bytes: u64,
    /// Packets beyond the limit.
    pub excess_packets: u64,
    /// Their bytes.
    pub excess_bytes: u64,
    /// Of the packets that passed, those that were marked as congested here.
    pub marked_packets: u64,
    /// Segments of TCP with data.
    pub segments: Segments,
    /// The latest time from a packet to its answer, in nanoseconds; 0 if none was measured.
    pub trip: Nanos,
    /// The queue of the latest packet.
    pub queue: u16,
}

/// A flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// The subscriber's address.
    pub local: IpAddr,
    /// The other address.
    pub remote: IpAddr,
    /// The subscriber's port, and the other one; 0 without ports.
    pub ports: (u16, u16),
    /// The protocol's number.
    pub protocol: u8,
    /// Nanoseconds since its first packet.
    pub age: Nanos,
    /// Nanoseconds since its latest packet.
    pub idle: Nanos,
    /// Its packets, since it is watched. On several cores at once, few of them may not be counted.
    pub ways: PerDirection<Way>,
}
