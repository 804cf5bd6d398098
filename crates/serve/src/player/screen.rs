//! The part of a video that a viewer has: its first bytes until they give its rate, and then a player's
//! buffer.

use std::time::Duration;

use tidegate_limiter::pacing::playback::{Playback, Settings, Viewing};
use tidegate_limiter::{Bytes, Rate};
use tokio::time::Instant;

use super::error::PlayError;
use crate::media::{Media, PLAUSIBLE, Prefix};

/// The beginning of a file in which headers are searched for, in bytes.
const HEADERS: usize = 1 << 20;

/// How much video a player wants in its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Before it begins to play.
    pub start: Duration,
    /// Before it plays again, once the buffer ran empty.
    pub restart: Duration,
}

/// The buffer of a video whose rate may not be known yet.
#[derive(Debug)]
pub(super) struct Screen {
    patience: Patience,
    start_up: Duration,
    began: Instant,
    /// The first bytes, until they have given the rate.
    head: Vec<u8>,
    /// How many of them were probed.
    probed: usize,
    /// The bytes that arrived until then.
    early: Vec<(u64, u64)>,
    playback: Option<Playback>,
    given: Option<Rate>,
    pub rate: Option<Rate>,
    pub length: Option<u64>,
    pub bytes: u64,
    /// The server's start-up phase: when its last byte arrived, and how many bytes it had.
    start_up_over: Option<(Instant, u64)>,
    /// When the last byte arrived.
    pub last: Instant,
}

impl Screen {
    /// A screen without a picture. `rate` takes precedence over the file's.
    pub fn new(patience: Patience, start_up: Duration, rate: Option<Rate>, began: Instant) -> Self {
        Self {
            patience,
            start_up,
            began,
            head: Vec::new(),
            probed: 0,
            early: Vec::new(),
            playback: None,
            given: rate,
            rate: None,
            length: None,
            bytes: 0,
            start_up_over: None,
            last: began,
        }
    }

    fn nanos(&self, at: Instant) -> u64 {
        u64::try_from((at - self.began).as_nanos()).unwrap_or(u64::MAX)
    }

    /// The rate that the server states, which knows also what is not in the file.
    pub fn stated(&mut self, rate: Option<Rate>) {
        let plausible = |rate: &Rate| PLAUSIBLE.contains(&rate.bits_per_second());
        self.given = self.given.or(rate.filter(plausible));
    }

    /// The beginning of the file, which did not give the rate.
    pub fn take_head(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.head)
    }

    /// These bytes of the video have arrived.
    pub fn arrived(&mut self, bytes: &[u8]) -> Result<(), PlayError> {
        let now = Instant::now();
        self.last = now;
        let count = bytes.len() as u64;
        self.bytes += count;
        let nanos = self.nanos(now);
        match &mut self.playback {
            Some(playback) => playback.arrived(nanos, Bytes::new(count)),
            None => {
                self.early.push((nanos, count));
                let room = HEADERS - self.head.len();
                self.head.extend(&bytes[..bytes.len().min(room)]);
                // Only when there is twice as much as last time, so that probing takes little time.
                if room == 0 || self.head.len() >= self.probed * 2 {
                    self.probed = self.head.len();
                    self.find_rate(room == 0)?;
                }
            }
        }
        if let (None, Some(rate)) = (self.start_up_over, self.rate) {
            let start_up = rate.bits_per_second() as f64 / 8.0 * self.start_up.as_secs_f64();
            if self.bytes as f64 >= start_up {
                self.start_up_over = Some((now, self.bytes));
            }
        }
        Ok(())
    }

    /// All bytes have arrived.
    pub fn complete(&mut self) -> Result<(), PlayError> {
        if self.playback.is_none() {
            self.find_rate(true)?;
        }
        Ok(())
    }

    /// The playback until `end`. `complete`: no more bytes will arrive.
    pub fn viewing(&mut self, end: Instant, complete: bool) -> Option<Viewing> {
        let nanos = self.nanos(end);
        let playback = self.playback.as_mut()?;
        if complete {
            playback.finish(nanos);
        }
        Some(playback.viewing(nanos))
    }

    /// Bytes after the start-up phase, and the time that they took until the last of them.
    pub fn throttled(&self) -> Option<(u64, Duration)> {
        self.start_up_over
            .map(|(at, bytes)| (self.bytes - bytes, self.last.saturating_duration_since(at)))
    }

    /// Begins to play if the rate is known now. `last`: no more bytes of the beginning will arrive.
    fn find_rate(&mut self, last: bool) -> Result<(), PlayError> {
        let rate = self.given.or_else(|| {
            let prefix = Prefix {
                bytes: &self.head,
                length: self.length?,
            };
            Some(Media::probe(&prefix).ok()?.rate())
        });
        let Some(rate) = rate else {
            if last {
                return Err(PlayError::UnknownRate);
            }
            return Ok(());
        };
        self.begin(rate);
        Ok(())
    }

    /// Begins to play at this rate.
    pub fn begin(&mut self, rate: Rate) {
        self.rate = Some(rate);
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let settings = Settings {
            rate,
            start: nanos(self.patience.start),
            restart: nanos(self.patience.restart),
            length: self.length,
        };
        let mut playback = Playback::new(settings, 0);
        for (at, bytes) in std::mem::take(&mut self.early) {
            playback.arrived(at, Bytes::new(bytes));
        }
        self.playback = Some(playback);
        self.head = Vec::new();
    }
}
