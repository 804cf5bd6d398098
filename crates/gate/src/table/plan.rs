//! Plans: how the data path limits the traffic of one or many subscribers.

use tidegate_limiter::{
    Class, Classifier, ClassifyError, ConfigError, HashKey, LimiterConfig, Program, Room, Rule,
    Scheme,
};

/// How large the policy of a plan may be: the room in the kernel's program.
pub const ROOM: Room = Room {
    queues: 24,
    shares: 5,
};
/// Most rules of a plan: each packet may have to try all of them.
pub const MAX_RULES: usize = 32;
/// Most bytes of a burst bucket, or of θ+ rT. The kernel's program multiplies them with weights.
pub const MAX_UPPER: u64 = 1 << 49;

/// The fate of a packet that exceeds the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// It is dropped.
    Drop,
    /// It passes with this code point (0 to 63).
    Mark(u8),
    /// It passes as it is, and is counted.
    Count,
}

/// How the traffic of one or many subscribers is limited. Every plan can be enforced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    limiter: LimiterConfig,
    rules: Vec<Rule>,
    unmatched: Class,
    excess: Excess,
    node: u32,
}

/// Why a plan cannot be enforced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A scheme that no gate has.
    #[error(
        "the gate has no limiter {0}: write bc-pqp, bc-pqp-paper, pqp, policer, fair-policer, shaper or unlimited"
    )]
    Scheme(Scheme),
    /// A fate that the scheme does not know.
    #[error("a {0} only drops packets beyond the limit: leave out `excess`")]
    Drops(Scheme),
    /// A scheme whose rate follows no node.
    #[error(
        "a {0} cannot be below a node of the network: choose another scheme, or leave out `parent`"
    )]
    Below(Scheme),
    /// A policy that needs more than [`ROOM`].
    #[error(transparent)]
    Room(#[from] ConfigError),
    /// θ+ rT of more than [`MAX_UPPER`] bytes.
    #[error(
        "`upper` of the rate in a `period` is {0} bytes, and may be at most {MAX_UPPER}: lower one of the three"
    )]
    Upper(u64),
    /// Rules or the default class do not fit the policy.
    #[error(transparent)]
    Classes(#[from] ClassifyError),
    /// More rules than [`MAX_RULES`].
    #[error("at most {MAX_RULES} rules can be given, these are {0}")]
    Rules(usize),
    /// A number above 63.
    #[error("{0} is not a code point: write a number from 0 to 63")]
    CodePoint(u8),
}

impl PlanError {
    /// The key of a plan that is wrong.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Scheme(_) | Self::Below(_) => "scheme",
            Self::Drops(_) => "excess",
            Self::Room(error) => error.field().name(),
            Self::Upper(_) => "upper",
            Self::Classes(ClassifyError::Class { .. }) => "default-class",
            Self::Classes(ClassifyError::Rules(_)) | Self::Rules(_) => "rule",
            Self::CodePoint(_) => "excess",
        }
    }
}

/// Schemes that run beside the program that decides by maps, and only where packets can wait: on DPDK. They only drop, and cannot be
/// below a node of the network.
pub(crate) const BESIDE: [Scheme; 2] = [Scheme::FairPolicer, Scheme::Shaper];

impl Plan {
    /// A plan that the gate can enforce, those with a FairPolicer or a shaper on DPDK only. The first rule that matches a packet gives its class. Packets
    /// that no rule matches belong to the default class, or else to the last one.
    ///
    /// # Errors
    /// If the gate lacks the limiter or room for it, or a rule or the default class names a class that the
    /// policy does not have.
    pub fn new(
        limiter: LimiterConfig,
        rules: Vec<Rule>,
        default_class: Option<u16>,
        excess: Excess,
    ) -> Result<Self, PlanError> {
        match &limiter {
            LimiterConfig::PhantomQueues(config) => {
                config.program().check_room(ROOM)?;
                let control = config.burst_control();
                let upper = control.map_or(0, |control| control.upper_bytes(config.rate()));
                if upper > MAX_UPPER {
                    return Err(PlanError::Upper(upper));
                }
            }
            LimiterConfig::Shaper(config) => config.program().check_room(ROOM)?,
            LimiterConfig::Policer(_)
            | LimiterConfig::FairPolicer(_)
            | LimiterConfig::Unlimited => {}
            other => return Err(PlanError::Scheme(other.scheme())),
        }
        if rules.len() > MAX_RULES {
            return Err(PlanError::Rules(rules.len()));
        }
        let mut unmatched = Class {
            first: 0,
            queues: 1,
            hosts: 0,
        };
        if let Some(program) = limiter.program() {
            Classifier::new(
                program,
                rules.clone(),
                default_class,
                HashKey::from_bytes([0; 16]),
            )?;
            let classes = program.classes();
            unmatched = classes[default_class.map_or(classes.len() - 1, usize::from)];
        }
        match excess {
            Excess::Mark(dscp) if dscp > 63 => return Err(PlanError::CodePoint(dscp)),
            Excess::Mark(_) | Excess::Count if BESIDE.contains(&limiter.scheme()) => {
                return Err(PlanError::Drops(limiter.scheme()));
            }
            _ => {}
        }
        Ok(Self {
            limiter,
            rules,
            unmatched,
            excess,
            node: 0,
        })
    }

    /// The same below a node of the network, by its number in the data path.
    #[must_use]
    pub fn below(self, node: u32) -> Self {
        Self { node, ..self }
    }

    /// The number of the node of the network that its limiters are below; 0 if there is none.
    pub fn node(&self) -> u32 {
        self.node
    }

    /// The limiter.
    pub fn limiter(&self) -> &LimiterConfig {
        &self.limiter
    }

    /// The first rule that matches a packet gives its class.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The queues of packets that match no rule.
    pub fn unmatched(&self) -> Class {
        self.unmatched
    }

    /// The fate of packets that exceed the limit.
    pub fn excess(&self) -> Excess {
        self.excess
    }

    /// Number of its queues; 1 without a policy.
    pub fn queues(&self) -> usize {
        self.limiter.program().map_or(1, Program::queues)
    }
}
