//! A connection's first three packets.

use crate::read::Nanos;
use crate::wire::Flags;

/// When the packets of the handshake were captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Handshake {
    syn: Option<Nanos>,
    answer: Option<Nanos>,
    done: Option<Nanos>,
    /// How often a SYN or the answer to it was sent again.
    pub retransmissions: u16,
}

impl Handshake {
    /// Takes a packet of the client or the server.
    #[inline]
    pub(crate) fn packet(&mut self, from_client: bool, flags: Flags, at: Nanos) {
        if flags.has(Flags::SYN) {
            let answers = flags.has(Flags::ACK);
            if answers == from_client {
                return;
            }
            let first = if answers {
                &mut self.answer
            } else {
                &mut self.syn
            };
            if first.is_some() {
                self.retransmissions = self.retransmissions.saturating_add(1);
            }
            first.get_or_insert(at);
        } else if from_client && self.done.is_none() && self.answer.is_some() {
            self.done = Some(at);
        }
    }

    /// Whether its last packet is still to come.
    pub(crate) fn is_open(&self) -> bool {
        self.answer.is_some() && self.done.is_none()
    }

    /// Whether all of it was captured, each packet once: what was sent again is answered at times that
    /// tell nothing.
    fn is_clear(&self) -> bool {
        self.retransmissions == 0
    }

    /// From the SYN to the answer: the round-trip time between the capture and the server.
    pub fn to_server(&self) -> Option<Nanos> {
        self.answer?
            .checked_sub(self.syn.filter(|_| self.is_clear())?)
    }

    /// From the answer to what acknowledges it: the round-trip time between the capture and the client.
    pub fn to_client(&self) -> Option<Nanos> {
        self.done?
            .checked_sub(self.answer.filter(|_| self.is_clear())?)
    }

    /// The round-trip time from end to end.
    pub fn rtt(&self) -> Option<Nanos> {
        Some(self.to_server()?.saturating_add(self.to_client()?))
    }
}
