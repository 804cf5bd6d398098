//! Where the last response of each file ended, so that a request that continues it has no second start-up phase.

use std::collections::VecDeque;

use crate::server::files::Identity;
use crate::server::range::Span;

/// Files whose position is remembered on a connection.
const REMEMBERED: usize = 8;
/// A request that begins at most this many bytes before the last position continues it, because players fetch a few
/// bytes twice.
const OVERLAP: u64 = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct Positions(VecDeque<Position>);

/// Where the last response of a file ended.
#[derive(Debug)]
pub(super) struct Position {
    pub file: Identity,
    /// The byte after the last one that was sent.
    pub next: u64,
    /// Bytes that may still be sent at full speed.
    pub credit: u64,
    /// When there were tokens for what was sent after them, in nanoseconds of the connection.
    pub paid: Option<u64>,
}

impl Positions {
    /// Where the last response of a file ended, if a response of this span continues it.
    pub fn continued(&mut self, file: Identity, span: Span) -> Option<Position> {
        let at = self.0.iter().position(|one| one.file == file)?;
        let last = self.0.remove(at)?;
        (span.start <= last.next && span.start + OVERLAP >= last.next).then_some(last)
    }

    pub fn remember(&mut self, position: Position) {
        self.0.retain(|one| one.file != position.file);
        self.0.push_back(position);
        if self.0.len() > REMEMBERED {
            self.0.pop_front();
        }
    }
}
