//! The rate that the kernel keeps for a connection's socket: the sum of its videos' rates, as soon as all of them
//! are throttled.

use std::collections::BTreeMap;

use tidegate_pace::Way;
use tokio::net::TcpStream;

use crate::server::kernel::Sockets;

#[derive(Debug)]
pub(super) struct SocketRate {
    /// Videos that are being sent, by number: the rate each is throttled to, in bit/s.
    videos: BTreeMap<u64, Option<u64>>,
    asked: Asked,
    /// The kernel did not pace this socket when it should. The application paces it then.
    pub refused: bool,
}

/// The rate that the kernel should keep for the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    /// This rate, in bit/s.
    Rate(u64),
    /// This rate, when the last response ended. Data on its way keeps the rate, and the next response begins a new phase.
    RateBefore(u64),
}

/// The result of a request to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Applied {
    /// The kernel does it, or nothing was requested.
    Done,
    Refused,
}

impl SocketRate {
    pub fn new() -> Self {
        Self {
            videos: BTreeMap::new(),
            asked: Asked::Nothing,
            refused: false,
        }
    }

    /// Whether the kernel bounds the socket to the rate of a single video.
    pub fn holds_one(&self) -> bool {
        !self.refused && self.videos.len() <= 1
    }

    /// A video is sent at this rate in bit/s, or at full speed.
    pub fn set(&mut self, number: u64, rate: Option<u64>) {
        self.videos.insert(number, rate);
    }

    /// A video ended. True if others remain, whose rate must be applied.
    pub fn remove(&mut self, number: u64) -> bool {
        if self.videos.remove(&number).is_none() {
            return false;
        }
        if let (true, Asked::Rate(rate)) = (self.videos.is_empty(), self.asked) {
            self.asked = Asked::RateBefore(rate);
        }
        !self.videos.is_empty()
    }

    /// Keeps the socket to the sum of its videos' rates, as soon as all of them are throttled.
    pub fn apply(&mut self, sockets: &Sockets, way: Way, socket: &TcpStream) -> Applied {
        let sum = self.videos.values().copied().sum::<Option<u64>>();
        let new_phase = !matches!(self.asked, Asked::Rate(_));
        let asked = match sum {
            Some(rate) if rate > 0 => Asked::Rate(rate),
            _ => Asked::Nothing,
        };
        if asked == self.asked {
            return Applied::Done;
        }
        let rate = sum.filter(|&rate| rate > 0);
        let done = sockets.set(way, socket, rate, new_phase);
        if rate.is_some() {
            self.refused = !done;
        }
        self.asked = if done { asked } else { Asked::Nothing };
        if done {
            Applied::Done
        } else {
            Applied::Refused
        }
    }
}
