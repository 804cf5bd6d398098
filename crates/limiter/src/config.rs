//! What limiters can be configured to do: one type for all of them.

use crate::{
    BurstControl, FairPolicerConfig, PhantomQueuesConfig, PolicerConfig, Program, Rate, Scheme,
    ShaperConfig, SingleRateConfig, TwoRateConfig, WaterFillingConfig,
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
            Self::PhantomQueues(queues) => match queues.burst_control() {
                Some(BurstControl::Bucket) => Scheme::BcPqp,
                Some(BurstControl::Paper(_)) => Scheme::BcPqpPaper,
                None => Scheme::Pqp,
            },
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
