//! Video as players fetch it: a request, a chunk, a pause [Flach16 §4.4].

use tidegate_limiter::{Bytes, Nanos};

use super::Ends;
use crate::outcome::Completion;
use crate::tcp::Connection;

/// A player and its server, over one connection.
#[derive(Debug)]
pub struct Video {
    chunk: u64,
    left: Option<u32>,
    pause: Nanos,
    request: u32,
    stage: Stage,
    start: Nanos,
    /// Chunks that the client asked for, and that the server has written.
    asked: u64,
    written: u64,
}

#[derive(Debug, PartialEq)]
enum Stage {
    /// Until this time; then requests a chunk.
    Paused(Nanos),
    /// Will send its request once the connection is established.
    Opening,
    Fetching,
    Done,
}

impl Video {
    /// This many chunks, or without end, from this time on.
    pub fn new(chunk: u64, chunks: Option<u32>, pause: Nanos, request: u32, start: Nanos) -> Self {
        Self {
            chunk,
            left: chunks,
            pause,
            request,
            stage: if chunks == Some(0) {
                Stage::Done
            } else {
                Stage::Paused(start)
            },
            start,
            asked: 0,
            written: 0,
        }
    }

    /// The end of the pause.
    pub fn next_timeout(&self) -> Option<Nanos> {
        match self.stage {
            Stage::Paused(until) => Some(until),
            _ => None,
        }
    }

    /// Requests the next chunk; first, a connection.
    pub fn on_timeout(&mut self, now: Nanos, ends: Option<&mut Ends>) -> bool {
        self.start = now;
        let Some(ends) = ends else {
            self.stage = Stage::Opening;
            return true;
        };
        self.ask(now, &mut ends.client);
        false
    }

    fn ask(&mut self, now: Nanos, client: &mut Connection) {
        self.stage = Stage::Fetching;
        self.asked += 1;
        client.write(now, Bytes::new(self.request.into()));
    }

    /// Answers a request that has arrived completely.
    pub fn on_server(&mut self, now: Nanos, server: &mut Connection) {
        while self.written < self.asked
            && server.received() >= (self.written + 1) * u64::from(self.request)
        {
            self.written += 1;
            server.write(now, Bytes::new(self.chunk));
        }
    }

    /// Pauses when a chunk has arrived; closes after the last.
    pub fn on_client(&mut self, now: Nanos, client: &mut Connection) -> Option<Completion> {
        if self.stage == Stage::Opening && client.established() {
            self.ask(now, client);
        }
        let goal = self.asked.saturating_mul(self.chunk);
        if self.stage != Stage::Fetching || client.received() < goal {
            return None;
        }
        self.left = self.left.map(|left| left - 1);
        self.stage = if self.left == Some(0) {
            client.close(now);
            Stage::Done
        } else {
            Stage::Paused(now.saturating_add(self.pause))
        };
        Some(Completion {
            start: self.start,
            end: now,
            bytes: self.chunk,
        })
    }

    /// When the incomplete transfer began.
    pub fn open(&self) -> Option<Nanos> {
        matches!(self.stage, Stage::Opening | Stage::Fetching).then_some(self.start)
    }

    /// Whether all chunks have arrived.
    pub fn ended(&self) -> bool {
        self.stage == Stage::Done
    }
}
