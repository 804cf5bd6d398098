//! Why a configuration is rejected, and the checks that say so.

use crate::policy::{PolicyError, Program, Room};
use crate::{Nanos, Rate};

/// A part of a limiter's configuration. Errors name one, so that a program that read it from a file
/// or a form can point there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// The rate of the aggregate, or the committed rate.
    Rate,
    /// The peak rate of a two-rate marker.
    PeakRate,
    /// The size of a bucket, or what a shaper may send at once.
    Burst,
    /// The committed burst size of a marker.
    CommittedBurst,
    /// The excess burst size of a single-rate marker.
    ExcessBurst,
    /// The peak burst size of a two-rate marker.
    PeakBurst,
    /// The size of each queue, in bytes or packets.
    Queue,
    /// How queues share the rate.
    Policy,
    /// The weights of a fair policer's queues.
    Weights,
    /// T of burst control.
    Period,
    /// θ+ of burst control.
    Upper,
    /// θ− of burst control.
    Lower,
}

impl Field {
    /// The key of this part in Tidegate's files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::PeakRate => "peak",
            Self::Burst => "burst",
            Self::CommittedBurst => "committed",
            Self::ExcessBurst => "excess",
            Self::PeakBurst => "peak-burst",
            Self::Queue => "queue",
            Self::Policy => "policy",
            Self::Weights => "weights",
            Self::Period => "period",
            Self::Upper => "upper",
            Self::Lower => "lower",
        }
    }
}

/// Why a limiter cannot be configured so. [`field`](Self::field) says which part is at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A rate that is not one of [`Rate::LIMITABLE`].
    #[error(
        "{rate} is out of range: limiters enforce rates {}",
        Rate::LIMITABLE_TEXT
    )]
    Rate {
        /// Which of the rates.
        field: Field,
        /// The rate.
        rate: Rate,
    },
    /// A bucket or queue of no size, or of too many bytes.
    #[error("{bytes} bytes are out of range: a bucket or queue has 1 to {most} bytes")]
    Size {
        /// Which of the sizes.
        field: Field,
        /// The size.
        bytes: u64,
        /// The largest size: 2^60 bytes of all queues together.
        most: u64,
    },
    /// A queue without room for a packet.
    #[error("a queue must have room for at least 1 packet")]
    NoPackets,
    /// RFC 2697 §2: at least one of CBS and EBS must be larger than 0.
    #[error("one of the committed and the excess burst has to be larger than 0")]
    NoBurst,
    /// RFC 2698 §2: PIR must be at least CIR.
    #[error("the peak rate ({peak}) has to be at least the committed rate ({committed})")]
    PeakBelowCommitted {
        /// PIR.
        peak: Rate,
        /// CIR.
        committed: Rate,
    },
    /// A period of burst control of 0 or of more than a minute.
    #[error("the period of burst control must be from 1 ns to 60 s")]
    Period(Nanos),
    /// θ+ above 1000.
    #[error("the upper threshold of burst control must be at most 1000")]
    Upper,
    /// θ− that is not below θ+.
    #[error("the lower threshold of burst control must be below the upper one")]
    Lower,
    /// Weights that are no policy.
    #[error(transparent)]
    Weights(PolicyError),
    /// A policy that needs more of something than there is room for.
    #[error("the policy has {found} {what}, and there is room for {room}")]
    Room {
        /// Queues, or sharing nodes.
        what: &'static str,
        /// How many the policy has.
        found: usize,
        /// How many there may be.
        room: usize,
    },
}

impl ConfigError {
    /// The part of the configuration that is at fault.
    pub fn field(&self) -> Field {
        match self {
            Self::Rate { field, .. } | Self::Size { field, .. } => *field,
            Self::NoBurst => Field::CommittedBurst,
            Self::PeakBelowCommitted { .. } => Field::PeakRate,
            Self::NoPackets => Field::Queue,
            Self::Period(_) => Field::Period,
            Self::Upper => Field::Upper,
            Self::Lower => Field::Lower,
            Self::Weights(_) => Field::Weights,
            Self::Room { .. } => Field::Policy,
        }
    }
}

/// Most bytes of a bucket, and of all queues of a limiter together.
const MOST_BYTES: u64 = 1 << 60;

pub(crate) fn check_rate(field: Field, rate: Rate) -> Result<(), ConfigError> {
    match Rate::LIMITABLE.contains(&rate) {
        true => Ok(()),
        false => Err(ConfigError::Rate { field, rate }),
    }
}

/// Checks the size of a bucket in bytes.
pub(crate) fn check_size(field: Field, bytes: u64) -> Result<(), ConfigError> {
    check_sizes(field, bytes, 1)
}

/// Checks the size in bytes that each of some queues has.
pub(crate) fn check_sizes(field: Field, bytes: u64, queues: usize) -> Result<(), ConfigError> {
    let most = MOST_BYTES / queues as u64;
    match (1..=most).contains(&bytes) {
        true => Ok(()),
        false => Err(ConfigError::Size { field, bytes, most }),
    }
}

impl Program {
    /// Checks that there is room for its queues and for its nodes that share.
    ///
    /// # Errors
    /// What it has too many of.
    pub fn check_room(&self, room: Room) -> Result<(), ConfigError> {
        for (what, found, room) in [
            ("queues", self.queues(), room.queues),
            ("sharing nodes", self.shares(), room.shares),
        ] {
            if found > room {
                return Err(ConfigError::Room { what, found, room });
            }
        }
        Ok(())
    }
}
