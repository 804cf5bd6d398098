//! Adaptive video: a player that asks for one segment after the other, over one connection, and chooses the quality
//! of each.

mod rule;

use tidegate_limiter::pacing::playback::{self, Playback};
use tidegate_limiter::{Bytes, Nanos, Rate};

use self::rule::Player;
use super::Ends;
use crate::SECOND;
use crate::outcome::{AdaptiveOutcome, Completion};
use crate::plan::AdaptivePlan;
use crate::tcp::Connection;

#[cfg(test)]
mod tests;

/// The buffer counts time, not the bytes of segments: a byte of it is a microsecond.
const MICROSECONDS: Rate = Rate::from_bits_per_second(8_000_000);

/// A player and its server.
#[derive(Debug)]
pub struct Adaptive {
    plan: AdaptivePlan,
    player: Player,
    stage: Stage,
    playback: Playback,
    /// The encoding rates of the segments that were asked for.
    qualities: Vec<u64>,
    /// The segment that is fetched.
    fetch: Fetch,
    /// Bytes of all that was asked for, the number of requests, and of answers that the server has written.
    asked: u64,
    requests: u64,
    written: u64,
    /// Since when the player could ask for a segment.
    free: Nanos,
    /// Whether its rule made it wait before the segment that comes.
    waited: bool,
}

#[derive(Debug, PartialEq)]
enum Stage {
    /// Until this time; then asks for a segment.
    Paused(Nanos),
    /// Will ask once the connection is established.
    Opening,
    Fetching,
    Done,
}

/// A segment that is fetched.
#[derive(Debug, Default)]
struct Fetch {
    requested: Nanos,
    bytes: u64,
    /// When its first bytes had arrived, after which its throughput is measured.
    first: Option<Nanos>,
}

impl Adaptive {
    /// A video that is requested at this time.
    pub fn new(plan: AdaptivePlan, start: Nanos) -> Self {
        let settings = playback::Settings {
            rate: MICROSECONDS,
            start: plan.start,
            restart: plan.restart,
            length: None,
        };
        Self {
            player: Player::new(&plan),
            stage: Stage::Paused(start),
            playback: Playback::new(settings, start),
            qualities: Vec::new(),
            fetch: Fetch::default(),
            asked: 0,
            requests: 0,
            written: 0,
            free: start,
            waited: false,
            plan,
        }
    }

    /// The end of a pause.
    pub fn next_timeout(&self) -> Option<Nanos> {
        match self.stage {
            Stage::Paused(until) => Some(until),
            _ => None,
        }
    }

    /// Asks for a segment; first, for a connection.
    pub fn on_timeout(&mut self, now: Nanos, ends: Option<&mut Ends>) -> bool {
        match ends {
            Some(ends) => {
                self.ask(now, &mut ends.client);
                false
            }
            None => {
                self.fetch.requested = now;
                self.stage = Stage::Opening;
                true
            }
        }
    }

    /// Asks for what comes next: a part of the preface, or a segment.
    fn ask(&mut self, now: Nanos, client: &mut Connection) {
        if let Some(&bytes) = self.plan.preface.get(self.requests as usize) {
            self.request(now, bytes, client);
            return;
        }
        let buffer = self.playback.buffered(now);
        let stalls = self.playback.stalls().len();
        let idle = now.saturating_sub(self.free);
        let (quality, wait) = self.player.choose(buffer, idle, stalls);
        // Once: a video that does not play yet would not take anything from the buffer meanwhile.
        self.waited = wait > 0 && !self.waited;
        if self.waited {
            self.free = now.saturating_add(wait);
            self.stage = Stage::Paused(self.free);
            return;
        }
        let rate = self.plan.ladder[quality].bits_per_second();
        let segment = self.qualities.len();
        let plays = self.plan.plays(segment as u64);
        let sizes = &self.plan.sizes;
        let size = sizes.get(segment % sizes.len().max(1)).unwrap_or(&1000);
        let bits = u128::from(rate) * u128::from(plays) * u128::from(*size);
        let bytes = u64::try_from(bits.div_ceil(8000 * u128::from(SECOND))).unwrap_or(u64::MAX);
        self.qualities.push(rate);
        self.request(now, bytes, client);
    }

