//! How a subscriber is limited in one direction, in the terms of the file. Two limits that are
//! equal are one plan of the data path.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_limiter::{
    ConfigError, FairPolicerConfig, LimiterConfig, PolicerConfig, Program, Rate, Rule,
};

use crate::table::{BESIDE, Direction, Excess, Plan, PlanError};

mod boost;
mod rule;
mod stored;
mod template;
#[cfg(test)]
mod tests;

pub use boost::Boost;
pub use rule::FlowRule;
pub use template::{PlanTemplate, Template};

/// Most lengths of prefixes in use, of IPv4 and of IPv6 each: a packet tries one after the other.
pub const MAX_LENGTHS: usize = 16;
/// Most prefixes of all subscribers together, of IPv4 and of IPv6 each. The kernel has room for a quarter of
/// them on machines with little memory.
pub const MAX_PREFIXES: usize = 1 << 20;
/// In place of a code point: packets that exceed the limit pass as they are, and are counted.
pub const COUNTED: u8 = 64;
/// Most VLAN tags, QinQ pairs and PPPoE sessions of all subscribers together.
pub const MAX_TAGS: usize = 1 << 17;

/// What `ecn` is where a state does not say: states were written before there was such a key.
fn yes() -> bool {
    true
}

fn is_true(truth: &bool) -> bool {
    *truth
}

/// A FairPolicer whose bucket has this many bytes, for as many flows as subscribers have at a time.
fn fair_policer(rate: Rate, burst: u64) -> Result<FairPolicerConfig, ConfigError> {
    const FLOWS: u16 = 1024;
    Ok(FairPolicerConfig::new(rate, burst)?.with_flows(FLOWS))
}

/// How one direction is limited.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "stored::Stored", try_from = "stored::Stored")]
pub struct Limits {
    /// The direction of the packets. Rules name the addresses of the other side and of the
    /// subscriber.
    pub direction: Direction,
    /// The limiter.
    pub limiter: LimiterConfig,
    /// The first rule that matches a packet gives its class.
    pub rules: Vec<FlowRule>,
    /// The class of packets that match no rule; by default the last one.
    pub default_class: Option<u16>,
    /// The code point of packets beyond the limit; without one they are dropped.
    pub mark: Option<u8>,
    /// The node of the network that the subscriber is below.
    pub node: Option<Arc<str>>,
}

/// Why limits cannot be enforced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitsError {
    /// No limiter of Tidegate accepts this configuration.
    #[error(transparent)]
    Limiter(#[from] ConfigError),
    /// The gate cannot enforce it.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A text of a rule cannot be read.
    #[error("{0}")]
    Rule(String),
    /// A queue or bucket that holds no full packet.
    #[error("`{key}` is {size}B, so every full packet would be dropped: give it 1522B or more")]
    Small {
        /// `queue` or `burst`.
        key: &'static str,
        /// In bytes.
        size: u64,
    },
    /// More than [`Boost::MOST`].
    #[error("`boost` comes to {0} bytes at this rate, and may be at most {most}", most = Boost::MOST)]
    Boost(u64),
    /// A round-trip time above [`Template::MAX_RTT`].
    #[error("`rtt` must be at most {}s", Template::MAX_RTT / 1_000_000_000)]
    Rtt,
}

impl LimitsError {
    /// The key of a plan that is wrong. For a rate it is `rate`, even if the plan writes the rate
    /// as `down` or `up`.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Limiter(error) => error.field().name(),
            Self::Plan(error) => error.key(),
            Self::Rule(_) => "rule",
            Self::Small { key, .. } => key,
            Self::Boost(_) => "boost",
            Self::Rtt => "rtt",
        }
    }
}

impl Limits {
    /// No limit; packets are counted.
    pub fn none(direction: Direction) -> Self {
        Self {
            direction,
            limiter: LimiterConfig::Unlimited,
            rules: Vec::new(),
            default_class: None,
            mark: None,
            node: None,
        }
    }

    /// No packet passes: none is as small as a bucket of one byte.
    pub fn suspended(direction: Direction) -> Self {
        let policer = PolicerConfig::new(*Rate::LIMITABLE.start(), 1);
        Self {
            // The least rate and the least bucket are always valid.
            limiter: policer.map_or(LimiterConfig::Unlimited, LimiterConfig::from),
            ..Self::none(direction)
        }
    }

    /// The rate of the aggregate in bit/s; none if nothing is limited.
    pub fn rate(&self) -> Option<u64> {
        self.limiter.rate().map(|rate| rate.bits_per_second())
    }

    /// Bytes that an aggregate may save of the rate that it leaves unused; 0 without a boost.
    pub fn boost(&self) -> u64 {
        match &self.limiter {
            LimiterConfig::PhantomQueues(config) => config.boost(),
            _ => 0,
        }
    }

    /// The same as a plan of the data path.
    ///
    /// # Errors
    /// If the gate cannot enforce it, or a text of a rule cannot be read.
    pub fn plan(&self) -> Result<Plan, LimitsError> {
        let rules = self.rules.iter().map(|rule| rule.rule(self.direction));
        let rules: Vec<Rule> = rules.collect::<Result<_, _>>().map_err(LimitsError::Rule)?;
        let excess = match self.mark {
            None => Excess::Drop,
            Some(COUNTED) => Excess::Count,
            Some(dscp) => Excess::Mark(dscp),
        };
        let plan = Plan::new(self.limiter.clone(), rules, self.default_class, excess)?;
        Ok(plan)
    }

    /// The same below a node of the network.
    ///
    /// # Errors
    /// If the limiter cannot be below one.
    pub fn below(self, node: Option<Arc<str>>) -> Result<Self, PlanError> {
        match node.is_some() && BESIDE.contains(&self.limiter.scheme()) {
            true => Err(PlanError::Below(self.limiter.scheme())),
            false => Ok(Self { node, ..self }),
        }
    }

    /// Number of queues; 1 where there is no policy.
    pub fn queues(&self) -> usize {
        self.limiter.program().map_or(1, Program::queues)
    }
}
