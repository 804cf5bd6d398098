//! The terms that configuration, gate and data paths share.
//!
//! A limiter is the state of one subscriber in one direction. Packets find it by a [`Match`]: an
//! address, tag or session of the subscriber. It runs under a [`Plan`], which many limiters may share.
//! It keeps its state as long as it keeps its number.

use std::ops::{Index, IndexMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tidegate_limiter::{HashKey, Prefix, Share};

mod plan;

pub(crate) use plan::BESIDE;
pub use plan::{Excess, MAX_RULES, MAX_UPPER, Plan, PlanError, ROOM};

/// A direction of a subscriber's traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// To the subscriber: its addresses are destinations.
    Down,
    /// From the subscriber: its addresses are sources.
    Up,
}

impl Direction {
    /// Both, in the order in which files and maps hold them.
    pub const BOTH: [Self; 2] = [Self::Down, Self::Up];

    /// The direction in tables, labels, files and JSON: `down` or `up`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
        }
    }
}

/// A value for each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PerDirection<T> {
    /// To the subscriber.
    pub down: T,
    /// From the subscriber.
    pub up: T,
}

impl<T> PerDirection<T> {
    /// The value that `make` gives for each direction.
    pub fn new(mut make: impl FnMut(Direction) -> T) -> Self {
        Self {
            down: make(Direction::Down),
            up: make(Direction::Up),
        }
    }

    /// What `make` gives for each value.
    pub fn map<U>(self, mut make: impl FnMut(T) -> U) -> PerDirection<U> {
        PerDirection {
            down: make(self.down),
            up: make(self.up),
        }
    }

    /// Both values, down first.
    pub fn values(self) -> [T; 2] {
        [self.down, self.up]
    }

    /// Both values with their directions, down first.
    pub fn iter(&self) -> impl Iterator<Item = (Direction, &T)> {
        [(Direction::Down, &self.down), (Direction::Up, &self.up)].into_iter()
    }
}

/// As a list of two, down first.
impl<T: Serialize> Serialize for PerDirection<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (&self.down, &self.up).serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for PerDirection<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (down, up) = Deserialize::deserialize(deserializer)?;
        Ok(Self { down, up })
    }
}

impl<T> Index<Direction> for PerDirection<T> {
    type Output = T;

    fn index(&self, direction: Direction) -> &T {
        match direction {
            Direction::Down => &self.down,
            Direction::Up => &self.up,
        }
    }
}

impl<T> IndexMut<Direction> for PerDirection<T> {
    fn index_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Down => &mut self.down,
            Direction::Up => &mut self.up,
        }
    }
}

/// How a subscriber's packets are recognised. Tags take precedence over addresses, PPPoE over QinQ,
/// QinQ over VLAN, and longer prefixes over shorter ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Match {
    /// Addresses of the subscriber.
    Prefix(Prefix),
    /// Exactly one VLAN tag.
    Vlan(u16),
    /// Two VLAN tags.
    QinQ {
        /// The tag of the service provider.
        outer: u16,
        /// The tag of the customer.
        inner: u16,
    },
    /// A PPPoE session, on any VLAN.
    Pppoe(u16),
}

/// Where packets from a subscriber come from. Parts that are 0 or missing may be anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Origin {
    /// A number for the name of the interface where they come in.
    pub port: u32,
    /// The sender in their frames.
    pub mac: Option<[u8; 6]>,
    /// Their outer tag and their inner one.
    pub tags: (u16, u16),
}

/// The limiter and plan that packets are assigned to. All matches of a subscriber have the same seat in
/// one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seat {
    /// The limiter's number.
    pub limiter: u32,
    /// The number of the plan that it runs under.
    pub plan: u32,
    /// A limiter follows the newest seat that names it. Newer seats have larger versions, which wrap.
    pub version: u32,
    /// Where packets from the subscriber come from. Nothing, for packets to it.
    pub from: Origin,
}

/// How the bytes of a packet are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounting {
    /// 3 to count from the IP header on, 2 to include the link layer's header and tags.
    pub layer: u8,
    /// Bytes that are added for each packet on the wire, such as preamble and checksum. May be negative.
    pub overhead: i16,
}

/// The fate of packets that match no subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unknown {
    /// They pass.
    Pass,
    /// They are dropped, except IPv6 neighbour discovery at a low rate.
    Drop,
}

/// The fate of frames that hold no IP packet, or whose addresses cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OtherFrames {
    /// Those from subscribers are dropped, and if unmatched packets are dropped, those to subscribers too.
    #[default]
    Auto,
    /// They pass, at any rate.
    Pass,
    /// They are dropped.
    Drop,
}

impl OtherFrames {
    /// Whether they are dropped in a direction.
    pub fn drops(self, direction: Direction, unknown: Unknown) -> bool {
        match self {
            Self::Auto => direction == Direction::Up || unknown == Unknown::Drop,
            Self::Pass => false,
            Self::Drop => true,
        }
    }
}

/// Frames that a network needs besides IP packets. Where other frames are dropped, these pass at a low rate for
/// each sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkFrames {
    /// ARP.
    pub arp: bool,
    /// PPPoE discovery, and what negotiates and keeps a session of PPP.
    pub ppp: bool,
    /// Frames to the addresses that bridges do not forward: spanning tree, LACP, 802.1X.
    pub bridge: bool,
    /// LLDP.
    pub lldp: bool,
}

impl Default for LinkFrames {
    fn default() -> Self {
        let (arp, ppp, bridge, lldp) = (true, true, true, false);
        Self {
            arp,
            ppp,
            bridge,
            lldp,
        }
    }
}

