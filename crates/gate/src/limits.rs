//! How a subscriber is limited in one direction, as files and people say it. Two limits that are
//! equal are one plan of the data path.

use serde::{Deserialize, Serialize};
use tidegate_limiter::{
    Classifier, ClassifyError, ConfigError, HashKey, LimiterConfig, Program, Room, Rule, Scheme,
};

use crate::table::{Direction, Excess, Plan};

mod rule;
mod stored;
mod template;
#[cfg(test)]
mod tests;

pub use rule::FlowRule;
pub use template::{PlanTemplate, Template};

/// How large the policy of a plan may be: what the kernel's program has room for.
pub const ROOM: Room = Room {
    queues: 24,
    shares: 5,
};
/// Most rules of a plan: each packet may have to try all of them.
pub const MAX_RULES: usize = 32;
/// Most lengths of prefixes in use, of IPv4 and of IPv6 each: a packet tries one after the other.
pub const MAX_LENGTHS: usize = 16;
/// Most prefixes of all subscribers together, of IPv4 and of IPv6 each.
pub const MAX_PREFIXES: usize = 1 << 18;
/// Most VLAN tags, QinQ pairs and PPPoE sessions of all subscribers together.
pub const MAX_TAGS: usize = 1 << 17;

/// How one direction is limited.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "stored::Stored", try_from = "stored::Stored")]
pub struct Limits {
    /// Whose packets: rules mean the other side's and the subscriber's addresses.
    pub direction: Direction,
    /// The limiter.
    pub limiter: LimiterConfig,
    /// The first that fits gives a packet's class.
    pub rules: Vec<FlowRule>,
    /// The class of packets that no rule fits; the last one if not given.
    pub default_class: Option<u16>,
    /// The code point that packets beyond the limit go on with; they are dropped if not given.
    pub mark: Option<u8>,
}

/// Why limits cannot be enforced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitsError {
    /// No limiter of Tidegate can be configured so, or the kernel has no room for it.
    #[error(transparent)]
    Limiter(#[from] ConfigError),
    /// A scheme that the kernel's program does not have.
    #[error("the gate has no limiter {0}: write bc-pqp, pqp, policer or unlimited")]
    Scheme(Scheme),
    /// Rules or the default class do not fit the policy.
    #[error(transparent)]
    Classes(#[from] ClassifyError),
    /// More rules than [`MAX_RULES`].
    #[error("at most {MAX_RULES} rules can be given, these are {0}")]
    Rules(usize),
    /// A text of a rule is none of what it should be.
    #[error("{0}")]
    Rule(String),
}

impl LimitsError {
    /// The key of a plan that is at fault. That of the rate is `rate`, also where a plan writes the
    /// rate as `down` or `up`.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Limiter(error) => error.field().name(),
            Self::Scheme(_) => "scheme",
            Self::Classes(ClassifyError::Class { .. }) => "default-class",
            Self::Classes(ClassifyError::Rules(_)) | Self::Rules(_) | Self::Rule(_) => "rule",
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
        }
    }

    /// The rate of the aggregate in bit/s; none if nothing is limited.
    pub fn rate(&self) -> Option<u64> {
        self.limiter.rate().map(|rate| rate.bits_per_second())
    }

    /// As the data path takes it.
    ///
    /// # Errors
    /// If a rule or the default class names a class that the policy does not have, or a text of a
    /// rule is none of what it should be.
    pub fn plan(&self) -> Result<Plan, LimitsError> {
        if self.rules.len() > MAX_RULES {
            return Err(LimitsError::Rules(self.rules.len()));
        }
        let rules = self.rules.iter().map(|rule| rule.rule(self.direction));
        let rules: Vec<Rule> = rules.collect::<Result<_, _>>().map_err(LimitsError::Rule)?;
        if let Some(program) = self.limiter.program() {
            let key = HashKey::new(0, 0);
            Classifier::new(program, rules.clone(), self.default_class, key)?;
        }
        Ok(Plan {
            limiter: self.limiter.clone(),
            rules,
            default_class: self.default_class,
            excess: self.mark.map_or(Excess::Drop, Excess::Mark),
        })
    }

    /// Number of queues; 1 where there is no policy.
    pub fn queues(&self) -> usize {
        self.limiter.program().map_or(1, Program::queues)
    }
}
