//! The receive window, as a capture away from the sender shows it.
//!
//! A packet that echoes a timestamp for the first time (RFC 7323 §3.2) was sent by a sender that had just heard the
//! acknowledgement with that timestamp. Up to then it knew those before. So such a packet shows whether the window that it knew
//! had held it back until then.

use crate::read::Nanos;

/// Up to where a sender knew that it might send.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    /// By what the last packet echoed.
    pub known: Option<u64>,
    /// By all that came to the sender before that.
    pub before: Option<u64>,
    /// Whether the window left no room for two packets more: an acknowledgement lets the sender send two, and a packet may be
    /// the first of them.
    pub leaves_no_room: bool,
    /// When the last packet came that echoed a timestamp for the first time, in this segment.
    last: Option<Nanos>,
}

impl Edges {
    /// A packet echoes a timestamp for the first time. Given the ends of the stream before and with it, and what a full packet
    /// holds, it returns for how long the sender had had no room for a packet. A retransmission shows nothing of that.
    pub fn echoed(&mut self, at: Nanos, from: u64, to: u64, full: u64) -> Nanos {
        self.leaves_no_room = self.known.is_some_and(|edge| to + 2 * full > edge);
        let since = self.last.replace(at).unwrap_or(at);
        let held_back = to > from && self.before.is_some_and(|edge| from + full > edge);
        match held_back {
            true => at.saturating_sub(since),
            false => 0,
        }
    }

    /// Another segment begins: what came before has nothing to do with it.
    pub fn begin(&mut self) {
        self.last = None;
    }
}
