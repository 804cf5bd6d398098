//! What limiters can be configured to do: one type for all of them, and why a configuration is
//! rejected.

use crate::{
    FairPolicerConfig, Nanos, PhantomQueuesConfig, PolicerConfig, PolicyError, Program, Rate,
    Scheme, ShaperConfig, SingleRateConfig, TwoRateConfig, WaterFillingConfig,
};

#[cfg(test)]
mod tests;

/// The configuration of any limiter. Every value of it is valid: the constructors of its variants
/// check what they are given. [`Limiter::new`](crate::Limiter::new) runs it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LimiterConfig {
    /// No limit: every packet passes.
    Unlimited,
    /// A token bucket that drops.
    Policer(PolicerConfig),
    /// The marker of RFC 2697.
    SingleRate(SingleRateConfig),
    /// The marker of RFC 2698.
    TwoRate(TwoRateConfig),
    /// FairPolicer as its authors published it.
    FairPolicer(FairPolicerConfig),
    /// FairPolicer as the authors of BC-PQP measured it.
    WaterFilling(WaterFillingConfig),
    /// Phantom queues: PQP, and with burst control BC-PQP.
    PhantomQueues(PhantomQueuesConfig),
    /// Real queues, released at the rate.
    Shaper(ShaperConfig),
}

impl LimiterConfig {
    /// Which scheme this is a configuration of.
    pub fn scheme(&self) -> Scheme {
        match self {
            Self::Unlimited => Scheme::Unlimited,
            Self::Policer(_) => Scheme::Policer,
            Self::SingleRate(_) => Scheme::SingleRate,
            Self::TwoRate(_) => Scheme::TwoRate,
            Self::FairPolicer(_) | Self::WaterFilling(_) => Scheme::FairPolicer,
            Self::PhantomQueues(queues) if queues.burst_control().is_some() => Scheme::BcPqp,
            Self::PhantomQueues(_) => Scheme::Pqp,
            Self::Shaper(_) => Scheme::Shaper,
        }
    }

    /// The rate that passes in the long run, at most; none without a limit. Of a two-rate marker
    /// this is the peak rate, unless it drops what exceeds the committed rate.
    pub fn rate(&self) -> Option<Rate> {
        Some(match self {
            Self::Unlimited => return None,
            Self::Policer(config) => config.rate(),
            Self::SingleRate(config) => config.rate(),
            Self::TwoRate(config) => config.long_run_rate(),
            Self::FairPolicer(config) => config.rate(),
            Self::WaterFilling(config) => config.rate(),
            Self::PhantomQueues(config) => config.rate(),
            Self::Shaper(config) => config.rate(),
        })
    }

    /// The sharing policy, of the schemes that have one.
    pub fn program(&self) -> Option<&Program> {
        match self {
            Self::PhantomQueues(config) => Some(config.program()),
            Self::Shaper(config) => Some(config.program()),
            _ => None,
        }
    }

    /// The largest packet that can ever pass, in bytes.
    pub fn largest_packet(&self) -> u64 {
        match self {
            Self::Unlimited => u64::MAX,
            Self::Policer(config) => config.burst(),
            Self::SingleRate(config) => config.largest_packet(),
            Self::TwoRate(config) => config.largest_packet(),
            Self::FairPolicer(config) => config.burst(),
            Self::WaterFilling(config) => config.burst(),
            Self::PhantomQueues(config) => config.queue(),
            Self::Shaper(config) => config.queue_bytes().unwrap_or(u64::MAX),
        }
    }

    /// Bytes of memory that a limiter of this configuration takes before the first packet, roughly.
    pub fn memory(&self) -> usize {
        match self {
            Self::FairPolicer(config) => config.memory(),
            Self::WaterFilling(config) => config.weights().len() * QUEUE_MEMORY,
            Self::PhantomQueues(config) => {
                config.program().queues() * QUEUE_MEMORY + config.memory()
            }
            Self::Shaper(config) => config.program().queues() * QUEUE_MEMORY,
            _ => 0,
        }
    }
}

macro_rules! from {
    ($($config:ident => $variant:ident),* $(,)?) => {$(
        impl From<$config> for LimiterConfig {
            fn from(config: $config) -> Self {
                Self::$variant(config)
            }
        }
    )*};
}
from! {
    PolicerConfig => Policer,
    SingleRateConfig => SingleRate,
    TwoRateConfig => TwoRate,
    FairPolicerConfig => FairPolicer,
    WaterFillingConfig => WaterFilling,
    PhantomQueuesConfig => PhantomQueues,
    ShaperConfig => Shaper,
}

/// Bytes of a queue, roughly: its node of the policy, and its state.
const QUEUE_MEMORY: usize = 200;

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
