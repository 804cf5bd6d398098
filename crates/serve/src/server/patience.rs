//! How long a connection waits for its client: for a request, and for it to take what it asked for.

use std::time::Duration;

use tokio::time::Instant;

use super::config::Limits;
use super::connection::Connection;

/// How long a connection without a request may take to end once it is asked to.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);

/// Why a connection ends whose client takes nothing.
pub(super) const STALLED: &str = "stall timeout";

/// How many times in a timeout the server checks whether the client took something.
const CHECKS: u32 = 8;

/// The patience with one client.
#[derive(Debug)]
pub(super) struct Patience {
    /// The time between checks at most.
    interval: Duration,
    /// The client is asked to end, until this time.
    farewell: Option<Instant>,
}

/// What follows from a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Wait,
    /// The client is to be asked to end.
    Ask,
    /// The connection ends, for this reason.
    End(&'static str),
}

/// The time between checks at most.
fn interval(limits: &Limits) -> Duration {
    limits.header_timeout.min(limits.stall_timeout) / CHECKS
}

/// When a connection that rests now has done so long enough. While its client has not taken all of the last response, it must be asked
/// about as often as others.
pub(super) fn rests_until(connection: &Connection) -> Instant {
    connection.note_acknowledged();
    let (deadline, _) = connection.deadline();
    match connection.is_unacknowledged() {
        true => deadline.min(Instant::now() + interval(&connection.shared.config.limits)),
        false => deadline,
    }
}

impl Patience {
    pub fn new(connection: &Connection) -> Self {
        Self {
            interval: interval(&connection.shared.config.limits),
            farewell: None,
        }
    }

    /// When to check next. A deadline may become earlier when a response begins or ends, and acknowledged bytes count from the time when
    /// they are seen.
    pub fn next(&self, connection: &Connection) -> Instant {
        let (deadline, _) = connection.deadline();
        let check = deadline.min(Instant::now() + self.interval);
        self.farewell.unwrap_or(check)
    }

    /// Whether the client was asked to end.
    pub fn is_over(&self) -> bool {
        self.farewell.is_some()
    }

    /// Checks whether the client took something.
    pub fn check(&mut self, connection: &Connection) -> Verdict {
        connection.note_acknowledged();
        let (deadline, sending) = connection.deadline();
        if deadline > Instant::now() || sending && connection.reset_stalled() {
            self.farewell = None;
            Verdict::Wait
        } else if sending {
            Verdict::End(STALLED)
        } else if self.is_over() {
            Verdict::End("header timeout")
        } else {
            self.farewell = Some(Instant::now() + FAREWELL);
            Verdict::Ask
        }
    }
}
