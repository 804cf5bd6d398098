//! The three-colour markers of differentiated services.

use crate::{Decision, DscpSet, Meter, Nanos, PacketMeta, Rate, TokenBucket};

#[cfg(test)]
mod tests;

/// What a meter says of a packet, RFC 2697 §1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Colour {
    /// Within what is committed.
    Green,
    /// Beyond it, within what is tolerated.
    Yellow,
    /// Beyond both.
    Red,
}

/// Whether a meter trusts the colours that packets come with. Which code point means which colour
/// is each domain's own matter, RFC 2697 §1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColourMode {
    /// Every packet counts as green.
    Blind,
    /// Packets with these code points are yellow or red (red, if in both), all others green.
    Aware {
        /// Code points of yellow packets.
        yellow: DscpSet,
        /// Code points of red packets.
        red: DscpSet,
    },
}

impl ColourMode {
    /// By the drop precedence of assured forwarding, RFC 2697 §4 with RFC 2597 §6: AF12, AF22,
    /// AF32 and AF42 are yellow, AF13, AF23, AF33 and AF43 red.
    pub fn assured_forwarding() -> Self {
        Self::Aware {
            yellow: [12, 20, 28, 36].into_iter().collect(),
            red: [14, 22, 30, 38].into_iter().collect(),
        }
    }

    #[inline]
    fn colour(&self, dscp: u8) -> Colour {
        match self {
            Self::Aware { red, .. } if red.contains(dscp) => Colour::Red,
            Self::Aware { yellow, .. } if yellow.contains(dscp) => Colour::Yellow,
            _ => Colour::Green,
        }
    }
}

/// What becomes of packets of each colour: passed as they are, re-marked, or dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marking {
    /// Of green packets.
    pub green: Decision,
    /// Of yellow packets.
    pub yellow: Decision,
    /// Of red packets.
    pub red: Decision,
}

impl Marking {
    #[inline]
    fn of(&self, colour: Colour) -> Decision {
        match colour {
            Colour::Green => self.green,
            Colour::Yellow => self.yellow,
            Colour::Red => self.red,
        }
    }
}

/// Why there is no such marker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MarkerError {
    /// RFC 2697 §2: at least one of CBS and EBS must be larger than 0.
    #[error("one of the committed and the excess burst has to be larger than 0")]
    NoBurst,
    /// RFC 2698 §2: PBS and CBS must be larger than 0.
    #[error("the peak burst and the committed burst both have to be larger than 0")]
    EmptyBurst,
    /// RFC 2698 §2: PIR must be at least CIR.
    #[error("the peak rate ({peak}) has to be at least the committed rate ({committed})")]
    Peak {
        /// PIR.
        peak: Rate,
        /// CIR.
        committed: Rate,
    },
}

/// The single-rate three-colour marker, RFC 2697: tokens arrive at one rate, and what the
/// committed bucket has no room for goes to the excess bucket.
#[derive(Debug, Clone)]
pub struct SingleRateMarker {
    meter: Meter,
    committed: u64,
    excess: u64,
    committed_burst: u64,
    excess_burst: u64,
    mode: ColourMode,
    marking: Marking,
}

impl SingleRateMarker {
    /// Both buckets full. `rate` is CIR, the bursts are CBS and EBS in bytes; they should be 0 or
    /// hold the largest packet.
    ///
    /// # Errors
    /// If both bursts are 0.
    pub fn new(
        rate: Rate,
        committed_burst: u64,
        excess_burst: u64,
        mode: ColourMode,
        marking: Marking,
        now: Nanos,
    ) -> Result<Self, MarkerError> {
        if committed_burst == 0 && excess_burst == 0 {
            return Err(MarkerError::NoBurst);
        }
        Ok(Self {
            meter: Meter::new(rate, now),
            committed: committed_burst,
            excess: excess_burst,
            committed_burst,
            excess_burst,
            mode,
            marking,
        })
    }

    /// What becomes of the packet.
    #[inline]
    pub fn offer(&mut self, now: Nanos, packet: &PacketMeta) -> Decision {
        let colour = self.meter(now, packet);
        self.marking.of(colour)
    }

    /// The packet's colour, RFC 2697 §3. Colour-blind metering is that of green packets.
    #[inline]
    pub fn meter(&mut self, now: Nanos, packet: &PacketMeta) -> Colour {
        self.refill(now);
        let (before, bytes) = (self.mode.colour(packet.dscp), u64::from(packet.bytes));
        if before == Colour::Green && self.committed >= bytes {
            self.committed -= bytes;
            Colour::Green
        } else if before != Colour::Red && self.excess >= bytes {
            self.excess -= bytes;
            Colour::Yellow
        } else {
            Colour::Red
        }
    }

    /// The committed bucket fills first, RFC 2697 §3.
    #[inline]
    fn refill(&mut self, now: Nanos) {
        let bytes = self.meter.advance(now);
        let to_committed = bytes.min(self.committed_burst - self.committed);
        self.committed += to_committed;
        let to_excess = (bytes - to_committed).min(self.excess_burst - self.excess);
        self.excess += to_excess;
        if self.committed == self.committed_burst && self.excess == self.excess_burst {
            self.meter.forget();
        }
    }

    /// Tc and Te, the tokens of the committed and of the excess bucket, as of the last packet.
    pub fn tokens(&self) -> (u64, u64) {
        (self.committed, self.excess)
    }
}

/// The two-rate three-colour marker, RFC 2698: what exceeds the peak rate is red, what exceeds
/// the committed rate is yellow.
#[derive(Debug, Clone)]
pub struct TwoRateMarker {
    peak: TokenBucket,
    committed: TokenBucket,
    mode: ColourMode,
    marking: Marking,
}

impl TwoRateMarker {
    /// Both buckets full. `peak` and `committed` are the pairs of PIR and PBS, CIR and CBS, bursts
    /// in bytes; they should hold the largest packet.
    ///
    /// # Errors
    /// If the peak rate is below the committed rate, or a burst is 0.
    pub fn new(
        peak: (Rate, u64),
        committed: (Rate, u64),
        mode: ColourMode,
        marking: Marking,
        now: Nanos,
    ) -> Result<Self, MarkerError> {
        if peak.0 < committed.0 {
            return Err(MarkerError::Peak {
                peak: peak.0,
                committed: committed.0,
            });
        }
        if peak.1 == 0 || committed.1 == 0 {
            return Err(MarkerError::EmptyBurst);
        }
        Ok(Self {
            peak: TokenBucket::new(peak.0, peak.1, now),
            committed: TokenBucket::new(committed.0, committed.1, now),
            mode,
            marking,
        })
    }

    /// What becomes of the packet.
    #[inline]
    pub fn offer(&mut self, now: Nanos, packet: &PacketMeta) -> Decision {
        let colour = self.meter(now, packet);
        self.marking.of(colour)
    }

    /// The packet's colour, RFC 2698 §3. Colour-blind metering is that of green packets.
    #[inline]
    pub fn meter(&mut self, now: Nanos, packet: &PacketMeta) -> Colour {
        self.peak.refill(now);
        self.committed.refill(now);
        let before = self.mode.colour(packet.dscp);
        if before == Colour::Red || !self.peak.take(packet.bytes) {
            Colour::Red
        } else if before == Colour::Yellow || !self.committed.take(packet.bytes) {
            Colour::Yellow
        } else {
            Colour::Green
        }
    }

    /// Tp and Tc, the tokens of the peak and of the committed bucket, as of the last packet.
    pub fn tokens(&self) -> (u64, u64) {
        (self.peak.tokens(), self.committed.tokens())
    }
}
