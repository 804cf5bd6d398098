//! How a connection went, for the log and the metrics.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::config::Group;
use super::kernel::Snapshot;

/// How a connection went.
#[derive(Debug, Clone)]
pub(super) struct Account<'a> {
    /// Counted from 0, in the order of arrival.
    pub number: u64,
    pub peer: SocketAddr,
    pub group: &'a Group,
    pub accepted: SystemTime,
    pub requests: u64,
    pub written: u64,
    pub duration: Duration,
    pub now: Snapshot,
    /// Smallest and largest smoothed round-trip time seen, in microseconds.
    pub srtt: Option<(u32, u32)>,
    /// Of the throttling phase: its duration, its body bytes, and how the connection stood when it began.
    pub throttled: Option<(Duration, u64, Snapshot)>,
    /// What paces it, as it turned out.
    pub by: &'static str,
}

impl Account<'_> {
    pub fn address(&self) -> IpAddr {
        self.peer.ip().to_canonical()
    }
}

/// Facts for the log that are collected while a connection lasts.
#[derive(Debug, Default)]
pub(super) struct Notes {
    throttling: Throttling,
    throttled_bytes: u64,
    /// Smallest and largest smoothed round-trip time seen, in microseconds.
    pub srtt: Option<(u32, u32)>,
}

/// The throttling phase, as the log counts it.
#[derive(Debug, Clone, Copy, Default)]
enum Throttling {
    #[default]
    NotYet,
    /// It begins as soon as all that was written before is acknowledged: this many bytes.
    After(u64),
    /// It began then, with the connection as it stood.
    Since(Instant, Snapshot),
}

impl Notes {
    /// The first response is throttled, after this many bytes; false if one was before.
    pub fn begin_throttling(&mut self, written: u64) -> bool {
        let first = matches!(self.throttling, Throttling::NotYet);
        if first {
            self.throttling = Throttling::After(written);
        }
        first
    }

    /// A throttled response handed over this many bytes.
    pub fn sent_throttled(&mut self, bytes: usize, snapshot: Snapshot) {
        self.note(snapshot);
        match self.throttling {
            Throttling::After(before) if snapshot.acknowledged >= before => {
                self.throttling = Throttling::Since(Instant::now(), snapshot);
            }
            Throttling::Since(..) => {}
            Throttling::NotYet | Throttling::After(_) => return,
        }
        self.throttled_bytes += bytes as u64;
    }

    /// The throttling phase until now: its duration, its body bytes, and how the connection stood when it began.
    pub fn throttled(&self) -> Option<(Duration, u64, Snapshot)> {
        match self.throttling {
            Throttling::Since(at, then) => Some((at.elapsed(), self.throttled_bytes, then)),
            Throttling::NotYet | Throttling::After(_) => None,
        }
    }

    pub fn note(&mut self, snapshot: Snapshot) {
        if snapshot.srtt_us == 0 {
            return;
        }
        let (least, most) = self.srtt.unwrap_or((u32::MAX, 0));
        self.srtt = Some((least.min(snapshot.srtt_us), most.max(snapshot.srtt_us)));
    }
}
