//! Rate limiters for networks: policers, three-colour markers, fair policers, phantom queues (PQP and
//! BC-PQP) and shapers, as plain algorithms.
//!
//! A limiter enforces a rate on an *aggregate*: the traffic of one subscriber in one direction, say.
//! You tell it the time and what it needs to know of a packet, and it decides:
//!
//! ```
//! use tidegate_limiter::{Decision, PacketMeta, PolicerConfig, TokenBucket};
//!
//! // 8 Mbit/s, and a bucket of 3000 bytes.
//! let config = PolicerConfig::new("8mbit".parse()?, 3000)?;
//! let mut policer = TokenBucket::new(&config, 0);
//! let packet = PacketMeta { bytes: 1500, ..PacketMeta::default() };
//! assert_eq!(policer.offer(0, &packet), Decision::Pass);
//! assert_eq!(policer.offer(0, &packet), Decision::Pass);
//! assert_eq!(policer.offer(0, &packet), Decision::Drop);
//! // 1500 bytes at 8 Mbit/s take 1.5 ms.
//! assert_eq!(policer.offer(1_500_000, &packet), Decision::Pass);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What all limiters have in common
//!
//! - They count in integers. The same packets get the same decisions on every machine, and what is
//!   left of a division is kept: no rate drifts.
//! - They have no clock: [time](Nanos) is passed in. Time that goes back counts as no time.
//! - They allocate nothing per packet, and do no input or output.
//!
//! # Choosing a limiter
//!
//! | Limiter | Configured by | It drops or keeps | Use it to |
//! |---|---|---|---|
//! | [`TokenBucket`] | [`PolicerConfig`] | drops | enforce a rate, at the least cost |
//! | [`SingleRateMarker`], [`TwoRateMarker`] | [`SingleRateConfig`], [`TwoRateConfig`] | marks or drops | mark what exceeds a contract, RFC 2697 and RFC 2698 |
//! | [`FairPolicer`], [`WaterFillingPolicer`] | [`FairPolicerConfig`], [`WaterFillingConfig`] | drops | share a bucket among flows, as published |
//! | [`PhantomQueues`] | [`PhantomQueuesConfig`] | drops | share a rate by a policy, without buffers: PQP, and with [`BurstControl`] BC-PQP |
//! | [`Shaper`], [`Fleet`] | [`ShaperConfig`] | keeps | share a rate by a policy, with buffers and so without losses of short bursts |
//!
//! Configurations are valid by construction. A constructor rejects what cannot be enforced, and its
//! [`ConfigError`] names the [`Field`] that is wrong. [`sizing`] says how large buckets and queues
//! should be. [`LimiterConfig`] and [`Limiter`] are enums over all of them, for programs that let their
//! users choose; [`Scheme`] has their names. [`Police`] is the trait of those that decide at once, and of
//! limiters that you write.
//!
//! # Sharing a rate
//!
//! A [`PolicyTree`] says how queues share the rate of an aggregate: equally, by weight, by priority, and
//! nested. A [`Program`] is the same as flat tables, which limiters walk without recursion. A
//! [`Classifier`] finds a packet's queue from its headers: match [`Rule`]s choose the class, and the
//! hash of its flow chooses a queue in the class.
//!
//! ```
//! use tidegate_limiter::*;
//!
//! // Voice first; what it leaves is shared equally by all other flows.
//! let policy = PolicyTree::priority(vec![PolicyTree::queue(), PolicyTree::fair(8)?])?;
//! let rate = "10mbit".parse()?;
//! let queue = sizing::phantom_queue(rate, sizing::Path { rtt: 100_000_000, mss: 1500 });
//! let config = PhantomQueuesConfig::new(&policy, rate, queue)?
//!     .with_burst_control(BurstControl::DEFAULT);
//! let voice = Rule { dscp: "ef".parse()?, class: 0, ..Rule::default() };
//! let classifier = Classifier::new(config.program(), vec![voice], None, HashKey::from_bytes(*b"a 16 byte secret"))?;
//! let mut limiter = PhantomQueues::new(&config, 0);
//!
//! let headers = Headers {
//!     source: "198.51.100.7".parse()?,
//!     destination: "192.0.2.1".parse()?,
//!     protocol: 6,
//!     ports: Some(Ports { source: 443, destination: 50_000 }),
//!     dscp: 0,
//! };
//! let packet = classifier.classify(&headers.into(), 1500);
//! assert_eq!(limiter.offer(0, &packet), Decision::Pass);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Writing a limiter
//!
//! A [`Meter`] turns time into bytes exactly, and a [`Wheel`] keeps many deadlines.
//! `examples/own_limiter.rs` is a limiter of 30 lines.
//!
//! # Sources
//!
//! Comments cite `[BCPQP]`, the paper on burst-controlled phantom queues, and `[Flach16]`, *An
//! Internet-Wide Analysis of Traffic Policing* (SIGCOMM 2016).

