//! A plan before its rate is known: sizes that are left to us follow from the rate.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_limiter::{
    BurstControl, ConfigError, LimiterConfig, Nanos, PaperControl, PhantomQueuesConfig,
    PolicerConfig, PolicyTree, Program, Rate, Scheme, ShaperConfig, sizing,
};

use crate::calendar::Terms;
use crate::table::{BESIDE, Direction, PlanError};

use super::{Boost, FlowRule, Limits, LimitsError, fair_policer, is_true, yes};
/// Bytes of the kernel's largest super-packet, except with IPv6 BIG TCP. A queue must have room for
/// one and some other packets, or no packet passes of a sender that makes them.
const SUPER: u64 = 65_536;
/// Bytes of a full packet.
const PACKET: u32 = 1500;
/// Bytes of a full Ethernet frame with two tags. What is smaller drops every full packet.
const FRAME: u64 = 1522;
/// Bytes of ten packets, as a window begins with (RFC 6928).
const TEN_PACKETS: u64 = 10 * FRAME;
/// No queue needs more than a terabyte.
const MOST: u64 = 1 << 40;

/// One direction of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Template {
    /// bit/s; no limit without one.
    pub rate: Option<u64>,
    /// The limiter: one of [`Template::SCHEMES`].
    pub scheme: Scheme,
    /// How the rate is shared.
    pub policy: PolicyTree,
    /// Which packets belong to which class.
    pub rules: Vec<FlowRule>,
    /// The class of packets that match no rule.
    pub default_class: Option<u16>,
    /// Packets beyond the limit pass with this code point, or are dropped.
    pub mark: Option<u8>,
    /// The longest round-trip time that is to be served well.
    pub(super) rtt: Nanos,
    /// Bytes of each queue.
    pub queue: Option<u64>,
    /// Bytes of a policer's bucket, or that a shaper lets pass at once after a rest.
    pub burst: Option<u64>,
    /// Whether phantom queues mark packets of senders that use ECN.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub ecn: bool,
    /// What the subscriber may save up of the rate, for a larger burst after a rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boost: Option<Boost>,
    /// T, θ+ and θ− of burst control as in the paper.
    #[serde(flatten)]
    pub control: PaperControl,
}

impl Default for Template {
    /// BC-PQP with 16 fair queues, and no rate yet.
    fn default() -> Self {
        Self {
            rate: None,
            scheme: Scheme::BcPqp,
            policy: PolicyTree::default(),
            rules: Vec::new(),
            default_class: None,
            mark: None,
            rtt: 100_000_000,
            queue: None,
            burst: None,
            ecn: true,
            boost: None,
            control: PaperControl::DEFAULT,
        }
    }
}

impl Template {
    /// The schemes that the gate enforces.
    pub const SCHEMES: [Scheme; 7] = [
        Scheme::BcPqp,
        Scheme::BcPqpPaper,
        Scheme::Pqp,
        Scheme::Policer,
        Scheme::FairPolicer,
        Scheme::Shaper,
        Scheme::Unlimited,
    ];

    /// The longest round-trip time that can be served well: a minute.
    pub const MAX_RTT: Nanos = 60_000_000_000;

    /// Sizes that are left to us follow from another round-trip time.
    ///
    /// # Errors
    /// If it is above [`MAX_RTT`](Self::MAX_RTT).
    pub fn set_rtt(&mut self, rtt: Nanos) -> Result<(), LimitsError> {
        if rtt > Self::MAX_RTT {
            return Err(LimitsError::Rtt);
        }
        self.rtt = rtt;
        Ok(())
    }

    /// The limits in this direction, at this rate or else the plan's.
    ///
    /// A value that a limiter or the kernel would reject.
    pub fn limits(&self, direction: Direction, rate: Option<u64>) -> Result<Limits, LimitsError> {
        let (Some(bits), false) = (rate.or(self.rate), self.scheme == Scheme::Unlimited) else {
            return Ok(Limits::none(direction));
        };
        let limiter = self.limiter(Rate::from_bits_per_second(bits))?;
        // A bucket has no queues to share among.
        let shared = limiter.program().is_some();
        let limits = Limits {
            direction,
            limiter,
            rules: if shared {
                self.rules.clone()
            } else {
                Vec::new()
            },
            default_class: self.default_class.filter(|_| shared),
            mark: self.mark,
            node: None,
        };
        limits.plan()?;
        Ok(limits)
    }

