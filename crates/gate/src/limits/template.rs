//! A plan before its rate is known: sizes that are left to us follow from the rate.

use serde::{Deserialize, Serialize};
use tidegate_limiter::{BurstControl, Rate, sizing};

use super::{FlowRule, Limits, Means, Policy};
use crate::table::Direction;

/// Bytes of the kernel's largest super-packet, but for IPv6 BIG TCP: one has to fit into a queue
/// with some others, or nothing of a sender passes that makes them.
const SUPER: u64 = 65_536;
/// Bytes of a full packet.
const PACKET: u32 = 1500;
/// No queue needs more than a terabyte.
const MOST: u64 = 1 << 40;

/// The limiter of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// Phantom queues with burst control.
    BcPqp,
    /// Phantom queues.
    Pqp,
    /// One token bucket.
    Policer,
    /// None.
    Unlimited,
}

/// One direction of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Template {
    /// bit/s; no limit without one.
    pub rate: Option<u64>,
    /// The limiter.
    pub scheme: Scheme,
    /// How the rate is shared.
    pub policy: Policy,
    /// What belongs to which class.
    pub rules: Vec<FlowRule>,
    /// The class of packets that no rule fits.
    pub default_class: Option<u16>,
    /// Packets beyond the limit go on with this code point, or are dropped.
    pub mark: Option<u8>,
    /// The longest round-trip time that is to be served well, nanoseconds.
    pub rtt: u64,
    /// Bytes of each phantom queue.
    pub queue: Option<u64>,
    /// Bytes of a policer's bucket.
    pub burst: Option<u64>,
    /// T, nanoseconds.
    pub period: u64,
    /// θ+ in thousandths.
    pub upper: u32,
    /// θ− in thousandths.
    pub lower: u32,
}

impl Default for Template {
    /// BC-PQP with 16 fair queues, and no rate yet.
    fn default() -> Self {
        Self {
            rate: None,
            scheme: Scheme::BcPqp,
            policy: Policy::Fair(16),
            rules: Vec::new(),
            default_class: None,
            mark: None,
            rtt: 100_000_000,
            queue: None,
            burst: None,
            period: BurstControl::DEFAULT.period(),
            upper: BurstControl::DEFAULT.thresholds().upper,
            lower: BurstControl::DEFAULT.thresholds().lower,
        }
    }
}

impl Template {
    /// The limits in this direction, at this rate or else the plan's.
    pub fn limits(&self, direction: Direction, rate: Option<u64>) -> Limits {
        let Some(bits) = rate.or(self.rate) else {
            return Limits::none(direction);
        };
        let rate = Rate::from_bits_per_second(bits);
        let queue = |needed: u64| self.queue.unwrap_or(needed.clamp(4 * SUPER, MOST));
        let means = match self.scheme {
            Scheme::BcPqp => Means::BcPqp {
                queue: queue(sizing::phantom_queue(rate, self.rtt, PACKET)),
                period: self.period,
                upper: self.upper,
                lower: self.lower,
            },
            Scheme::Pqp => Means::Pqp {
                queue: queue(sizing::correct_rate(rate, self.rtt, PACKET)),
            },
            Scheme::Policer => Means::Policer {
                burst: self
                    .burst
                    .unwrap_or(sizing::bdp(rate, self.rtt).clamp(2 * SUPER, MOST)),
            },
            Scheme::Unlimited => return Limits::none(direction),
        };
        // A bucket has no queues to share among.
        let shared = !matches!(means, Means::Policer { .. });
        Limits {
            direction,
            rate: bits,
            means,
            policy: match shared {
                true => self.policy.clone(),
                false => Policy::Queue,
            },
            rules: if shared {
                self.rules.clone()
            } else {
                Vec::new()
            },
            default_class: self.default_class.filter(|_| shared),
            mark: self.mark,
        }
    }
}

/// A plan, as the file says it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct PlanTemplate {
    /// To the subscriber.
    pub down: Template,
    /// From it.
    pub up: Template,
}

impl PlanTemplate {
    /// One direction.
    pub fn of(&self, direction: Direction) -> &Template {
        match direction {
            Direction::Down => &self.down,
            Direction::Up => &self.up,
        }
    }
}
