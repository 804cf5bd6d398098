//! The figures of a connection, for the log and the metrics.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::config::Group;
use super::kernel::Snapshot;

/// The figures of a connection.
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
    /// The throttling phase: its duration, its body bytes, and the kernel's figures when it began.
    pub throttled: Option<(Duration, u64, Snapshot)>,
    /// How it was really paced.
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
    /// When the kernel's figures were last asked for.
    asked: Option<Instant>,
    /// Smallest and largest smoothed round-trip time seen, in microseconds.
    pub srtt: Option<(u32, u32)>,
}

/// The throttling phase, in the log's terms.
#[derive(Debug, Clone, Copy, Default)]
enum Throttling {
    #[default]
    NotYet,
    /// It begins as soon as all bodies that were written before are acknowledged: this many bytes.
    After(u64),
    /// It began then, with these figures of the kernel.
    Since(Instant, Snapshot),
}

impl Notes {
    /// The first response is throttled, after this many bytes. Returns false if one was throttled
    /// before.
    pub fn begin_throttling(&mut self, written: u64) -> bool {
        let first = matches!(self.throttling, Throttling::NotYet);
        if first {
            self.throttling = Throttling::After(written);
        }
        first
    }

    /// A throttled response handed over this many bytes. Returns the kernel's figures if they were asked for: often until the throttling
    /// phase has begun, and then when the last ones are this old.
    pub fn sent_throttled(
        &mut self,
        bytes: usize,
        now: Instant,
        age: Duration,
        snapshot: impl FnOnce() -> Snapshot,
    ) -> Option<Snapshot> {
        let begun = matches!(self.throttling, Throttling::Since(..));
        let fresh = self.asked.is_some_and(|asked| now < asked + age);
        let snapshot = (!begun || !fresh).then(|| {
            self.asked = Some(now);
            snapshot()
        });
        if let Some(snapshot) = snapshot {
            self.note(snapshot);
            if let Throttling::After(before) = self.throttling
                && snapshot.acknowledged >= before
            {
                self.throttling = Throttling::Since(now, snapshot);
            }
        }
        if matches!(self.throttling, Throttling::Since(..)) {
            self.throttled_bytes += bytes as u64;
        }
        snapshot
    }

    /// The throttling phase until now: its duration, its body bytes, and the kernel's figures when it began.
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

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: Duration = Duration::from_millis(250);

    #[test]
    fn the_kernel_is_asked_often_only_until_the_phase_begins() {
        let began = Instant::now();
        let mut notes = Notes::default();
        notes.begin_throttling(1_000);
        let mut asked = 0;
        for block in 0..100_u32 {
            // Five blocks in that time. The start-up is acknowledged after 5 of them.
            let now = began + block * AGE / 5;
            let snapshot = || Snapshot {
                acknowledged: u64::from(block) * 200,
                srtt_us: 100 + block,
                ..Snapshot::default()
            };
            asked += usize::from(notes.sent_throttled(10, now, AGE, snapshot).is_some());
        }
        // Blocks 0 to 5, then every fifth.
        assert_eq!(asked, 6 + 18);
        let (_, bytes, then) = notes.throttled().unwrap();
        assert_eq!((bytes, then.acknowledged), (950, 1_000));
        assert_eq!(notes.srtt, Some((100, 195)));
    }
}
