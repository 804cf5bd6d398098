//! How a subscriber is limited in one direction, as files and people say it. Two limits that are
//! equal are one plan of the data path.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_limiter::{
    BurstControl, Classifier, HashKey, PhantomQueuesConfig, PolicyError, PolicyTree, Prefix,
    Program, Rate, Room, Rule, Thresholds,
};

use crate::table::{Direction, Excess, Plan, Scheme};

mod template;
#[cfg(test)]
mod tests;

pub use template::{PlanTemplate, Scheme as SchemeName, Template};

/// Most queues of a plan, as the kernel's program has room for.
pub const MAX_QUEUES: usize = 24;
/// Most nodes of a plan's policy that share, its root among them.
pub const MAX_SHARES: usize = 5;
/// Most rules of a plan: each packet may have to try all of them.
pub const MAX_RULES: usize = 32;
/// Most lengths of prefixes in use, of IPv4 and of IPv6 each: a packet tries one after the other.
pub const MAX_LENGTHS: usize = 16;
/// Most prefixes of all subscribers together, of IPv4 and of IPv6 each.
pub const MAX_PREFIXES: usize = 1 << 18;
/// Most VLAN tags, QinQ pairs and PPPoE sessions of all subscribers together.
pub const MAX_TAGS: usize = 1 << 17;

/// A sharing policy, in the notation of scenario files: `"queue"`, `{ fair = 16 }`,
/// `{ weighted = [[4, POLICY], [1, POLICY]] }` or `{ priority = [POLICY, POLICY] }`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// One queue for all.
    Queue,
    /// So many queues with equal shares, to which flows are spread by their hash.
    Fair(u16),
    /// Parts that share in proportion to their weights.
    Weighted(Vec<(u32, Policy)>),
    /// Parts of which the first that has anything to send gets everything.
    Priority(Vec<Policy>),
}

impl Policy {
    /// The policy as a checked tree.
    ///
    /// # Errors
    /// If it has no queue, too many, or a weight out of range.
    pub fn tree(&self) -> Result<PolicyTree, PolicyError> {
        match self {
            Self::Queue => Ok(PolicyTree::queue()),
            Self::Fair(queues) => PolicyTree::fair(*queues),
            Self::Weighted(parts) => {
                let part = |(weight, part): &(u32, Self)| Ok((*weight, part.tree()?));
                PolicyTree::weighted(parts.iter().map(part).collect::<Result<_, PolicyError>>()?)
            }
            Self::Priority(parts) => {
                let parts = parts.iter().map(Self::tree);
                PolicyTree::priority(parts.collect::<Result<_, PolicyError>>()?)
            }
        }
    }
}

/// The limiter, with its sizes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Means {
    /// Phantom queues with burst control.
    BcPqp {
        /// B, the size of each queue in bytes.
        queue: u64,
        /// T, nanoseconds.
        period: u64,
        /// θ+ in thousandths.
        upper: u32,
        /// θ− in thousandths.
        lower: u32,
    },
    /// Phantom queues without it.
    Pqp {
        /// B, bytes.
        queue: u64,
    },
    /// One token bucket.
    Policer {
        /// Its depth in bytes.
        burst: u64,
    },
    /// No limit: all passes and is counted.
    Unlimited,
}

/// What packets belong to a class: all that is given must fit. `remote` is the side that is not the
/// subscriber's: the source of what goes down, the destination of what goes up.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct FlowRule {
    /// The class, by its number in the order of the policy, from 0.
    pub class: u16,
    /// Addresses of the other side, a prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// Addresses of the subscriber's side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<String>,
    /// Ports of the other side, first and last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_ports: Option<(u16, u16)>,
    /// Ports of the subscriber's side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_ports: Option<(u16, u16)>,
    /// The transport protocol's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// Code points, by names or numbers with commas between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<String>,
}

