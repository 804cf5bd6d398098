//! The three-colour markers of differentiated services.

use crate::error::{check_rate, check_size};
use crate::{
    ConfigError, Decision, DscpSet, Field, Meter, Nanos, PacketMeta, PolicerConfig, Rate,
    TokenBucket,
};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

/// What a [`SingleRateMarker`] enforces, RFC 2697 §2.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SingleRateConfig {
    pub(crate) rate: Rate,
    pub(crate) bursts: SingleRateBursts,
    pub(crate) mode: ColourMode,
    pub(crate) marking: Marking,
}

/// The sizes of the two buckets of a [`SingleRateMarker`], in bytes. Each should be 0 or hold the
/// largest packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SingleRateBursts {
    /// CBS, the committed burst size.
    pub committed: u64,
    /// EBS, the excess burst size.
    pub excess: u64,
}

impl SingleRateConfig {
    /// A colour-blind marker. The rate is CIR, the committed information rate.
    ///
    /// # Errors
    /// If the rate is not one of [`Rate::LIMITABLE`], both bursts are 0, or one is above 2^60 bytes.
    pub fn new(
        rate: Rate,
        bursts: SingleRateBursts,
        marking: Marking,
    ) -> Result<Self, ConfigError> {
        check_rate(Field::Rate, rate)?;
        let SingleRateBursts { committed, excess } = bursts;
        if committed == 0 && excess == 0 {
            return Err(ConfigError::NoBurst);
        }
        check_size(Field::CommittedBurst, committed.max(1))?;
        check_size(Field::ExcessBurst, excess.max(1))?;
        Ok(Self {
            rate,
            bursts,
            mode: ColourMode::Blind,
            marking,
        })
    }

    /// With the colours that packets come with.
    #[must_use]
    pub fn with_mode(self, mode: ColourMode) -> Self {
        Self { mode, ..self }
    }

    /// CIR.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The largest packet that can ever pass, in bytes: unless red packets pass, one of the buckets
    /// has to hold it.
    pub(crate) fn largest_packet(&self) -> u64 {
        match (self.marking.red, self.marking.yellow) {
            (Decision::Drop, Decision::Drop) => self.bursts.committed,
            (Decision::Drop, _) => self.bursts.committed.max(self.bursts.excess),
            _ => u64::MAX,
        }
    }

    /// CBS and EBS.
    pub fn bursts(&self) -> SingleRateBursts {
        self.bursts
    }

    /// What becomes of each colour.
    pub fn marking(&self) -> Marking {
        self.marking
    }
}

/// What a [`TwoRateMarker`] enforces, RFC 2698 §2.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TwoRateConfig {
    pub(crate) rates: TwoRates,
    pub(crate) mode: ColourMode,
    pub(crate) marking: Marking,
}

/// The two buckets of a [`TwoRateMarker`]. Bursts are in bytes and should hold the largest packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TwoRates {
    /// CIR, the committed information rate.
    pub committed: Rate,
    /// CBS, the committed burst size.
    pub committed_burst: u64,
    /// PIR, the peak information rate: at least CIR.
    pub peak: Rate,
    /// PBS, the peak burst size.
    pub peak_burst: u64,
}

impl TwoRateConfig {
    /// A colour-blind marker.
    ///
    /// # Errors
    /// If the peak rate is below the committed rate, a rate is not one of [`Rate::LIMITABLE`], or a
    /// burst is 0 or above 2^60 bytes.
    pub fn new(rates: TwoRates, marking: Marking) -> Result<Self, ConfigError> {
        let TwoRates {
            committed,
            committed_burst,
            peak,
            peak_burst,
        } = rates;
        check_rate(Field::Rate, committed)?;
        if peak < committed {
            return Err(ConfigError::PeakBelowCommitted { peak, committed });
        }
        check_rate(Field::PeakRate, peak)?;
        check_size(Field::CommittedBurst, committed_burst)?;
        check_size(Field::PeakBurst, peak_burst)?;
        Ok(Self {
            rates,
            mode: ColourMode::Blind,
            marking,
        })
    }

    /// With the colours that packets come with.
    #[must_use]
    pub fn with_mode(self, mode: ColourMode) -> Self {
        Self { mode, ..self }
    }

    /// The rate that passes in the long run.
    pub(crate) fn long_run_rate(&self) -> Rate {
        match self.marking.yellow {
            Decision::Drop => self.rates.committed,
            _ => self.rates.peak,
        }
    }

    /// The largest packet that can ever pass, in bytes.
    pub(crate) fn largest_packet(&self) -> u64 {
        match (self.marking.red, self.marking.yellow) {
            (Decision::Drop, Decision::Drop) => {
                self.rates.committed_burst.min(self.rates.peak_burst)
            }
            (Decision::Drop, _) => self.rates.peak_burst,
            _ => u64::MAX,
        }
    }

    /// Both rates and bursts.
    pub fn rates(&self) -> TwoRates {
        self.rates
    }

    /// What becomes of each colour.
    pub fn marking(&self) -> Marking {
        self.marking
    }
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
    /// Both buckets full.
    pub fn new(config: &SingleRateConfig, now: Nanos) -> Self {
        let SingleRateBursts { committed, excess } = config.bursts;
        Self {
            meter: Meter::new(config.rate, now),
            committed,
            excess,
            committed_burst: committed,
            excess_burst: excess,
            mode: config.mode,
            marking: config.marking,
        }
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

    /// Tokens that are missing from both buckets together, at this time.
    pub(crate) fn missing(&mut self, now: Nanos) -> u64 {
        self.refill(now);
        (self.committed_burst - self.committed) + (self.excess_burst - self.excess)
    }

    /// Tc, the tokens of the committed bucket as of the last packet.
    pub fn committed_tokens(&self) -> u64 {
        self.committed
    }

    /// Te, the tokens of the excess bucket as of the last packet.
    pub fn excess_tokens(&self) -> u64 {
        self.excess
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
    /// Both buckets full.
    pub fn new(config: &TwoRateConfig, now: Nanos) -> Self {
        let bucket = |rate, burst| TokenBucket::new(&PolicerConfig { rate, burst }, now);
        let rates = &config.rates;
        Self {
            peak: bucket(rates.peak, rates.peak_burst),
            committed: bucket(rates.committed, rates.committed_burst),
            mode: config.mode,
            marking: config.marking,
        }
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

    /// Tokens that are missing from both buckets together, at this time.
    pub(crate) fn missing(&mut self, now: Nanos) -> u64 {
        self.peak.missing(now) + self.committed.missing(now)
    }

    /// Tp, the tokens of the peak bucket as of the last packet.
    pub fn peak_tokens(&self) -> u64 {
        self.peak.tokens()
    }

    /// Tc, the tokens of the committed bucket as of the last packet.
    pub fn committed_tokens(&self) -> u64 {
        self.committed.tokens()
    }
}
