//! Where on a connection's path a capture was taken.

use std::fmt;

use crate::read::Nanos;

/// Where a capture was taken, as one endpoint's data see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Vantage {
    /// At the sender, or near it.
    Sender,
    /// On the way.
    Between,
    /// At the receiver, or near it.
    Receiver,
    /// The capture does not tell.
    #[default]
    Unknown,
}

impl Vantage {
    /// Its name in columns; names are stable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Between => "between",
            Self::Receiver => "receiver",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Vantage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What showed where the capture was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sign {
    /// When the packets of the handshake passed.
    Handshake,
    /// When timestamps came back (RFC 7323 §3.2).
    Timestamps,
    /// How long after a hole in the data its retransmission came.
    Recovery,
    /// Which packets the capturing host sent, as the capture says. It counts where the round trip is too short for the others.
    Direction,
}

impl Sign {
    /// Its name in columns; names are stable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Timestamps => "timestamps",
            Self::Recovery => "recovery",
            Self::Direction => "direction",
        }
    }
}

impl fmt::Display for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How far the capture is from both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Path {
    /// The least round-trip time from the capture to the sender and back.
    pub to_sender: Option<Nanos>,
    /// The least round-trip time from the capture to the receiver and back.
    pub to_receiver: Option<Nanos>,
    /// What shows this.
    pub sign: Option<Sign>,
    /// Whether the capturing host sent the data, and received what came back. A router does so with data that it forwards:
    /// where round trips tell more, they count.
    pub outbound: Option<bool>,
}

/// A round trip below this is as long as what hosts take to answer: it tells nothing.
const LEAST_ROUND: Nanos = 100_000;
/// An end is near if its part of the round trip is at most this.
const NEAR: f64 = 0.2;

impl Path {
    /// The least round-trip time from end to end.
    pub fn round_trip(&self) -> Option<Nanos> {
        Some(self.to_sender?.saturating_add(self.to_receiver?))
    }

    /// The least round-trip time between the capture and the sender, where the capture was not taken there.
    pub fn away(&self) -> Nanos {
        match self.vantage() {
            Vantage::Between | Vantage::Receiver => self.to_sender.unwrap_or(0),
            Vantage::Sender | Vantage::Unknown => 0,
        }
    }

    /// The part of the round trip that lies between the capture and the sender: 0 at the sender, 1
    /// at the receiver.
    pub fn sender_part(&self) -> Option<f64> {
        let round = self.round_trip().filter(|&round| round >= LEAST_ROUND)?;
        Some(self.to_sender? as f64 / round as f64)
    }

    /// Where the capture was taken.
    pub fn vantage(&self) -> Vantage {
        match self.sender_part() {
            Some(part) if part <= NEAR => Vantage::Sender,
            Some(part) if part >= 1.0 - NEAR => Vantage::Receiver,
            Some(_) => Vantage::Between,
            None => match self.outbound {
                Some(true) => Vantage::Sender,
                Some(false) => Vantage::Receiver,
                None => Vantage::Unknown,
            },
        }
    }

    /// The same, with its sign, where the directions of packets are all that tells.
    pub(crate) fn or_directions(self) -> Self {
        match self.sender_part() {
            None if self.outbound.is_some() => Self {
                sign: Some(Sign::Direction),
                ..self
            },
            _ => self,
        }
    }
}