    /// The sizes that are given, with their keys and the least that `auto` would choose.
    fn sizes(&self) -> impl Iterator<Item = (&'static str, u64, u64)> {
        let sizes = [
            ("queue", self.queue, 4 * SUPER),
            ("burst", self.burst, 2 * SUPER),
        ];
        let given = |(key, size, least): (_, Option<u64>, _)| size.map(|size| (key, size, least));
        sizes.into_iter().filter_map(given)
    }

    /// A size that drops the kernel's super-packets of 64 kB, and the least that `auto` would choose.
    pub(crate) fn small(&self) -> Option<(&'static str, u64, u64)> {
        // DPDK knows no such packets.
        let whole = |_: &_| !BESIDE.contains(&self.scheme);
        self.sizes()
            .filter(whole)
            .find(|&(_, size, least)| size < least)
    }

    fn limiter(&self, rate: Rate) -> Result<LimiterConfig, LimitsError> {
        // A shaper lets one packet pass in any case.
        let drops = |key, size| size < FRAME && (key, self.scheme) != ("burst", Scheme::Shaper);
        if let Some((key, size, _)) = self.sizes().find(|&(key, size, _)| drops(key, size)) {
            return Err(LimitsError::Small { key, size });
        }
        let boost = self.boost.map_or(0, |boost| boost.bytes(rate));
        if boost > Boost::MOST {
            return Err(LimitsError::Boost(boost));
        }
        let phantom = |needed: u64| {
            let queue = self.queue.unwrap_or(needed.clamp(4 * SUPER, MOST));
            let config = PhantomQueuesConfig::new(&self.policy, rate, queue)?;
            Ok::<_, ConfigError>(config.with_ecn(self.ecn).with_boost(boost))
        };
        let path = sizing::Path {
            rtt: self.rtt,
            mss: PACKET,
        };
        let bucket = || sizing::bdp(rate, self.rtt).clamp(2 * SUPER, MOST);
        let controlled = || phantom(sizing::phantom_queue(rate, path));
        Ok(match self.scheme {
            Scheme::BcPqp => controlled()?
                .with_burst_control(BurstControl::Bucket)
                .into(),
            Scheme::BcPqpPaper => controlled()?
                .with_burst_control(BurstControl::Paper(self.control))
                .into(),
            Scheme::Pqp => phantom(sizing::correct_rate(rate, path))?.into(),
            // A bucket that is larger by the boost saves as much.
            Scheme::Policer => {
                PolicerConfig::new(rate, self.burst.unwrap_or(bucket()) + boost)?.into()
            }
            Scheme::FairPolicer => {
                let needed = sizing::correct_rate(rate, path).clamp(2 * SUPER, MOST);
                fair_policer(rate, self.burst.unwrap_or(needed))?.into()
            }
            Scheme::Shaper => {
                let needed = sizing::bdp(rate, self.rtt).clamp(TEN_PACKETS, MOST);
                let queue = self.queue.unwrap_or(needed);
                ShaperConfig::new(Arc::new(Program::new(&self.policy)), rate)?
                    .with_queue_bytes(queue)?
                    .with_burst(self.burst.unwrap_or(0))
                    .into()
            }
            Scheme::Unlimited => LimiterConfig::Unlimited,
            other => return Err(PlanError::Scheme(other).into()),
        })
    }
}

/// A plan, as in the file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct PlanTemplate {
    /// To the subscriber.
    pub down: Template,
    /// From it.
    pub up: Template,
    /// When another plan takes its place.
    #[serde(default, skip_serializing_if = "Terms::is_empty")]
    pub terms: Terms,
}

impl PlanTemplate {
    /// The scheme of a direction that runs on DPDK only, and not below a node of the network, if there is one.
    pub(crate) fn alone(&self) -> Option<Scheme> {
        let schemes = [self.down.scheme, self.up.scheme];
        schemes.into_iter().find(|scheme| BESIDE.contains(scheme))
    }

    /// One direction.
    pub fn of(&self, direction: Direction) -> &Template {
        match direction {
            Direction::Down => &self.down,
            Direction::Up => &self.up,
        }
    }
}