mod bucket;
mod classify;
mod config;
mod ecn;
mod error;
mod fair_policer;
mod hierarchy;
mod limiter;
mod marker;
mod meter;
pub mod pacing;
mod phantom;
mod policy;
mod prefetch;
mod rate;
mod scheme;
mod shaper;
pub mod sizing;
mod units;
mod wheel;

pub use bucket::{PolicerConfig, TokenBucket};
pub use classify::{
    Classifier, ClassifyError, DscpError, DscpSet, FlowKey, HashKey, Headers, Ports, Prefix,
    PrefixError, Rule,
};
pub use config::LimiterConfig;
pub use ecn::Ecn;
pub use error::{ConfigError, Field};
pub use fair_policer::{FairPolicer, FairPolicerConfig, WaterFillingConfig, WaterFillingPolicer};
pub use hierarchy::{Hierarchy, HierarchyError, NetworkNode, Share};
pub use limiter::{Fate, Limiter, Occupancy};
pub use marker::{
    Colour, ColourMode, Marking, SingleRateBursts, SingleRateConfig, SingleRateMarker,
    TwoRateConfig, TwoRateMarker, TwoRates,
};
pub use meter::Meter;
pub use phantom::{
    BurstControl, PaperControl, PhantomQueues, PhantomQueuesConfig, QueueFill, SizedPhantomQueues,
    Thresholds,
};
pub use policy::{Class, PolicyError, PolicyTree, Program, Room};
pub use prefetch::{prefetch_all, prefetch_between};
pub use rate::{Rate, RateError};
pub use scheme::{Scheme, SchemeError};
pub use shaper::{Backlog, Fleet, FleetSettings, Shaper, ShaperConfig};
pub use units::{Bytes, BytesError, TimeError, choices, parse_time};
pub use wheel::{Wheel, WheelSettings};

/// The tables of a policy, for data paths that walk them.
pub mod program {
    pub use crate::policy::{Class, Kind, Node, Program, Room, Step};
}

/// Nanoseconds from an origin that is the caller's. Steps back in time count as none.
pub type Nanos = u64;

/// What a limiter needs to know of a packet. A [`Classifier`] makes it from the packet's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketMeta {
    /// Bytes to be charged. The caller chooses the layer and the overhead.
    pub bytes: u32,
    /// The queue of the policy that the packet belongs to, below [`Program::queues`].
    pub queue: u16,
    /// The queues that its flow may have instead, if they are several: then `queue` is where the flow's hash points.
    pub class: Class,
    /// The packet's differentiated services code point, RFC 2474.
    pub dscp: u8,
    /// Its ECN field. A [`Classifier`] leaves it at its default, with which nothing is marked.
    pub ecn: Ecn,
    /// A hash of the packet's flow, with a seed that users do not know.
    pub flow: u32,
    /// The same of the host of the aggregate that it goes to or comes from.
    pub host: u32,
}

/// A limiter that decides about each packet at once: any of this crate except a shaper, or another
/// program's.
pub trait Police: std::fmt::Debug {
    /// Decides about a packet that comes at this time. The same packets must get the same decisions.
    fn offer(&mut self, now: Nanos, packet: &PacketMeta) -> Decision;
}

macro_rules! police {
    ($($limiter:ty),* $(,)?) => {$(
        impl Police for $limiter {
            fn offer(&mut self, now: Nanos, packet: &PacketMeta) -> Decision {
                <$limiter>::offer(self, now, packet)
            }
        }
    )*};
}
police!(
    TokenBucket,
    SingleRateMarker,
    TwoRateMarker,
    FairPolicer,
    WaterFillingPolicer,
    PhantomQueues,
);

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// It goes on as it is.
    Pass,
    /// It goes on with this differentiated services code point.
    Mark(u8),
    /// It goes on with the ECN field *congestion experienced*, RFC 3168. Only phantom queues decide so,
    /// and only about packets that are [ECN-capable](Ecn::is_capable).
    Ce,
    /// It goes no further.
    Drop,
}
