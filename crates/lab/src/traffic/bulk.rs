//! One transfer of any length.

use tidegate_limiter::{Bytes, Nanos};

use crate::outcome::Completion;
use crate::tcp::Connection;

/// The bytes of a transfer without end: more than any link carries in a lifetime, and far from the
/// largest sequence number.
const ENDLESS: u64 = 1 << 60;

/// A transfer that begins when the connection is established.
#[derive(Debug)]
pub struct Bulk {
    bytes: Option<u64>,
    start: Nanos,
    stage: Stage,
}

#[derive(Debug, PartialEq)]
enum Stage {
    Waiting,
    Opening,
    Sending,
    Done,
}

impl Bulk {
    /// A transfer of this many bytes, or without end.
    pub fn new(bytes: Option<u64>, start: Nanos) -> Self {
        Self {
            bytes,
            start,
            stage: Stage::Waiting,
        }
    }

    /// A time only before it begins.
    pub fn next_timeout(&self) -> Option<Nanos> {
        (self.stage == Stage::Waiting).then_some(self.start)
    }

    /// The transfer begins.
    pub fn on_timeout(&mut self) -> bool {
        self.stage = Stage::Opening;
        true
    }

    /// Writes everything once the connection is established.
    pub fn on_server(&mut self, now: Nanos, server: &mut Connection) {
        if self.stage == Stage::Opening && server.established() {
            self.stage = Stage::Sending;
            server.write(now, Bytes::new(self.bytes.unwrap_or(ENDLESS)));
            if self.bytes.is_some() {
                server.close(now);
            }
        }
    }

    /// Notes when everything has arrived.
    pub fn on_client(&mut self, now: Nanos, client: &mut Connection) -> Option<Completion> {
        let bytes = self.bytes?;
        if self.stage != Stage::Sending || client.received() < bytes {
            return None;
        }
        self.stage = Stage::Done;
        client.close(now);
        Some(Completion {
            start: self.start,
            end: now,
            bytes,
        })
    }

    /// When the incomplete transfer began.
    pub fn open(&self) -> Option<Nanos> {
        matches!(self.stage, Stage::Opening | Stage::Sending).then_some(self.start)
    }

    /// Whether everything has arrived.
    pub fn ended(&self) -> bool {
        self.stage == Stage::Done
    }
}