/// Source addresses that may come in from subscribers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sources {
    /// All but those of subscribers that are bound to another place.
    #[default]
    Bound,
    /// Also only those of subscribers. Hosts without an address pass at a low rate.
    Known,
}

/// Settings for all packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How bytes are counted.
    pub accounting: Accounting,
    /// The fate of packets that match no subscriber.
    pub unknown: Unknown,
    /// The fate of frames without IP.
    pub other_frames: OtherFrames,
    /// Which of them pass in any case.
    pub link_frames: LinkFrames,
    /// Source addresses that may come in from subscribers.
    pub sources: Sources,
    /// Whether to attach where another gate is attached already.
    pub beside: bool,
    /// Whether packets pass as they came, and what would happen to them is only counted.
    pub shadow: bool,
    /// Most flows that are watched at a time; 0: none is.
    pub flows: u32,
    /// Secret key of the flow hash.
    pub hash: HashKey,
}

/// Where a program is attached to an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hook {
    /// tc (tcx if the kernel has it, else clsact), incoming packets.
    TcIngress,
    /// tc, outgoing packets.
    TcEgress,
    /// XDP in the driver, incoming packets.
    XdpNative,
    /// XDP after the driver, incoming packets.
    XdpGeneric,
    /// tc, incoming packets whose destinations the kernel will translate.
    NatIngress,
    /// tc, outgoing packets whose sources the kernel has translated.
    NatEgress,
    /// A device of DPDK, incoming packets.
    DpdkIngress,
    /// A device of DPDK, outgoing packets.
    DpdkEgress,
}

impl Hook {
    /// The hook in tables, labels, files and JSON, such as `tc-ingress`.
    pub fn name(self) -> &'static str {
        match self {
            Self::TcIngress => "tc-ingress",
            Self::TcEgress => "tc-egress",
            Self::XdpNative => "xdp-native",
            Self::XdpGeneric => "xdp-generic",
            Self::NatIngress => "nat-ingress",
            Self::NatEgress => "nat-egress",
            Self::DpdkIngress => "dpdk-ingress",
            Self::DpdkEgress => "dpdk-egress",
        }
    }

    /// Where DPDK takes the packets that the kernel takes at this hook. It has none for translated addresses, and refuses them.
    pub fn on_dpdk(self) -> Self {
        match self {
            Self::TcIngress | Self::XdpNative | Self::XdpGeneric => Self::DpdkIngress,
            Self::TcEgress => Self::DpdkEgress,
            other => other,
        }
    }

    /// Whether packets are taken as they go out.
    pub fn is_egress(self) -> bool {
        matches!(self, Self::TcEgress | Self::NatEgress | Self::DpdkEgress)
    }

    /// Whether it is XDP.
    pub fn is_xdp(self) -> bool {
        matches!(self, Self::XdpNative | Self::XdpGeneric)
    }

    /// Whether packets have translated addresses there.
    pub fn is_nat(self) -> bool {
        matches!(self, Self::NatIngress | Self::NatEgress)
    }
}

/// An interface that the gate attaches to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attachment {
    /// The interface's name.
    pub interface: String,
    /// The hook.
    pub hook: Hook,
    /// The direction of the packets there: [`Direction::Down`] if they go to subscribers.
    pub direction: Direction,
}

/// The counts of a limiter since it was reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Packets that passed, counted as on the wire: a super-packet is several.
    pub passed_packets: u64,
    /// Their bytes, as they are charged.
    pub passed_bytes: u64,
    /// Packets that exceeded the limit: dropped, or passed with another code point.
    pub excess_packets: u64,
    /// Their bytes.
    pub excess_bytes: u64,
    /// Of the packets that passed, those that were marked as congested here (RFC 3168).
    pub marked_packets: u64,
}

impl Counters {
    /// The sum of two counts.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.zip(other, u64::wrapping_add)
    }

    /// The counts since an earlier count. A counter that fell was reset, and all of its value is
    /// new.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        self.zip(earlier, |now, before| {
            now.checked_sub(before).unwrap_or(now)
        })
    }

    fn zip(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            passed_packets: with(self.passed_packets, other.passed_packets),
            passed_bytes: with(self.passed_bytes, other.passed_bytes),
            excess_packets: with(self.excess_packets, other.excess_packets),
            excess_bytes: with(self.excess_bytes, other.excess_bytes),
            marked_packets: with(self.marked_packets, other.marked_packets),
        }
    }
}

/// A phantom queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QueueState {
    /// Bytes in it.
    pub length: u64,
    /// Magic bytes among these.
    pub magic: u64,
    /// Bytes that passed through it since the limiter was reset.
    pub passed_bytes: u64,
    /// Bytes that exceeded the limit.
    pub excess_bytes: u64,
}

/// A node of the network in one direction, as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeState {
    /// Bytes that passed, as far as limiters have counted them here.
    pub passed_bytes: u64,
    /// bit/s that passed lately: between the two latest looks, which are 50 ms apart if packets come.
    pub rate: u64,
    /// The share of their rate that limiters below may use.
    pub share: Share,
}

impl NodeState {
    /// Whether limiters below may use less than their rates.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.share < Share::WHOLE
    }
}

impl Default for NodeState {
    fn default() -> Self {
        Self {
            passed_bytes: 0,
            rate: 0,
            share: Share::WHOLE,
        }
    }
}

/// The counters and queues of a limiter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LimiterState {
    /// Its counters.
    pub counters: Counters,
    /// Its queues.
    pub queues: Vec<QueueState>,
    /// Bytes of its boost that are saved now, if no node above is full; `None` before its first packet, when all of it is, and
    /// without a boost.
    pub saved: Option<u64>,
}