    fn request(&mut self, now: Nanos, bytes: u64, client: &mut Connection) {
        // The first request waits for the connection, and the viewer with it.
        let requested = match self.stage {
            Stage::Opening => self.fetch.requested,
            _ => now,
        };
        self.fetch = Fetch {
            requested,
            bytes: bytes.max(1),
            first: None,
        };
        self.asked += self.fetch.bytes;
        self.requests += 1;
        self.stage = Stage::Fetching;
        client.write(now, Bytes::new(self.plan.request.into()));
    }

    /// Answers a request that has arrived completely.
    pub fn on_server(&mut self, now: Nanos, server: &mut Connection) {
        let request = u64::from(self.plan.request);
        if self.written < self.requests && server.received() >= (self.written + 1) * request {
            self.written += 1;
            server.write(now, Bytes::new(self.fetch.bytes));
        }
    }

    /// Plays what arrived, and goes on with the next segment.
    pub fn on_client(&mut self, now: Nanos, client: &mut Connection) -> Option<Completion> {
        match self.stage {
            Stage::Opening if client.established() => {
                if self.plan.preface.is_empty() && self.plan.work > 0 {
                    self.stage = Stage::Paused(now.saturating_add(self.plan.work));
                    return None;
                }
                self.ask(now, client);
            }
            Stage::Fetching => {}
            _ => return None,
        }
        let received = client.received();
        let unmeasured = self.unmeasured();
        if received >= self.asked - self.fetch.bytes + unmeasured.max(1) {
            self.fetch.first.get_or_insert(now);
        }
        if received < self.asked {
            return None;
        }
        let left = self.plan.preface.len().checked_sub(self.requests as usize);
        if let Some(left) = left {
            self.free = now;
            let work = if left == 0 { self.plan.work } else { 0 };
            self.stage = Stage::Paused(now.saturating_add(work));
            return None;
        }
        let done = self.qualities.len() as u64;
        let left = self.playback.buffered(now);
        // Microseconds of the whole video up to here, so that nothing is lost by rounding.
        let until = |segments: u64| {
            segments
                .saturating_mul(self.plan.segment)
                .min(self.plan.length)
                / 1000
        };
        self.playback
            .arrived(now, Bytes::new(until(done) - until(done - 1)));
        let fetched = rule::Fetched {
            bytes: self.fetch.bytes - unmeasured,
            time: now - self.fetch.first.unwrap_or(now),
            since: now - self.fetch.requested,
            left,
        };
        self.player.fetched(fetched);
        self.free = now;
        if done == self.plan.segments() {
            self.playback.finish(now);
            client.close(now);
            self.stage = Stage::Done;
        } else {
            // It asks when there is room in the buffer, which empties while the video plays. A player that still waits for
            // more video asks at once.
            let room = self.plan.buffer.saturating_sub(self.player.room());
            let over = match self.playback.runs_out() {
                Some(_) => self.playback.buffered(now).saturating_sub(room),
                None => 0,
            };
            self.stage = Stage::Paused(now.saturating_add(over));
        }
        Some(Completion {
            start: self.fetch.requested,
            end: now,
            bytes: self.fetch.bytes,
        })
    }

    /// Bytes of the segment that say nothing of its throughput.
    fn unmeasured(&self) -> u64 {
        self.fetch.bytes.min(self.plan.unmeasured.into())
    }

    /// When the incomplete segment was asked for.
    pub fn open(&self) -> Option<Nanos> {
        matches!(self.stage, Stage::Opening | Stage::Fetching).then_some(self.fetch.requested)
    }

    /// Whether all segments have arrived.
    pub fn ended(&self) -> bool {
        self.stage == Stage::Done
    }

    /// The results until this time.
    pub fn outcome(&self, now: Nanos) -> AdaptiveOutcome {
        let fetches = self.stage == Stage::Fetching && !self.qualities.is_empty();
        let arrived = self.qualities.len() - usize::from(fetches);
        AdaptiveOutcome {
            viewing: self.playback.clone().viewing(now),
            qualities: self.qualities[..arrived].to_vec(),
        }
    }
}
