//! What the kernel keeps for a connection: the pace of its socket, and how it goes.

use tokio::net::TcpStream;

use super::pacing::{Blocks, Free, Turns, Way};

/// How a connection stands, as the kernel says (`TCP_INFO`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    /// Smoothed round-trip time, in microseconds; 0: not known.
    pub srtt_us: u32,
    /// The least round-trip time of late, in microseconds.
    pub min_rtt_us: u32,
    /// Congestion window, in segments.
    pub cwnd: u32,
    /// Segments with data sent, retransmissions among them.
    pub segments: u64,
    /// Segments retransmitted.
    pub retransmitted: u64,
    /// Bytes acknowledged.
    pub acknowledged: u64,
}

impl Snapshot {
    pub fn of(_socket: &TcpStream) -> Self {
        Self::default()
    }
}

/// Paces sockets.
#[derive(Debug, Default)]
pub(super) struct Pacing {}

impl Pacing {
    pub fn new(_ways: impl Iterator<Item = Way>) -> Result<Self, super::ServeError> {
        Ok(Self {})
    }

    pub fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    pub fn pace(&self, way: Way) -> Pace {
        Pace { way }
    }
}

/// The pace of one socket.
#[derive(Debug)]
pub(super) struct Pace {
    way: Way,
}

impl Pace {
    pub fn set(&mut self, _socket: &TcpStream, _bytes_per_second: Option<u64>) {}

    pub fn turns(&self, bytes_per_second: u64) -> Box<dyn Turns> {
        match self.way {
            Way::Application(block) => Box::new(Blocks::new(bytes_per_second, block)),
            _ => Box::new(Free),
        }
    }

    pub fn by(&self) -> &'static str {
        "application"
    }
}
