//! The rate that the kernel keeps for a connection's socket: the sum of its videos' rates, as soon as all of them
//! are throttled.

use std::collections::BTreeMap;

use tidegate_pace::Way;
use tokio::time::Instant;

use super::late::Late;
use crate::server::kernel::Sockets;
use crate::server::transport::Transport;

#[derive(Debug)]
pub(super) struct SocketRate {
    /// Videos that are being sent, by number: the rate each is throttled to, in bit/s.
    videos: BTreeMap<u64, Option<u64>>,
    asked: Asked,
    late: Late,
    /// The kernel did not pace this socket when it should. The application paces it then.
    refused: bool,
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
            late: Late::default(),
            refused: false,
        }
    }

    /// Whether the kernel bounds the socket to the rate of a single video.
    pub fn holds_one(&self) -> bool {
        !self.refused && self.videos.len() <= 1
    }

    /// How the socket was really paced, if it was to be so.
    pub fn really_by(&self, by: &'static str) -> &'static str {
        match self.refused {
            true => "application",
            false => by,
        }
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

    /// Gives up the memory of videos that ended.
    pub fn forget_ends(&mut self) {
        if self.videos.is_empty() {
            self.videos = BTreeMap::new();
        }
    }

    /// The sum of the videos' rates in bit/s, if all of them are throttled.
    fn sum(&self) -> Option<u64> {
        let sum = self.videos.values().copied().sum::<Option<u64>>();
        sum.filter(|&rate| rate > 0)
    }

    /// So many bytes of the socket are acknowledged now. Afterwards the rate must be applied, which may differ.
    pub fn note(&mut self, now: Instant, acknowledged: u64) {
        if let (Some(rate), Asked::Rate(_)) = (self.sum(), self.asked) {
            self.late.note(now, rate, acknowledged);
        }
    }

    /// Keeps the socket to the sum of its videos' rates, as soon as all of them are throttled.
    pub fn apply(&mut self, sockets: &Sockets, way: Way, transport: &Transport) -> Applied {
        let new_phase = !matches!(self.asked, Asked::Rate(_));
        if new_phase {
            self.late.restart();
        }
        let rate = self.sum().map(|rate| self.late.asked(rate));
        let asked = rate.map_or(Asked::Nothing, Asked::Rate);
        if asked == self.asked {
            return Applied::Done;
        }
        let done = transport.set(sockets, way, rate, new_phase);
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
