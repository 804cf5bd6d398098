//! Every rate limiter of Tidegate, as algorithms: integers only, no clock (time is passed in), no
//! input or output, no allocation per packet. This crate depends on nothing else of the workspace.
//!
//! A bufferless limiter answers for each packet of one aggregate (a subscriber's traffic in one
//! direction) at once; a shaper keeps packets and releases them later. Both share the aggregate's
//! rate among queues by a [`Program`], made of a [`PolicyTree`].

mod bucket;
mod classify;
mod config;
mod fair_policer;
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
    Classifier, ClassifyError, DscpError, DscpSet, FlowKey, HashKey, Prefix, PrefixError, Rule,
};
pub use config::{ConfigError, Field, LimiterConfig};
pub use fair_policer::{FairPolicer, FairPolicerConfig, WaterFillingConfig, WaterFillingPolicer};
pub use limiter::{Fate, Limiter, Occupancy};
pub use marker::{
    Colour, ColourMode, Marking, SingleRateBursts, SingleRateConfig, SingleRateMarker,
    TwoRateConfig, TwoRateMarker, TwoRates,
};
pub use meter::Meter;
pub use phantom::{
    BurstControl, PhantomQueues, PhantomQueuesConfig, RoomyPhantomQueues, SizedPhantomQueues,
    Thresholds,
};
pub use policy::{Class, Kind, Node, PolicyError, PolicyTree, Program, Room, Step};
pub use rate::{Rate, RateError};
pub use scheme::{Scheme, SchemeError};
pub use shaper::{Backlog, Fleet, Shaper, ShaperConfig};
pub use units::{Bytes, BytesError, TimeError, parse_time};
pub use wheel::Wheel;

/// Nanoseconds from an origin that is the caller's. Steps back in time count as none.
pub type Nanos = u64;

/// What a limiter needs to know of a packet; see `classify` for where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketMeta {
    /// Bytes to be charged: on whichever layer, with whatever overhead, is the caller's choice.
    pub bytes: u32,
    /// The queue of the policy that the packet belongs to, below [`Program::queues`].
    pub queue: u16,
    /// The packet's differentiated services code point, RFC 2474.
    pub dscp: u8,
    /// A hash of the packet's flow, with a seed that users do not know.
    pub flow: u32,
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// It goes on as it is.
    Pass,
    /// It goes on with this differentiated services code point.
    Mark(u8),
    /// It goes no further.
    Drop,
}
