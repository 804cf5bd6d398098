//! Limits as they are written in the state's file and in the API.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_limiter::{
    BurstControl, ConfigError, LimiterConfig, PaperControl, PhantomQueuesConfig, PolicerConfig,
    PolicyTree, Program, Rate, ShaperConfig,
};

use super::{FlowRule, Limits, fair_policer, is_true, yes};
use crate::table::Direction;

/// Flat, and without values that follow from the others.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Stored {
    direction: Direction,
    /// bit/s; 0 if nothing is limited.
    rate: u64,
    means: Means,
    policy: PolicyTree,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rules: Vec<FlowRule>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    default_class: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mark: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<String>,
}

/// A limiter and its sizes in bytes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Means {
    BcPqp {
        queue: u64,
        #[serde(default = "yes", skip_serializing_if = "is_true")]
        ecn: bool,
        #[serde(default, skip_serializing_if = "is_zero")]
        boost: u64,
    },
    BcPqpPaper {
        queue: u64,
        #[serde(flatten)]
        control: PaperControl,
    },
    Pqp {
        queue: u64,
        #[serde(default = "yes", skip_serializing_if = "is_true")]
        ecn: bool,
        #[serde(default, skip_serializing_if = "is_zero")]
        boost: u64,
    },
    Policer {
        burst: u64,
    },
    FairPolicer {
        burst: u64,
    },
    Shaper {
        queue: u64,
        burst: u64,
    },
    Unlimited,
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

impl From<Limits> for Stored {
    fn from(limits: Limits) -> Self {
        let (means, policy) = match &limits.limiter {
            LimiterConfig::PhantomQueues(config) => {
                let (queue, ecn, boost) = (config.queue(), config.ecn(), config.boost());
                let means = match config.burst_control() {
                    Some(BurstControl::Bucket) => Means::BcPqp { queue, ecn, boost },
                    Some(BurstControl::Paper(control)) => Means::BcPqpPaper { queue, control },
                    None => Means::Pqp { queue, ecn, boost },
                };
                (means, config.program().policy().clone())
            }
            LimiterConfig::Policer(config) => {
                let burst = config.burst();
                (Means::Policer { burst }, PolicyTree::queue())
            }
            LimiterConfig::FairPolicer(config) => {
                let burst = config.burst();
                (Means::FairPolicer { burst }, PolicyTree::queue())
            }
            LimiterConfig::Shaper(config) => {
                let (queue, burst) = (config.queue_bytes().unwrap_or(u64::MAX), config.burst());
                let policy = config.program().policy().clone();
                (Means::Shaper { queue, burst }, policy)
            }
            // A gate has no others.
            _ => (Means::Unlimited, PolicyTree::queue()),
        };
        Self {
            direction: limits.direction,
            rate: limits.rate().unwrap_or(0),
            means,
            policy,
            rules: limits.rules,
            default_class: limits.default_class,
            mark: limits.mark,
            node: limits.node.map(|node| node.to_string()),
        }
    }
}

impl TryFrom<Stored> for Limits {
    type Error = ConfigError;

    fn try_from(stored: Stored) -> Result<Self, ConfigError> {
        let rate = Rate::from_bits_per_second(stored.rate);
        let phantom = |queue| PhantomQueuesConfig::new(&stored.policy, rate, queue);
        let limiter = match stored.means {
            Means::BcPqp { queue, ecn, boost } => phantom(queue)?
                .with_boost(boost)
                .with_burst_control(BurstControl::Bucket)
                .with_ecn(ecn)
                .into(),
            Means::BcPqpPaper { queue, control } => phantom(queue)?
                .with_burst_control(BurstControl::Paper(control))
                .into(),
            Means::Pqp { queue, ecn, boost } => {
                phantom(queue)?.with_boost(boost).with_ecn(ecn).into()
            }
            Means::Policer { burst } => PolicerConfig::new(rate, burst)?.into(),
            Means::FairPolicer { burst } => fair_policer(rate, burst)?.into(),
            Means::Shaper { queue, burst } => {
                ShaperConfig::new(Arc::new(Program::new(&stored.policy)), rate)?
                    .with_queue_bytes(queue)?
                    .with_burst(burst)
                    .into()
            }
            Means::Unlimited => LimiterConfig::Unlimited,
        };
        Ok(Self {
            direction: stored.direction,
            limiter,
            rules: stored.rules,
            default_class: stored.default_class,
            mark: stored.mark,
            node: stored.node.map(Into::into),
        })
    }
}
