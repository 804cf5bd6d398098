//! Transfers of heavy-tailed size with pauses: the web, as in [Crovella97].

use tidegate_limiter::{Bytes, Nanos};

use super::Ends;
use crate::outcome::Completion;
use crate::random::{BoundedPareto, Random};
use crate::tcp::Connection;

/// A server that sends and pauses.
#[derive(Debug)]
pub struct OnOff {
    sizes: BoundedPareto,
    pause: Nanos,
    reconnect: bool,
    random: Random,
    stage: Stage,
    /// Bytes of the present transfer, and its start.
    bytes: u64,
    start: Nanos,
    /// The bytes that the client will have received over the connection when the transfer is
    /// complete.
    goal: u64,
}

#[derive(Debug)]
enum Stage {
    /// Until this time.
    Paused(Nanos),
    /// Will send once the connection is established.
    Opening,
    Sending,
}

impl OnOff {
    /// Transfers of these sizes in bytes, with pauses of this mean between them, from this time on.
    pub fn new(
        sizes: BoundedPareto,
        pause: Nanos,
        reconnect: bool,
        start: Nanos,
        random: Random,
    ) -> Self {
        Self {
            sizes,
            pause,
            reconnect,
            random,
            stage: Stage::Paused(start),
            bytes: 0,
            start,
            goal: 0,
        }
    }

    /// The end of the pause.
    pub fn next_timeout(&self) -> Option<Nanos> {
        match self.stage {
            Stage::Paused(until) => Some(until),
            _ => None,
        }
    }

    /// The next transfer begins.
    pub fn on_timeout(&mut self, now: Nanos, ends: Option<&mut Ends>) -> bool {
        self.bytes = (self.sizes.sample(&mut self.random) as u64).max(1);
        self.start = now;
        match ends {
            Some(ends) if !self.reconnect => {
                self.goal += self.bytes;
                ends.server.write(now, Bytes::new(self.bytes));
                self.stage = Stage::Sending;
                false
            }
            _ => {
                self.goal = self.bytes;
                self.stage = Stage::Opening;
                true
            }
        }
    }

    /// Writes once the connection is established.
    pub fn on_server(&mut self, now: Nanos, server: &mut Connection) {
        if matches!(self.stage, Stage::Opening) && server.established() {
            self.stage = Stage::Sending;
            server.write(now, Bytes::new(self.bytes));
            if self.reconnect {
                server.close(now);
            }
        }
    }

    /// When the incomplete transfer began.
    pub fn open(&self) -> Option<Nanos> {
        matches!(self.stage, Stage::Opening | Stage::Sending).then_some(self.start)
    }

    /// Pauses when everything has arrived.
    pub fn on_client(&mut self, now: Nanos, client: &mut Connection) -> Option<Completion> {
        if !matches!(self.stage, Stage::Sending) || client.received() < self.goal {
            return None;
        }
        if self.reconnect {
            client.close(now);
        }
        let pause = self.pause as f64 * self.random.exponential();
        self.stage = Stage::Paused(now.saturating_add(pause as Nanos));
        Some(Completion {
            start: self.start,
            end: now,
            bytes: self.bytes,
        })
    }
}