impl FlowRule {
    /// The rule in one direction.
    ///
    /// # Errors
    /// If a text of it is none of what it should be.
    pub fn rule(&self, direction: Direction) -> Result<Rule, String> {
        let prefix = |text: &Option<String>| match text {
            None => Ok(Prefix::ALL),
            Some(text) => text.parse::<Prefix>().map_err(|error| error.to_string()),
        };
        let ports = |ports: Option<(u16, u16)>| {
            let (first, last) = ports.unwrap_or((0, u16::MAX));
            first..=last
        };
        let (remote, local) = (prefix(&self.remote)?, prefix(&self.local)?);
        let (remote_ports, local_ports) = (ports(self.remote_ports), ports(self.local_ports));
        let mut rule = Rule {
            protocol: self.protocol,
            class: self.class,
            ..Rule::default()
        };
        if let Some(dscp) = &self.dscp {
            rule.dscp = dscp
                .parse()
                .map_err(|error: tidegate_limiter::DscpError| error.to_string())?;
        }
        (rule.source, rule.destination) = (remote, local);
        (rule.source_ports, rule.destination_ports) = (remote_ports, local_ports);
        if direction == Direction::Up {
            std::mem::swap(&mut rule.source, &mut rule.destination);
            std::mem::swap(&mut rule.source_ports, &mut rule.destination_ports);
        }
        Ok(rule)
    }
}

/// How one direction is limited.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limits {
    /// Whose packets: rules mean the other side's and the subscriber's addresses.
    pub direction: Direction,
    /// Of the aggregate, bit/s; 0 if nothing is limited.
    pub rate: u64,
    /// The limiter.
    pub means: Means,
    /// How the rate is shared.
    pub policy: Policy,
    /// The first that fits gives a packet's class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<FlowRule>,
    /// The class of packets that no rule fits; the last one if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_class: Option<u16>,
    /// The code point that packets beyond the limit go on with; they are dropped if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<u8>,
}

impl Limits {
    /// No limit; packets are counted.
    pub fn none(direction: Direction) -> Self {
        Self {
            direction,
            rate: 0,
            means: Means::Unlimited,
            policy: Policy::Queue,
            rules: Vec::new(),
            default_class: None,
            mark: None,
        }
    }

    /// As the data path takes it.
    ///
    /// # Errors
    /// What a limiter would not take: the policy, a rule, a size, the rate.
    pub fn plan(&self) -> Result<Plan, String> {
        let tree = self.policy.tree().map_err(|error| error.to_string())?;
        let program = Arc::new(Program::new(&tree));
        let rules: Vec<Rule> = self
            .rules
            .iter()
            .map(|rule| rule.rule(self.direction))
            .collect::<Result<_, _>>()?;
        if rules.len() > MAX_RULES {
            let found = rules.len();
            return Err(format!(
                "at most {MAX_RULES} rules can be given, these are {found}"
            ));
        }
        let key = HashKey::new(0, 0);
        Classifier::new(&program, rules.clone(), self.default_class, key)
            .map_err(|error| error.to_string())?;
        let rate = Rate::from_bits_per_second(self.rate);
        let scheme = match self.means {
            Means::BcPqp {
                queue,
                period,
                upper,
                lower,
            } => Scheme::PhantomQueues {
                size: queue,
                control: Some(
                    BurstControl::DEFAULT
                        .with_period(period)
                        .and_then(|control| control.with_thresholds(Thresholds { upper, lower }))
                        .map_err(|error| error.to_string())?,
                ),
            },
            Means::Pqp { queue } => Scheme::PhantomQueues {
                size: queue,
                control: None,
            },
            Means::Policer { burst } => Scheme::Policer { burst },
            Means::Unlimited => Scheme::Unlimited,
        };
        // Limiters know best what they can be: a bucket is held to the same bounds as a queue.
        let size = match scheme {
            Scheme::PhantomQueues { size, .. } => size,
            Scheme::Policer { burst } => burst,
            Scheme::Unlimited => 1,
        };
        let checked = match scheme {
            Scheme::Unlimited => Rate::from_bits_per_second(1_000_000),
            _ => rate,
        };
        let room = Room {
            queues: MAX_QUEUES,
            shares: MAX_SHARES,
        };
        PhantomQueuesConfig::new(program.clone(), checked, size)
            .and_then(|_| program.check_room(room))
            .map_err(|error| error.to_string())?;
        Ok(Plan {
            rate,
            scheme,
            program,
            rules,
            default_class: self.default_class,
            excess: self.mark.map_or(Excess::Drop, Excess::Mark),
        })
    }

    /// Number of queues; 1 where the policy is none.
    pub fn queues(&self) -> usize {
        self.policy
            .tree()
            .map_or(1, |tree| Program::new(&tree).queues())
    }
}
